package claimlog

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/aibridge/aibridge/commands"
)

// doubt is how far ahead the system's clock may be when the log is opened:
// claims that seem to have expired since may not have, and are kept for a
// claim's life more. Older ones are dropped.
const doubt = 24 * time.Hour

// load reads the segments of earlier processes, oldest first.
func (l *Log) load(now time.Time) error {
	files, err := fs.ReadDir(l.root.FS(), ".")
	if err != nil {
		return fmt.Errorf("claimlog: list the segments: %w", err)
	}
	for _, f := range files {
		number, ok := segmentNumber(f.Name())
		if !ok {
			continue
		}
		l.next = max(l.next, number+1)
		info, err := f.Info()
		if err != nil {
			return fmt.Errorf("claimlog: %w", err)
		}
		var s *segment
		if age := now.Sub(info.ModTime()); age < doubt {
			s, err = l.loadSegment(f.Name(), now)
			if err != nil && age >= l.options.Life { // what is in it has expired, unless the clock is ahead
				l.log.Warn("an old segment of claims cannot be read and is dropped", "file", f.Name(), "error", err)
			} else if err != nil {
				return err
			}
		}
		if s == nil {
			if err := l.root.Remove(f.Name()); err != nil {
				return fmt.Errorf("claimlog: remove an expired segment: %w", err)
			}
			continue
		}
		l.finished = append(l.finished, s)
		l.used.Add(s.size)
	}
	return nil
}

// loadSegment reads one segment. It returns nil if there is no claim in it.
func (l *Log) loadSegment(name string, now time.Time) (*segment, error) {
	data, err := l.root.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("claimlog: read a segment: %w", err)
	}
	records, sealed := bytes.CutSuffix(data, []byte(seal))
	s := &segment{name: name, until: now}
	good, err := readRecords(records, func(c commands.Claim) { l.loadClaim(s, c, now) })
	s.size = int64(good)
	var newer newerError
	switch {
	case err == nil:
	case sealed || errors.As(err, &newer) || !torn(records[good:]):
		path := filepath.Join(l.root.Name(), name)
		return nil, fmt.Errorf("claimlog: %s, offset %d: %w; move the file away to start without the claims in it, whose commands might then run twice", path, good, err)
	default:
		l.log.Warn("cut off an unfinished write of claims", "file", name, "offset", good, "bytes", len(records)-good)
	}
	if len(s.left) == 0 {
		return nil, nil
	}
	if !sealed {
		return s, l.mend(s)
	}
	return s, nil
}

func (l *Log) loadClaim(s *segment, c commands.Claim, now time.Time) {
	until := l.until(c.Expires, now)
	if !until.After(now) { // or the clock is ahead
		until = now.Add(l.options.Life)
	}
	c.Expires = until // no later than it can matter, if the clock was set back since
	s.left = append(s.left, c)
	if until.After(s.until) {
		s.until = until
	}
}

// mend cuts off what is behind the last record of a segment and seals it.
func (l *Log) mend(s *segment) error {
	f, err := l.root.OpenFile(s.name, os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("claimlog: mend a segment: %w", err)
	}
	s.file, s.torn = diskFile{f}, true
	l.closeSegment(s)
	return nil
}
