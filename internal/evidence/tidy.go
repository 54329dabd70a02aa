package evidence

import (
	"errors"
	"io/fs"
	"runtime"
	"slices"
	"time"
)

const (
	// linger is the time for which entries without a waiting caller wait for others,
	// and within which written bytes are synced to disk.
	linger = 50 * time.Millisecond
	// retry is the pause before a failed write is repeated.
	retry     = 50 * time.Millisecond
	lastRetry = 2 * time.Second
	// tidyEvery is the interval at which expired segments are looked for.
	tidyEvery = 10 * time.Second
)

// tend writes the entries without a waiting caller, syncs them to disk, closes finished
// segments and removes those with only expired claims.
func (l *Log) tend() {
	tidy := time.NewTicker(tidyEvery)
	defer tidy.Stop()
	wait := retry
	for {
		select {
		case <-l.stir:
			if l.pause(linger) {
				return
			}
			l.settle()
			if !l.failing.Load() {
				wait = retry
				continue
			}
			if l.pause(wait) {
				return
			}
			wait = min(2*wait, lastRetry)
			signal(l.stir)
		case <-l.untidy:
			l.tidy(time.Now())
		case now := <-tidy.C:
			l.tidy(now)
		case <-l.stop:
			return
		}
	}
}

// pause waits, and reports whether the log is closed meanwhile.
func (l *Log) pause(d time.Duration) (stopped bool) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return false
	case <-l.stop:
		return true
	}
}

// settle writes the entries that wait and has the disk take them.
func (l *Log) settle() {
	l.mu.Lock()
	l.keep()
	var s *segment
	if n := len(l.segments); n > 0 {
		s = l.segments[n-1]
	}
	l.mu.Unlock()
	if s == nil || l.options.SyncAlways || !s.dirty.Swap(false) {
		return
	}
	err := s.file.Sync()
	if err == nil && l.unnamed.Swap(false) {
		if err = l.syncFolder(); err != nil {
			l.unnamed.Store(true)
		}
	}
	if err != nil {
		s.dirty.Store(true)
		l.log.Error("entries of the audit trail are not safe from a power cut", "error", err)
	}
}

// begin makes a new segment, which a block begins.
func (l *Log) begin(number uint32, now time.Time) (*segment, error) {
	s := &segment{number: number, begun: now}
	var err error
	if s.file, err = l.options.create(l.root, s.name()); err != nil {
		return nil, err
	}
	if l.options.SyncAlways {
		err = l.syncFolder()
	} else {
		l.unnamed.Store(true)
	}
	if err != nil {
		_ = s.file.Close()
		_ = l.root.Remove(s.name())
		return nil, err
	}
	l.mu.Lock()
	l.segments = append(l.segments, s)
	l.roll = false
	l.mu.Unlock()
	return s, nil
}

// syncFolder makes the names of new segments last.
func (l *Log) syncFolder() error {
	if runtime.GOOS == "windows" { // keeps names by itself, and cannot be asked to
		return nil
	}
	folder, err := l.root.Open(".")
	if err != nil {
		return err
	}
	defer func() { _ = folder.Close() }()
	return folder.Sync()
}

// finishActive ends the active segment. Closing it, which takes a while, is
// left to tend.
func (l *Log) finishActive() {
	if l.active == nil {
		return
	}
	l.active.finished.Store(true)
	l.active = nil
	signal(l.untidy)
}

// tidy closes finished segments, removes those at the beginning with only expired
// claims, and sums up the size of claims.
func (l *Log) tidy(now time.Time) {
	l.mu.Lock()
	all := slices.Clone(l.segments)
	l.mu.Unlock()
	age, front := l.older(now), true
	var claimed int64
	for _, s := range all {
		finished := s.finished.Load()
		if finished && !s.closed.Load() {
			l.closeSegment(s)
		}
		l.mu.Lock()
		until, entries, blocks, size := s.until, s.entries, len(s.blocks), s.length()
		if !finished && blocks > 0 && entries == 0 && now.Sub(s.begun) >= l.options.Life {
			l.roll = true
		}
		l.mu.Unlock()
		if front = front && finished && entries == 0 && until <= age && s.damaged == 0; front && l.remove(s) == nil {
			continue
		}
		if until > age {
			claimed += size
		}
	}
	l.claimed.Store(claimed)
}

func (l *Log) closeSegment(s *segment) {
	s.finished.Store(true)
	if err := s.close(); err != nil {
		l.log.Warn("a segment of claims and entries is not sealed", "file", s.name(), "error", err)
		return
	}
	if l.options.GroupBlocks {
		return // it goes when it is shipped
	}
	if err := l.writeIndex(s); err != nil {
		l.log.Warn("a segment of claims and entries has no index", "file", s.name(), "error", err)
	}
}

// remove deletes a segment.
func (l *Log) remove(s *segment) error {
	l.removing.Lock()
	defer l.removing.Unlock()
	l.mu.Lock()
	size, there := s.length(), slices.Contains(l.segments, s)
	l.mu.Unlock()
	if !there {
		return nil
	}
	if err := l.removeFiles(s); err != nil {
		l.log.Warn("a segment that is not needed is not deleted", "file", s.name(), "error", err)
		return err
	}
	l.used.Add(-size)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.segments = slices.DeleteFunc(l.segments, func(other *segment) bool { return other == s })
	return nil
}

func (l *Log) removeFiles(s *segment) error {
	for _, name := range []string{s.name(), indexName(s.number)} {
		if err := l.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
