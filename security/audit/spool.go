package audit

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// A spool has in files what waits to be stored, so that a crash of the process
// loses nothing that was acknowledged. Unless the trail syncs always, entries
// are written and not synced: a power cut may lose the last of them, those of
// some milliseconds.
//
// A line is the checksum of an entry, CRC-32C in hexadecimal, a space and the
// entry. Earlier versions wrote the entry alone.
//
// There are two files, one for the batch that is gathered and one for the batch
// that is being stored, which is emptied when that is done.
type spool struct {
	files [2]*os.File
	dirty [2]bool // written since it was synced
	to    int     // the file that is written
	lines []byte  // what is not written yet
	fail  error   // the first write that failed
}

// A leftover is what an earlier process has left in the spool.
type leftover struct {
	entries [][]byte
	damaged int // lines that are not what was written
}

// openSpool opens the files, PATH.0 and PATH.1, and returns what is in them.
func openSpool(path string) (*spool, leftover, error) {
	s := new(spool)
	var left leftover
	for i := range s.files {
		name := fmt.Sprintf("%s.%d", path, i)
		data, err := os.ReadFile(name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, left, errors.Join(err, s.close())
		}
		if s.files[i], err = os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600); err != nil {
			return nil, left, errors.Join(err, s.close())
		}
		for line := range bytes.Lines(data) {
			text, whole := bytes.CutSuffix(line, []byte("\n"))
			if !whole {
				break // the last write was cut short
			}
			if entry, ok := spooledEntry(text); ok {
				left.entries = append(left.entries, entry)
			} else {
				left.damaged++
			}
		}
	}
	return s, left, nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sumSize is what a line has before the entry.
const sumSize = 2*crc32.Size + 1

// appendSum writes what a line has before the entry.
func appendSum(dst, entry []byte) []byte {
	var sum [crc32.Size]byte
	binary.BigEndian.PutUint32(sum[:], crc32.Checksum(entry, castagnoli))
	return append(hex.AppendEncode(dst, sum[:]), ' ')
}

// spooledEntry is the entry in a line, if it is what was written.
func spooledEntry(line []byte) (entry []byte, ok bool) {
	if bytes.HasPrefix(line, []byte("{")) { // of an earlier version
		e, err := decode(stored{json: line}, 0)
		return line, err == nil && !e.Time.IsZero() && len(line) <= maxEntry
	}
	if len(line) < sumSize || len(line) > sumSize+maxEntry {
		return nil, false
	}
	entry = line[sumSize:]
	var room [sumSize]byte
	return entry, bytes.Equal(appendSum(room[:0], entry), line[:sumSize])
}

// add takes one entry, which is to be written soon.
func (s *spool) add(entry []byte) {
	if s != nil {
		s.lines = append(append(appendSum(s.lines, entry), entry...), '\n')
	}
}

// maxLines is the largest buffer that is kept for reuse, in bytes.
const maxLines = 256 << 10

// write writes what was added.
func (s *spool) write() {
	if s == nil || len(s.lines) == 0 {
		return
	}
	s.dirty[s.to] = true
	if n, err := s.files[s.to].Write(s.lines); err != nil {
		s.fail = cmp.Or(s.fail, err)
		cutTail(s.files[s.to], n-(bytes.LastIndexByte(s.lines[:n], '\n')+1))
	}
	if s.lines = s.lines[:0]; cap(s.lines) > maxLines {
		s.lines = nil
	}
}

// cutTail takes the last bytes off a file: those of a line that was not written
// to its end would spoil the next.
func cutTail(f *os.File, bytes int) {
	if bytes == 0 {
		return
	}
	if size, err := f.Seek(0, io.SeekEnd); err == nil {
		_ = f.Truncate(size - int64(bytes))
	}
}

// settle returns when the entries that were written so far are on the disk, if
// the trail syncs always: their answers leave only then. One caller syncs for
// all who come meanwhile.
func (t *Trail) settle() {
	if !t.o.SyncAlways || t.spool == nil {
		return
	}
	t.mu.Lock()
	want := t.written
	t.mu.Unlock()
	t.syncing.Lock()
	defer t.syncing.Unlock()
	if t.synced >= want {
		return
	}
	t.mu.Lock()
	written, dirty := t.written, t.spool.dirty
	t.spool.dirty = [2]bool{}
	t.mu.Unlock()
	for i, f := range t.spool.files {
		if !dirty[i] {
			continue
		}
		if err := t.sync(f); err != nil {
			t.mu.Lock()
			t.spool.fail = cmp.Or(t.spool.fail, err)
			t.mu.Unlock()
		}
	}
	t.synced = written
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.synced == t.taken {
		t.held.Store(false) // nobody has to wait for anything
	}
}

// turn begins the other file, which is empty by then, and returns the one that
// was written.
func (s *spool) turn() (written *os.File, failed error) {
	if s == nil {
		return nil, nil
	}
	s.write()
	written, failed = s.files[s.to], s.fail
	s.to, s.fail = 1-s.to, nil
	return written, failed
}

func (s *spool) close() (err error) {
	if s == nil {
		return nil
	}
	for _, f := range s.files {
		if f != nil {
			err = errors.Join(err, f.Close())
		}
	}
	return err
}

// recover takes up what an earlier process left in the spool, but for what it
// had stored: both files may have been written and not emptied yet.
func (t *Trail) recover(ctx context.Context, left leftover) error {
	if left.damaged > 0 {
		t.o.Logger.Error("audit: entries that waited to be stored were damaged on disk", "entries", left.damaged)
		t.problems.Store(1)
		defer t.Record(ctx, Entry{Event: "audit.lost", Code: string(protocol.Internal), Security: true,
			Reason:  "entries that waited to be stored were damaged on disk",
			Details: map[string]string{"entries": number(uint64(left.damaged))}})
	}
	if len(left.entries) == 0 {
		return nil
	}
	type dated struct {
		entry []byte
		Entry
	}
	var all []dated
	for _, entry := range left.entries {
		if e, err := decode(stored{json: entry}, 0); err == nil && !e.Time.IsZero() {
			all = append(all, dated{entry, e})
		}
	}
	if len(all) == 0 {
		return nil
	}
	slices.SortStableFunc(all, func(a, b dated) int { return a.Time.Compare(b.Time) })
	known, err := t.recent(ctx, all[0].Time.Add(-recentMargin))
	if err != nil {
		return fmt.Errorf("audit: read the end of the trail: %w", err)
	}
	for _, d := range all {
		if known[string(d.entry)] > 0 {
			known[string(d.entry)]--
			continue
		}
		t.enqueue(d.entry, taken{at: d.Time, urgent: true, must: true})
	}
	return nil
}

// recentMargin is how much entries may be out of order.
const recentMargin = time.Minute

// recent is the entries of the groups since a time, and how often each is
// there.
func (t *Trail) recent(ctx context.Context, since time.Time) (map[string]int, error) {
	known := make(map[string]int)
	bounds, err := t.o.Log.Bounds(ctx)
	if err != nil {
		return nil, err
	}
	for at := bounds.Last; at >= bounds.First && at > 0; at-- {
		data, err := t.o.Log.Get(ctx, at)
		if err != nil {
			return nil, err
		}
		g, err := decodeGroup(data)
		if err != nil {
			continue
		}
		if g.at.Before(since) {
			break
		}
		for _, e := range g.entries {
			known[string(e.json)]++
		}
	}
	return known, nil
}
