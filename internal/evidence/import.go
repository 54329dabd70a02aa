package evidence

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"time"
)

// importedMagic begins the groups of entries of earlier versions, which have
// their own hashes and seals.
const importedMagic = "aba1"

// importedRange returns the sequence of the first entry of an imported group and the
// number of entries, from its header.
func importedRange(group []byte) (first, count uint64) {
	const head = len(importedMagic) + 8 + 8 + 8 + 32 + 4
	if len(group) < head || !bytes.HasPrefix(group, []byte(importedMagic)) {
		return 0, 0
	}
	return binary.BigEndian.Uint64(group[12:]), uint64(binary.BigEndian.Uint32(group[head-4:]))
}

// HasEntries reports whether there is a trail in the log.
func (l *Log) HasEntries() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.segments {
		if s.entries > 0 {
			return true
		}
	}
	return false
}

// Import appends a block unchanged: a block of another log, or groups of an earlier
// version's trail. The log must have no other writer meanwhile.
func (l *Log) Import(parts [][]byte) error {
	if l.reader {
		return errors.New("evidence: the log is open to be read only")
	}
	now := time.Now()
	l.mu.Lock()
	number := l.block + 1
	l.mu.Unlock()
	var data []byte
	for i, part := range parts {
		if !bytes.HasPrefix(part, []byte(importedMagic)) {
			data = append(data, part...)
			continue
		}
		flags := imported
		if i == 0 {
			flags |= beginsBlock
		}
		if len(part) > maxFrame-groupHead {
			return fmt.Errorf("evidence: a group of %d bytes cannot be imported", len(part))
		}
		frame := append(make([]byte, groupHead, groupHead+len(part)), part...)
		completeFrame(frame, groupHead, flags, number, now, uint64(l.older(now).Milliseconds()))
		sumFrame(frame)
		data = append(data, frame...)
	}
	p := &piece{begins: true, block: number}
	if err := l.makeRoom(p, int64(len(data)), now); err != nil {
		return err
	}
	s := l.active
	if err := s.append(data, l.options.SyncAlways); err != nil {
		return err
	}
	l.used.Add(int64(len(data)))
	l.mu.Lock()
	defer l.mu.Unlock()
	l.noteRead(s, data)
	l.block = s.last()
	l.entryNames.numbers = nil // the next write begins a block
	return nil
}

// noteRead adds groups of another writer to the index, by reading their contents.
func (l *Log) noteRead(s *segment, data []byte) {
	for g, damage := range Groups(data) {
		if damage != nil {
			s.noteDamage(damage.Bytes)
			continue
		}
		s.noteFound(&g)
	}
}

// noteFound notes a group as it was read.
func (s *segment) noteFound(g *Group) {
	var first, entries uint64
	switch {
	case g.Chained:
		first, entries = g.First(), uint64(g.Count())
	case g.Imported != nil:
		first, entries = importedRange(g.Imported)
	}
	begins := g.Begins || len(s.blocks) > 0 && g.Block != s.found
	s.found = g.Block
	s.noteGroup(begins, int64(len(g.Bytes)), first, entries, g.Time.UnixMilli())
}

// Sync returns when everything that was written is on the disk.
func (l *Log) Sync() error {
	if l.active == nil {
		return nil
	}
	return errors.Join(l.active.file.Sync(), l.syncFolder())
}

// Adopt takes up the claims of an earlier version, which kept them in a folder
// of their own, and removes it.
func (l *Log) Adopt(dir string) error {
	claims, err := earlierClaims(dir, l.options.Life)
	if err != nil {
		return err
	}
	now := time.Now()
	for _, c := range claims {
		if !c.Expires.After(now) { // or the clock is ahead
			c.Expires = now.Add(l.options.Life)
		}
		l.mu.Lock()
		l.addClaim(&c)
		l.left = append(l.left, c)
		l.mu.Unlock()
	}
	l.mu.Lock()
	l.writing = true
	if err := l.lead(); err != nil {
		return err
	}
	if err := l.Sync(); err != nil {
		return fmt.Errorf("evidence: %w", err)
	}
	return os.RemoveAll(dir)
}
