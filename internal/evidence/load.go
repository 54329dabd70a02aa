package evidence

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/aibridge/aibridge/commands"
)

// doubt is the time by which the system's clock may be ahead when the log is opened:
// claims that seem to have expired since the log ended may not have, and are kept for a
// claim's life more. Later none are.
const doubt = 24 * time.Hour

// A leftClaim is a claim that was read, and until which age of the log it is of
// use.
type leftClaim struct {
	commands.Claim
	until time.Duration
}

// An end is the time of a log's last write, by the wall clock and by the log's age.
type end struct {
	at  time.Time
	age time.Duration
}

// load reads the segments of earlier processes, and repairs them if it may.
func (l *Log) load(mend bool) error {
	files, err := fs.ReadDir(l.root.FS(), ".")
	if err != nil {
		return fmt.Errorf("evidence: list the segments: %w", err)
	}
	var claims []leftClaim
	for _, f := range files {
		number, ok := segmentNumber(f.Name())
		if !ok {
			continue
		}
		info, err := f.Info()
		if err != nil {
			return fmt.Errorf("evidence: %w", err)
		}
		s := &segment{number: number, begun: info.ModTime()}
		found, err := l.loadSegment(s, info.ModTime(), mend)
		if err != nil {
			return err
		}
		if len(s.blocks) == 0 {
			if mend {
				l.removeFiles(s)
			}
			continue
		}
		claims = append(claims, found...)
		l.segments = append(l.segments, s)
		l.block = s.last()
		l.used.Add(s.length())
	}
	if mend {
		l.removeOrphans(files)
	}
	if len(l.segments) == 0 {
		return nil
	}
	return l.loadClaims(claims)
}

// removeOrphans removes indexes without a segment.
func (l *Log) removeOrphans(files []fs.DirEntry) {
	for _, f := range files {
		base, ok := strings.CutSuffix(f.Name(), indexSuffix)
		if !ok {
			continue
		}
		if _, err := l.root.Stat(base + segmentSuffix); errors.Is(err, fs.ErrNotExist) {
			_ = l.root.Remove(f.Name())
		}
	}
}

