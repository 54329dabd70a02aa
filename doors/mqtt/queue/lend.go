package queue

import (
	"context"
	"time"

	"github.com/aibridge/aibridge/broker"
	"github.com/aibridge/aibridge/internal/records"
	"github.com/aibridge/aibridge/protocol"
)

// interval is the time after which the keeper looks again for bridges that are gone, and
// for workers that have room without having told; every sweep intervals also for
// messages whose time is over.
const (
	interval = time.Second
	sweep    = 30
)

// Run gives messages to workers until ctx ends.
func (k *Keeper) Run(ctx context.Context) error {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for ticks := 0; ; {
		select {
		case <-ctx.Done():
			return nil
		case <-k.wake:
		case <-tick.C:
			k.tend(ctx, ticks%sweep == 0)
			ticks++
		}
		for _, l := range k.busy() {
			k.serve(ctx, l)
		}
	}
}

// busy lists the lines with messages that wait.
func (k *Keeper) busy() (lines []*line) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, l := range k.lines {
		if len(l.waiting)+len(l.large) > 0 && k.queues[l.queue.Name] != nil {
			lines = append(lines, l)
		}
	}
	return lines
}

// serve gives messages of a line to workers here while there are both.
func (k *Keeper) serve(ctx context.Context, l *line) {
	q := l.queue
	for ctx.Err() == nil {
		largest := k.server.Borrowers(l.space, q.filters(), q.Prefetch)
		if largest == 0 {
			return
		}
		e, at := k.first(l, largest)
		if e == nil {
			return
		}
		m, revision, there := k.Table.Get(e.key)
		if !there {
			continue
		}
		if m.With != "" || m.At != at { // what is new of it will be told
			k.release(l, e, at)
			return
		}
		if m.over(time.Now()) {
			if err := k.expire(ctx, e.key, m, revision); err != nil {
				k.lost(l, e, at, err)
				return
			}
			continue
		}
		if k.Self != "" {
			var err error
			m = m.held(k.Self)
			if revision, err = k.Table.Update(ctx, e.key, m, revision); err != nil {
				k.lost(l, e, at, err)
				if !records.Raced(err) {
					return // the next tick tries again
				}
				continue
			}
		}
		done := func(became broker.Return) { k.working.Add(1); go k.settle(l, e, m, revision, became) }
		if !k.server.Lend(l.space, q.filters(), q.Prefetch, m.message(time.Now()), done) {
			k.giveBack(ctx, l, e, m.held(""), revision, k.Self != "")
			return
		}
	}
}

// first is the first message of a line that nobody has, of those whose packet is no larger
// than the largest that a worker takes.
func (k *Keeper) first(l *line, largest int) (e *entry, at int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if e = l.next(largest); e != nil {
		at = e.at
	}
	return e, at
}

// lost is told that a message could not be made this bridge's: another one has it, or it
// cannot be stored now.
func (k *Keeper) lost(l *line, e *entry, at int64, err error) {
	if !records.Raced(err) {
		k.Log.Warn("a message of a queue cannot be given out", "queue", l.queue.Name, "error", err)
	}
	k.release(l, e, at)
}

// release has a message wait again, unless it is gone, or a newer one has its place.
func (k *Keeper) release(l *line, e *entry, at int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if l.entries[e.key] != e || e.at != at {
		return
	}
	e.lent = false
	if e.with == "" {
		l.enqueue(e)
	}
}

// giveBack has others take a message that nobody here takes any more; m is what is stored
// of it, if that has changed.
func (k *Keeper) giveBack(ctx context.Context, l *line, e *entry, m *Message, revision uint64, changed bool) {
	if changed {
		err := k.persist(ctx, func(ctx context.Context) error {
			_, err := k.Table.Update(ctx, e.key, m, revision)
			return err
		})
		if err != nil && ctx.Err() != nil {
			return // whoever finds this process gone takes it
		}
	}
	k.release(l, e, m.At)
}

