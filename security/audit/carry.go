package audit

import (
	"context"
	"errors"
	"maps"
)

// maxCarried bounds what is carried over at once, in bytes.
const maxCarried = 32 << 20

// carried is the detail of an entry that was carried over: the sequence it had.
const carried = "kept_from"

// errEnough ends the reading of a log before its end.
var errEnough = errors.New("enough")

// carry writes the entries of security in the groups before a position once
// more, at the end of the trail, so that they are not forgotten with all the
// rest: what changed keys and policies, and who was refused, outlasts any
// number of calls. It takes the latest, and at most half of what is forgotten,
// so that forgetting makes room. An entry goes when it is too old, as others
// do. What was changed in the log is not carried: it would be sealed as true.
func (t *Trail) carry(ctx context.Context, before uint64) error {
	var kept [][]byte
	size, forgotten := 0, 0
	err := t.o.Log.Read(ctx, func(position uint64, data []byte) error {
		if position >= before {
			return errEnough
		}
		forgotten += len(data)
		g, err := decodeGroup(data)
		if err != nil || g.chain != t.o.Key.chain || !g.genuine(t.o.Key) {
			return nil //nolint:nilerr // Verify is who complains
		}
		for i := range g.entries {
			if entry := t.carriedEntry(g, i); entry != nil {
				kept = append(kept, entry)
				size += len(entry)
			}
		}
		for ; size > maxCarried; kept = kept[1:] {
			size -= len(kept[0])
		}
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		return err
	}
	for ; size > forgotten/2; kept = kept[1:] {
		size -= len(kept[0])
	}
	return t.appendAll(ctx, kept)
}

// carriedEntry is an entry as it is carried over, nil if it is not.
func (t *Trail) carriedEntry(g *group, i int) []byte {
	seq := g.first + uint64(i)
	e, err := decode(g.entries[i], seq)
	if err != nil || !e.Security || t.o.KeepFor > 0 && t.o.Now().Sub(e.Time) > t.o.KeepFor {
		return nil
	}
	if e.Details[carried] == "" {
		e.Details = maps.Clone(e.Details)
		if e.Details == nil {
			e.Details = make(map[string]string, 1)
		}
		e.Details[carried] = number(seq)
	}
	l := line{Entry: e}
	if entry := l.append(nil); len(entry) <= maxEntry {
		return entry
	}
	return nil
}

// appendAll stores entries in groups.
func (t *Trail) appendAll(ctx context.Context, entries [][]byte) error {
	for len(entries) > 0 {
		n, size := 0, 0
		for ; n < len(entries) && (n == 0 || size < groupBytes-maxEntry); n++ {
			size += len(entries[n])
		}
		data, head := t.o.Key.appendGroup(nil, t.head, t.o.Now(), entries[:n])
		if err := t.o.Log.Append(ctx, data); err != nil {
			return err
		}
		t.mu.Lock()
		t.head = head
		t.mu.Unlock()
		entries = entries[n:]
	}
	return nil
}

// genuine reports whether a group is as it was written with the key.
func (g *group) genuine(k *Key) bool {
	head := Head{Seq: g.first - 1, Hash: g.previous}
	for _, e := range g.entries {
		if head = head.follow(k.chain, e.json); head.Hash != e.hash {
			return false
		}
	}
	return g.sealed(k)
}
