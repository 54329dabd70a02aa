package audit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/aibridge/aibridge/internal/evidence"
	"github.com/aibridge/aibridge/protocol"
)

// leftovers are the entries that an earlier process has left: in the local log,
// without shipping them to where the trail is kept, or in files of an earlier
// version. Of those, some may be damaged.
func (t *Trail) leftovers(ctx context.Context) (left []Entry, damaged int, err error) {
	left, damaged, err = earlierEntries(t.o.Earlier)
	if err == nil && t.ships() {
		var unsent []Entry
		unsent, err = t.unsent(ctx)
		left = append(left, unsent...)
	}
	if err != nil || len(left) == 0 {
		return nil, damaged, err
	}
	slices.SortStableFunc(left, func(a, b Entry) int { return a.Time.Compare(b.Time) })
	known, err := t.recent(ctx, left[0].Time.Add(-recentMargin))
	if err != nil {
		return nil, damaged, fmt.Errorf("audit: read the end of the trail: %w", err)
	}
	return slices.DeleteFunc(left, func(e Entry) bool {
		is := identity(&e)
		there := known[is]
		known[is] = true
		return there
	}), damaged, nil
}

// unsent are the entries in the local log of a trail that is kept elsewhere.
func (t *Trail) unsent(ctx context.Context) (left []Entry, err error) {
	bounds, err := t.o.Local.Bounds(ctx)
	if err != nil {
		return nil, err
	}
	t.sent = bounds.Last
	err = t.o.Local.Read(ctx, func(_ uint64, data []byte) error {
		b := decodeBlock(data)
		for _, g := range b.groups {
			for _, s := range g.entries {
				if e, err := decode(s, 0); err == nil {
					left = append(left, e)
				}
			}
		}
		return nil
	})
	return left, err
}

// takeUp records the entries that an earlier process has left, and removes them
// from their old place.
func (t *Trail) takeUp(ctx context.Context, left []Entry, damaged int) {
	if damaged > 0 {
		t.o.Logger.Error("audit: entries that waited to be stored were damaged on disk", "entries", damaged)
		t.problems.Store(1)
		t.Record(ctx, Entry{Event: "audit.lost", Code: string(protocol.Internal), Security: true,
			Reason:  "entries that waited to be stored were damaged on disk",
			Details: map[string]string{"entries": number(uint64(damaged))}})
	}
	for _, e := range left {
		t.enqueue(t.quiet(e), true, true)
	}
	t.o.Local.Keep()
	if t.o.Local.Failing() {
		return // and is found again by the next
	}
	var err error
	if t.ships() {
		err = t.o.Local.Trim(ctx, t.sent+1)
	}
	for _, name := range earlierFiles(t.o.Earlier) {
		if gone := os.Remove(name); gone != nil && !errors.Is(gone, fs.ErrNotExist) {
			err = errors.Join(err, gone)
		}
	}
	if err != nil {
		t.o.Logger.Warn("audit: what was taken up is not removed", "error", err)
	}
}

// earlierFiles are the two files that an earlier version had for entries that
// waited to be stored. A line is the checksum of an entry, CRC-32C in
// hexadecimal, a space and the entry; or before that the entry alone.
func earlierFiles(path string) []string {
	if path == "" {
		return nil
	}
	return []string{path + ".0", path + ".1"}
}

// earlierEntries reads these files.
func earlierEntries(path string) (left []Entry, damaged int, err error) {
	for _, name := range earlierFiles(path) {
		data, err := os.ReadFile(name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, 0, fmt.Errorf("audit: %w", err)
		}
		for line := range bytes.Lines(data) {
			text, whole := bytes.CutSuffix(line, []byte("\n"))
			if !whole {
				break // the last write was cut short
			}
			if e, ok := earlierEntry(text); ok {
				left = append(left, e)
			} else {
				damaged++
			}
		}
	}
	return left, damaged, nil
}

// earlierEntry is the entry in a line, if the line is undamaged.
func earlierEntry(line []byte) (e Entry, ok bool) {
	if !bytes.HasPrefix(line, []byte("{")) {
		sum, text, found := bytes.Cut(line, []byte(" "))
		want := fmt.Appendf(nil, "%08x", crc32.Checksum(text, crc32.MakeTable(crc32.Castagnoli)))
		if !found || !bytes.Equal(sum, want) {
			return e, false
		}
		line = text
	}
	err := json.Unmarshal(line, &e)
	return e, err == nil && !e.Time.IsZero()
}

// Imported is the number of groups of an earlier version's trail in a log.
func Imported(ctx context.Context, l *evidence.Log) (groups int, err error) {
	err = l.Read(ctx, func(_ uint64, data []byte) error {
		for g, lost := range evidence.Groups(data) {
			if lost == nil && g.Imported != nil {
				groups++
			}
		}
		return nil
	})
	return groups, err
}

// identity identifies an entry independently of its place.
func identity(e *Entry) string {
	e.Seq = 0
	return fmt.Sprintf("%+v", *e)
}

// recentMargin is the time by which entries may be out of order.
const recentMargin = time.Minute

// recent are the entries since a time.
func (t *Trail) recent(ctx context.Context, since time.Time) (map[string]bool, error) {
	known := make(map[string]bool)
	bounds, err := t.log.Bounds(ctx)
	if err != nil {
		return nil, err
	}
	for at := bounds.Last; at >= bounds.First && at > 0; at-- {
		data, err := t.log.Get(ctx, at)
		if err != nil {
			return nil, err
		}
		b := decodeBlock(data)
		for _, g := range b.groups {
			for _, s := range g.entries {
				if e, err := decode(s, 0); err == nil {
					known[identity(&e)] = true
				}
			}
		}
		if len(b.groups) > 0 && b.at.Before(since) {
			break
		}
	}
	return known, nil
}
