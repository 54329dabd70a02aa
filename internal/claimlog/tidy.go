package claimlog

import (
	"slices"
	"time"
)

// retryTidy is how long to wait until what could not be deleted is tried
// again.
const retryTidy = 10 * time.Second

// finishActive ends the active segment. Closing it, which takes a while, is
// left to keepTidy.
func (l *Log) finishActive() {
	if l.active == nil {
		return
	}
	l.mu.Lock()
	l.finished = append(l.finished, l.active)
	l.mu.Unlock()
	l.active = nil
	select {
	case l.untidy <- struct{}{}:
	default: // it knows
	}
}

func (l *Log) finishedSegments() []*segment {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.finished)
}

// keepTidy closes segments when they are finished and deletes them when they
// are expired.
func (l *Log) keepTidy() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-l.untidy:
		case <-timer.C:
		case <-l.stopTidy:
			return
		}
		timer.Reset(l.tidy(time.Now()))
	}
}

// tidy does it once and returns in what time there will be more to delete.
func (l *Log) tidy(now time.Time) time.Duration {
	again := l.options.Life
	for _, s := range l.finishedSegments() {
		left := s.until.Sub(now)
		switch {
		case left > 0:
			if s.file != nil {
				l.closeSegment(s)
			}
		case l.remove(s):
			continue
		default:
			left = retryTidy
		}
		again = min(again, left)
	}
	return again
}

func (l *Log) closeSegment(s *segment) {
	if err := s.close(); err != nil {
		l.log.Warn("a segment of claims is not sealed", "file", s.name, "error", err)
	}
}

// remove deletes a segment and reports whether it could.
func (l *Log) remove(s *segment) bool {
	if s.file != nil {
		_ = s.file.Close()
		s.file = nil
	}
	if err := l.root.Remove(s.name); err != nil {
		l.log.Warn("an expired segment of claims is not deleted", "file", s.name, "error", err)
		return false
	}
	l.used.Add(-s.size)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.finished = slices.DeleteFunc(l.finished, func(f *segment) bool { return f == s })
	return true
}
