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
		if now.Sub(info.ModTime()) < l.options.Life { // else nothing in it is valid
			if s, err = l.loadSegment(f.Name(), now); err != nil {
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

// loadSegment reads one segment. It returns nil if no claim in it is valid
// any more.
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
	case sealed || errors.As(err, &newer):
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
	if !until.After(now) {
		return
	}
	if until.Before(c.Expires) { // the clock was set back since
		c.Expires = until
	}
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
