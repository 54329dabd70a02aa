package exclusive

import (
	"context"
	"time"

	"github.com/aibridge/aibridge/broker"
	"github.com/aibridge/aibridge/protocol"
)

const (
	// retryAfter is the time after which a write that failed is tried again.
	retryAfter = 200 * time.Millisecond
	// lookEvery is the interval at which all records are compared with the
	// subscriptions; they are compared as well when bridges come or go.
	lookEvery = time.Minute
	// patience is the time limit of the deletion of a record, and of a comparison of
	// all.
	patience = 15 * time.Second
)

// Start begins to delete the records of topics that the sessions of a broker give back.
func (h *Holders) Start(local Local) {
	var run context.Context
	run, h.stop = context.WithCancel(context.Background())
	h.local = local
	h.running.Go(func() { h.tend(run) })
	h.Look()
}

// Close ends all work. Records that are not deleted by then become invalid when this
// process ends.
func (h *Holders) Close() {
	h.stop()
	h.running.Wait()
}

// tend deletes the records of topics given back, and compares all records after a
// change of the members, until ctx ends.
func (h *Holders) tend(ctx context.Context) {
	every := time.NewTicker(lookEvery)
	defer every.Stop()
	again := time.NewTimer(0)
	defer again.Stop()
	looked := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-h.wake:
		case <-again.C:
		case <-h.due:
			looked = false
		case <-every.C:
			looked = false
		}
		given := h.giveAll(ctx)
		looked = looked || h.look(ctx)
		if !given || !looked {
			again.Reset(retryAfter)
		}
	}
}

// giveAll deletes the records of all topics given back, and reports whether all
// deletions succeeded.
func (h *Holders) giveAll(ctx context.Context) bool {
	h.mu.Lock()
	given := h.given
	h.given = nil
	h.mu.Unlock()
	var left []gift
	for _, g := range given {
		if !h.release(ctx, g.id, g.topic) {
			left = append(left, g)
		} else if g.then != nil {
			g.then()
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.given = append(left, h.given...)
	return len(left) == 0
}

// release deletes the record of a topic that a session of this bridge has given back. It
// reports false if that has to be tried again.
func (h *Holders) release(ctx context.Context, id broker.SessionID, topic string) bool {
	key := keyOf(id.Space, topic)
	unlock, ok := h.locks.Try(key)
	if !ok {
		return false
	}
	defer unlock()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		if h.local.HasExclusive(id, topic) { // it has taken the topic again
			return true
		}
		r, revision, there := h.o.Records.Get(key)
		if !there || r.session() != id || r.Process.ID != h.o.Self.ID {
			return true
		}
		if err := h.o.Records.Delete(ctx, key, revision); err == nil || !changed(err) {
			return err == nil
		}
	}
}

// look makes records and subscriptions agree. They differ after a process has died
// between writing the one and the other, and after a bridge has worked alone. It reports
// false if it has to be tried again.
func (h *Holders) look(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	ok := h.ensure(ctx)
	return h.sweep(ctx) && ok
}

// ensure writes the missing records of the exclusive subscriptions of this bridge. A
// session loses its subscription if a valid record names another one.
func (h *Holders) ensure(ctx context.Context) (ok bool) {
	ok = true
	h.local.Exclusive(func(id broker.SessionID, by protocol.Party, topic string) bool {
		key := keyOf(id.Space, topic)
		if r, _, there := h.o.Records.Get(key); there && r.session() == id {
			return true
		}
		unlock, free := h.locks.Try(key)
		if !free {
			ok = false
			return true
		}
		defer unlock()
		if !h.local.HasExclusive(id, topic) {
			return true
		}
		switch err := h.take(ctx, id, by, topic); err {
		case nil:
		case broker.ErrHeld:
			h.o.Log.Warn("an exclusive subscription ends, since another session has it", "client", id.Client, "space", id.Space, "topic", topic)
			h.local.LoseExclusive(id, topic)
		default:
			ok = false
		}
		return true
	})
	return ok
}

// sweep deletes the records of sessions of this bridge that do not have their topics. At
// the oldest bridge it deletes all invalid records.
func (h *Holders) sweep(ctx context.Context) (ok bool) {
	var own []*Record
	var ids []broker.SessionID
	ok = true
	for key, r := range h.o.Records.All() {
		switch {
		case r.Process.ID == h.o.Self.ID:
			if !h.local.HasExclusive(r.session(), r.Topic) {
				own, ids = append(own, r), append(ids, r.session())
			}
		case h.o.Members.Oldest() && !h.o.Members.Alive(r.Process):
			ok = h.bury(ctx, key) && ok
		}
	}
	if len(own) == 0 {
		return ok
	}
	owners, err := h.o.Owners.Owners(ctx, ids, false)
	if err != nil {
		return false
	}
	for i, r := range own {
		if r.isOf(h.o.Self.ID, owners[i]) {
			ok = h.release(ctx, ids[i], r.Topic) && ok
		}
	}
	return ok
}

// bury deletes a record if it is invalid.
func (h *Holders) bury(ctx context.Context, key string) bool {
	r, revision, there := h.o.Records.Get(key)
	if !there {
		return true
	}
	counts, err := h.counts(ctx, r)
	if err != nil || counts {
		return err == nil
	}
	err = h.o.Records.Delete(ctx, key, revision)
	return err == nil || changed(err)
}
