package audit

import (
	"context"
	"errors"
	"maps"
)

// maxCarried bounds the bytes carried over at once.
const maxCarried = 32 << 20

// carried is the detail of an entry that was carried over: the sequence it had.
const carried = "kept_from"

// errEnough ends the reading of a log before its end.
var errEnough = errors.New("enough")

// A carriedEntry is an entry that is carried over, with its size.
type carriedEntry struct {
	Entry
	size int
}

// carry records the entries of security in the blocks before one once more, at the end of
// the trail, so that they are not forgotten with all the rest: changes of keys and
// policies, and refusals, outlast any number of calls. It takes the latest, and at most
// half of the forgotten bytes, so that forgetting makes room. An entry goes when it is
// too old, as others do. An entry that was changed in the log is not carried: it would be
// sealed as true.
func (t *Trail) carry(ctx context.Context, before uint64) error {
	var kept []carriedEntry
	size, forgotten := 0, 0
	err := t.log.Read(ctx, func(number uint64, data []byte) error {
		if number >= before {
			return errEnough
		}
		forgotten += len(data)
		b := decodeBlock(data)
		for _, g := range b.groups {
			if g.chain != t.o.Key.chain || !g.genuine(t.o.Key) {
				continue // Verify reports it
			}
			for i := range g.entries {
				if e, ok := t.carriedEntry(g, i); ok {
					kept = append(kept, e)
					size += e.size
				}
			}
		}
		for ; size > maxCarried; kept = kept[1:] {
			size -= kept[0].size
		}
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		return err
	}
	for ; size > forgotten/2; kept = kept[1:] {
		size -= kept[0].size
	}
	for _, e := range kept {
		t.enqueue(t.quiet(e.Entry), true, true)
	}
	return t.settle(ctx)
}

// quiet is the record of an entry that is not shown to operators again.
func (t *Trail) quiet(e Entry) *record {
	r := t.newRecord(e)
	r.quiet = true
	return r
}

// carriedEntry is an entry as it is carried over, if it is.
func (t *Trail) carriedEntry(g *group, i int) (carriedEntry, bool) {
	seq := g.first + uint64(i)
	e, err := decode(g.entries[i], seq)
	if err != nil || !e.Security || t.o.KeepFor > 0 && t.o.Now().Sub(e.Time) > t.o.KeepFor {
		return carriedEntry{}, false
	}
	if e.Details[carried] == "" {
		e.Details = maps.Clone(e.Details)
		if e.Details == nil {
			e.Details = make(map[string]string, 1)
		}
		e.Details[carried] = number(seq)
	}
	return carriedEntry{e, len(g.entries[i].json) + len(g.entries[i].body)}, true
}
