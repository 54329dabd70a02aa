package audit

import (
	"context"
)

// trim forgets entries that are too old or too many. That they were forgotten
// is an entry itself, stored before.
func (t *Trail) trim(ctx context.Context) error {
	before, through, err := t.surplus(ctx)
	if err != nil || before == 0 {
		return err
	}
	if err := t.carry(ctx, before); err != nil {
		return err
	}
	t.Record(ctx, Entry{Event: trimmed, Code: OK, Reason: "older or more than the trail is to keep", Details: map[string]string{"through": number(through)}})
	if err := t.settle(ctx); err != nil {
		return err
	}
	t.note()
	return t.log.Trim(ctx, before)
}

// settle has the goroutine that ships store all entries so far.
func (t *Trail) settle(ctx context.Context) error {
	if err := t.o.Local.Settle(ctx); err != nil {
		return err
	}
	t.ship(ctx)
	return ctx.Err()
}

// trimmed is the event that entries were forgotten, up to details.through.
const trimmed = "audit.trimmed"

// A keeper forgets blocks together, as a file of several.
type keeper interface {
	// Kept is the first block that stays if those before one are trimmed.
	Kept(before uint64) uint64
}

// surplus finds the number of the first block to keep, 0 to keep all, and the
// sequence of the last entry before it.
func (t *Trail) surplus(ctx context.Context) (before, through uint64, err error) {
	b, err := t.log.Bounds(ctx)
	if err != nil || b.Last <= b.First {
		return 0, 0, err
	}
	if t.o.KeepSize > 0 && b.Bytes > t.o.KeepSize {
		surplus := float64(b.Bytes-t.o.KeepSize)/float64(b.Bytes) + 0.1 // and some room
		before = b.First + uint64(surplus*float64(b.Last-b.First))
	}
	if t.o.KeepFor > 0 {
		at, err := search(ctx, t.log, b, func(b *block) bool { return t.o.Now().Sub(b.at) <= t.o.KeepFor })
		if err != nil {
			return 0, 0, err
		}
		before = max(before, at)
	}
	before = min(before, b.Last) // something must remain to go on from
	if k, ok := t.log.(keeper); ok {
		before = k.Kept(before)
	}
	if before <= b.First {
		return 0, 0, nil
	}
	for at := before - 1; at >= b.First && at > 0; at-- {
		data, err := t.log.Get(ctx, at)
		if err != nil {
			return 0, 0, err
		}
		read := decodeBlock(data)
		if g := read.lastOf(t.o.Key.chain); g != nil {
			return before, g.last(), nil
		}
	}
	return before, 0, nil // an unreadable block is forgotten, too
}