// breath is the time after which a message that a worker has rejected is given to the
// next one, so that a worker that rejects all does not keep the store busy.
const breath = time.Second

// settle is told what became of a message that a worker was given.
func (k *Keeper) settle(l *line, e *entry, m *Message, revision uint64, became broker.Return) {
	defer k.working.Done()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	defer k.alert() // there is room
	if became == broker.Accepted {
		err := k.persist(ctx, func(ctx context.Context) error { return k.Table.Delete(ctx, e.key, revision) })
		if err != nil {
			k.Log.Warn("a message that a worker has acknowledged may be given to another one", "queue", m.Queue, "topic", m.Topic, "error", err)
		}
		return
	}
	k.again.Inc()
	if became == broker.Rejected {
		select {
		case <-time.After(breath):
		case <-k.closing:
		}
	}
	back, most := m.held(""), l.queue.Deliveries
	if most > 0 && (became == broker.Rejected || !k.rests()) {
		back.Tries++
	}
	if most > 0 && back.Tries >= most {
		err := k.persist(ctx, func(ctx context.Context) error { return k.bury(ctx, e.key, back, revision, undeliverable) })
		if err != nil {
			k.release(l, e, m.At)
		}
		return
	}
	k.giveBack(ctx, l, e, back, revision, k.Self != "" || back.Tries > m.Tries)
}

func (k *Keeper) rests() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.resting
}

// patience is the time that a write for a message is tried.
const patience = 10 * time.Minute

// persist writes until that succeeds, or what was to be changed is not there any more, or
// what was to be made is there.
func (k *Keeper) persist(ctx context.Context, write func(context.Context) error) error {
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		err := write(ctx)
		switch protocol.CodeOf(err) {
		case protocol.NotFound, protocol.RevisionConflict, protocol.AlreadyExists:
			return nil
		}
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-k.closing:
			return err
		case <-time.After(wait):
		}
	}
}

// expire ends the wait of a message whose time is over. Dead letters are deleted.
func (k *Keeper) expire(ctx context.Context, key string, m *Message, revision uint64) error {
	if m.Dead != "" {
		return k.Table.Delete(ctx, key, revision)
	}
	return k.bury(ctx, key, m, revision, expired)
}

// tend takes messages up whose bridge is gone and, with all, drops those whose time is
// over.
func (k *Keeper) tend(ctx context.Context, all bool) {
	k.dropOutdated(ctx, k.allOutdated())
	now := time.Now()
	gone := make(map[string]bool)
	for _, key := range k.untended(all) {
		m, revision, there := k.Table.Get(key)
		switch {
		case !there:
		case m.With == "":
			if m.over(now) {
				if err := k.expire(ctx, key, m, revision); err != nil && !records.Raced(err) {
					k.Log.Warn("a message of a queue whose time is over stays", "queue", m.Queue, "error", err)
				}
			}
		default:
			if _, asked := gone[m.With]; !asked {
				gone[m.With] = k.Self == "" || m.With != k.Self && k.Gone(ctx, m.With)
			}
			if gone[m.With] || m.With == k.Self && k.idles(key) {
				_, err := k.Table.Update(ctx, key, m.held(""), revision)
				if err != nil && protocol.CodeOf(err) != protocol.RevisionConflict {
					k.Log.Warn("a message of a queue that a bridge had which is gone waits", "queue", m.Queue, "error", err)
				}
			}
		}
	}
}

// idles reports whether no client here has a message. If its record says that this process
// has it, the write that said so seemed to have failed.
func (k *Keeper) idles(key string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, l := range k.lines {
		if e := l.entries[key]; e != nil {
			return !e.lent
		}
	}
	return false
}

// untended lists the keys of messages that another process has, or, with all, that no
// client here has.
func (k *Keeper) untended(all bool) (keys []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, l := range k.lines {
		for key, e := range l.entries {
			if !e.lent && !e.outdated && (all || e.with != "") {
				keys = append(keys, key)
			}
		}
	}
	return keys
}