// loadSegment learns the contents of a segment: by its index, or else by reading it. Of
// one that was read it returns the claims.
func (l *Log) loadSegment(s *segment, written time.Time, mend bool) ([]leftClaim, error) {
	f, err := l.root.Open(s.name())
	if err != nil {
		return nil, fmt.Errorf("evidence: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("evidence: %w", err)
	}
	tail := make([]byte, len(seal))
	if size := info.Size() - int64(len(seal)); size >= 0 {
		if _, err := f.ReadAt(tail, size); err != nil {
			return nil, fmt.Errorf("evidence: read a segment: %w", err)
		}
		s.sealed = string(tail) == seal
		if s.sealed && l.readIndex(s, size) == nil {
			s.finished.Store(true)
			s.closed.Store(true)
			return nil, nil
		}
	}
	data, err := l.root.ReadFile(s.name())
	if err != nil {
		return nil, fmt.Errorf("evidence: read a segment: %w", err)
	}
	if s.sealed {
		data = data[:len(data)-len(seal)]
	}
	claims, torn, err := l.scan(s, data)
	if err != nil {
		if err = l.damagedClaims(s, written, err); err != nil {
			return nil, err
		}
	}
	if torn > 0 {
		l.log.Warn("cut off an unfinished write of claims and entries", "file", s.name(), "offset", s.size, "bytes", torn)
	}
	if !mend || len(s.blocks) == 0 {
		return claims, nil
	}
	return claims, l.mend(s)
}

// damagedClaims returns the error of damage that may affect valid claims, nil if no
// claim can be valid any more. Verification reports the damage in any case.
func (l *Log) damagedClaims(s *segment, written time.Time, err error) error {
	var newer newerError
	age := time.Since(written)
	if errors.As(err, &newer) || !l.options.AcceptLoss && age < l.options.Life {
		return fmt.Errorf("evidence: %s: %w; start once with accept_loss to go on without the claims in it, whose commands might then run twice",
			filepath.Join(l.root.Name(), s.name()), err)
	}
	l.log.Error("the log of claims and entries is damaged: verify the audit trail", "file", s.name(), "error", err)
	return nil
}

// scan reads the groups of a segment. It returns its claims, the number of bytes of an
// unfinished write at the end, and the first damage.
func (l *Log) scan(s *segment, data []byte) (claims []leftClaim, torn int, err error) {
	var names Names
	s.blocks, s.filters, s.entries, s.size = nil, nil, 0, 0
	for g, damage := range Groups(data) {
		if damage != nil {
			rest := data[s.size:]
			if !s.sealed && damage.Bytes == len(rest) && unfinished(rest, damage.Err) {
				return claims, len(rest), err
			}
			if err == nil || errors.As(damage.Err, new(newerError)) {
				err = fmt.Errorf("offset %d: %w", s.size, damage)
			}
			s.noteDamage(damage.Bytes)
			continue
		}
		s.noteFound(&g)
		s.size += int64(len(g.Bytes))
		wrong := g.visit(&names, visitor{claim: func(c commands.Claim) {
			left := leftClaim{c, l.until(c.Expires, g.Time, g.grown())}
			s.until = max(s.until, left.until)
			claims = append(claims, left)
		}})
		if wrong != nil && err == nil {
			err = fmt.Errorf("offset %d: %w", s.size-int64(len(g.Bytes)), wrong)
		}
	}
	s.read = true
	s.filters = make([]*filter, len(s.blocks)) // their contents are not known
	return claims, 0, err
}

// noteDamage has bytes that cannot be read belong to the block they follow.
func (s *segment) noteDamage(bytes int) {
	if len(s.blocks) == 0 {
		s.noteGroup(true, 0, 0, 0, 0)
	}
	s.blocks[len(s.blocks)-1].size += int64(bytes)
	s.size += int64(bytes)
	s.damaged += bytes
}

// grown is the age of the log when a group was written.
func (g *Group) grown() time.Duration { return time.Duration(g.age) * time.Millisecond }

// unfinished reports whether data at the end of a segment, with no group behind it, can
// be a write that was cut short: it is not a group of full length with other content.
func unfinished(data []byte, err error) bool {
	if errors.As(err, new(newerError)) {
		return false
	}
	if len(data) < groupHead {
		return true
	}
	length := int(binary.LittleEndian.Uint32(data[8:]))
	// The bytes that a file system had no time to write are zeros.
	whole := length >= groupHead-frameHead && length <= len(data)-frameHead && data[frameHead+length-1] != 0
	return !whole
}

// mend cuts off the bytes behind the last group of a segment and seals it.
func (l *Log) mend(s *segment) error {
	f, err := l.root.OpenFile(s.name(), os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("evidence: mend a segment: %w", err)
	}
	s.file, s.torn = diskFile{f}, true
	l.closeSegment(s)
	return nil
}

// loadClaims finds the claims that were valid when the log ended, and keeps them valid
// for the rest of their life.
func (l *Log) loadClaims(claims []leftClaim) error {
	ended, err := l.ended()
	if err != nil {
		return err
	}
	l.age = ended.age
	for _, s := range l.segments {
		if s.until <= ended.age || s.read {
			continue
		}
		found, err := l.claimsOf(s)
		if err != nil {
			return err
		}
		claims = append(claims, found...)
	}
	now, longest := time.Now(), time.Duration(0)
	for _, c := range claims {
		if left := l.remains(c, ended, now); left > 0 {
			c.Expires = now.Add(left)
			longest = max(longest, left)
			l.left = append(l.left, c.Claim)
		}
	}
	for _, s := range l.segments {
		if s.until <= ended.age || longest == 0 {
			s.until = 0
			continue
		}
		s.until = ended.age + longest
		l.claimed.Add(s.length())
	}
	return nil
}

// remains is the remaining lifetime of a claim.
func (l *Log) remains(c leftClaim, ended end, now time.Time) time.Duration {
	switch {
	case c.until <= ended.age || now.Sub(ended.at) >= doubt:
		return 0
	case c.Expires.After(now):
		return min(c.Expires.Sub(now), l.options.Life) // the clock may have been set back
	}
	return l.options.Life // the clock may be ahead
}

// claimsOf reads the claims of a segment of which only the index was read so far.
func (l *Log) claimsOf(s *segment) ([]leftClaim, error) {
	info, err := l.root.Stat(s.name())
	if err != nil {
		return nil, fmt.Errorf("evidence: %w", err)
	}
	data, err := l.root.ReadFile(s.name())
	if err != nil {
		return nil, fmt.Errorf("evidence: read a segment: %w", err)
	}
	read := &segment{number: s.number, sealed: true}
	claims, _, err := l.scan(read, bytes.TrimSuffix(data, []byte(seal)))
	if err != nil {
		err = l.damagedClaims(s, info.ModTime(), err)
	}
	return claims, err
}

// ended finds where the log ends.
func (l *Log) ended() (e end, err error) {
	for i := len(l.segments) - 1; i >= 0; i-- {
		s := l.segments[i]
		for at := s.last(); at >= s.number; at-- {
			data, err := l.readBlock(s, at)
			if err != nil {
				return e, err
			}
			for g, damage := range Groups(data) {
				if damage == nil {
					e = end{g.Time, g.grown()}
				}
			}
			if !e.at.IsZero() {
				return e, nil
			}
		}
	}
	return e, nil
}
