package exclusive

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/aibridge/aibridge/broker"
	"github.com/aibridge/aibridge/cluster"
	"github.com/aibridge/aibridge/protocol"
)

// A world is some bridges with a registry, a log of who owns which session, and the
// sessions of a few clients.
type world struct {
	t       *testing.T
	rand    *rand.Rand
	faulty  bool // writes may fail, stored or not
	clock   uint64
	records map[string]stored
	bridges map[string]*bridge
	owners  map[broker.SessionID]string // of kept sessions
	done    []string                    // what was done
}

type stored struct {
	record   *Record
	revision uint64
}

// A bridge is a process of one, or the sessions of one that is dead as others serve them.
type bridge struct {
	node     cluster.Node
	alive    bool
	holders  *Holders
	sessions map[broker.SessionID]*client
}

type client struct {
	kept   bool
	topics map[string]bool
}

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{t: t, rand: rand.New(rand.NewPCG(seed, 1)), faulty: true, records: make(map[string]stored), bridges: make(map[string]*bridge), owners: make(map[broker.SessionID]string)}
	for _, id := range []string{"a", "b", "c"} {
		w.run(id, true, make(map[broker.SessionID]*client))
	}
	return w
}

// run has a process of a bridge begin, or its sessions served elsewhere.
func (w *world) run(id string, alive bool, sessions map[broker.SessionID]*client) {
	w.clock++
	b := &bridge{node: cluster.Node{ID: id, Epoch: w.clock}, alive: alive, sessions: sessions}
	b.holders = New(Options{Self: b.node, Records: registry{w}, Members: w, Owners: w, CatchUp: func(context.Context) error { return nil }})
	b.holders.local = b
	w.bridges[id] = b
}

// Alive, Catchup and Oldest implement [Members].
func (w *world) Alive(n cluster.Node) bool {
	b := w.bridges[n.ID]
	return b != nil && b.alive && b.node == n
}
func (w *world) Catchup(context.Context) error { return nil }
func (w *world) Oldest() bool                  { return true }

// Owners implements [Owners].
func (w *world) Owners(_ context.Context, ids []broker.SessionID, _ bool) (owners []string, err error) {
	for _, id := range ids {
		owners = append(owners, w.owners[id])
	}
	return owners, nil
}

// A registry is the world's, as [Records].
type registry struct{ *world }

func (w registry) Get(key string) (*Record, uint64, bool) {
	s, ok := w.records[key]
	return s.record, s.revision, ok
}

func (w registry) All() iter.Seq2[string, *Record] {
	return func(yield func(string, *Record) bool) {
		for _, key := range slices.Sorted(maps.Keys(w.records)) {
			if s, ok := w.records[key]; ok && !yield(key, s.record) {
				return
			}
		}
	}
}

func (w registry) write(key string, r *Record, expect uint64) (uint64, error) {
	fault := w.faulty && w.rand.IntN(6) == 0
	lost := fault && w.rand.IntN(2) == 0
	switch {
	case lost:
	case w.records[key].revision != expect && expect == 0:
		return 0, protocol.Errorf(protocol.AlreadyExists, "there")
	case w.records[key].revision != expect:
		return 0, protocol.Errorf(protocol.RevisionConflict, "changed")
	case r == nil:
		delete(w.records, key)
	default:
		w.clock++
		w.records[key] = stored{r, w.clock}
	}
	if fault {
		return 0, protocol.Errorf(protocol.StoreUnavailable, "the owners are not known")
	}
	return w.records[key].revision, nil
}

func (w registry) Create(_ context.Context, key string, r *Record) (uint64, error) {
	return w.write(key, r, 0)
}
func (w registry) Update(_ context.Context, key string, r *Record, expect uint64) (uint64, error) {
	return w.write(key, r, expect)
}
func (w registry) Delete(_ context.Context, key string, expect uint64) error {
	_, err := w.write(key, nil, expect)
	return err
}

// Exclusive, HasExclusive and LoseExclusive implement [Local].
func (b *bridge) Exclusive(yield func(broker.SessionID, protocol.Party, string) bool) {
	for id, c := range b.sessions {
		for topic := range maps.Clone(c.topics) {
			if !yield(id, protocol.Party{}, topic) {
				return
			}
		}
	}
}

func (b *bridge) HasExclusive(id broker.SessionID, topic string) bool {
	c := b.sessions[id]
	return c != nil && c.topics[topic]
}

func (b *bridge) LoseExclusive(id broker.SessionID, topic string) {
	panic(fmt.Sprintf("%s has lost %s", id.Client, topic))
}

func (w *world) note(format string, args ...any) {
	w.done = append(w.done, fmt.Sprintf(format, args...))
}

// chance reports whether what is rare happens.
func (w *world) chance() bool { return w.rand.IntN(8) == 0 }

func (w *world) one(ids ...string) string { return ids[w.rand.IntN(len(ids))] }

// at is the bridge that has a session, if any.
func (w *world) at(id broker.SessionID) (*bridge, *client) {
	for _, b := range w.bridges {
		if c := b.sessions[id]; c != nil {
			return b, c
		}
	}
	return nil, nil
}

// step does something.
func (w *world) step(ctx context.Context) {
	id := broker.SessionID{Space: "default", Client: w.one("v", "w", "x", "y", "z")}
	topic := w.one("one", "two")
	at, c := w.at(id)
	to := w.bridges[w.one("a", "b", "c")]
	switch what := w.rand.IntN(12); {
	case what < 1:
		w.dies(to)
	case what < 3 && !to.alive:
		w.note("%s is back", to.node.ID)
		w.run(to.node.ID, true, to.sessions)
	case what < 4:
		w.note("%s looks", to.node.ID)
		to.holders.giveAll(ctx)
		to.holders.look(ctx)
	case c == nil && to.alive:
		w.enters(ctx, id, to)
	case c == nil:
	case what < 5:
		w.ends(id, at)
	case what < 7 && to != at && to.alive && c.kept:
		w.moves(ctx, id, at, to)
	case what < 9 && at.alive && c.topics[topic]:
		w.leaves(id, at, topic)
	case at.alive:
		w.wants(ctx, id, at, topic)
	}
}

func (w *world) enters(ctx context.Context, id broker.SessionID, b *bridge) {
	kept := w.rand.IntN(2) == 0
	w.note("%s enters at %s, kept %v", id.Client, b.node.ID, kept)
	b.sessions[id] = &client{kept: kept, topics: make(map[string]bool)}
	if kept {
		w.owners[id] = b.node.ID
	}
}

// dies ends the process of a bridge. What it had to give is forgotten.
func (w *world) dies(b *bridge) {
	w.note("%s dies", b.node.ID)
	maps.DeleteFunc(b.sessions, func(_ broker.SessionID, c *client) bool { return !c.kept })
	w.run(b.node.ID, false, b.sessions)
}

func (w *world) ends(id broker.SessionID, b *bridge) {
	w.note("%s ends at %s", id.Client, b.node.ID)
	topics := b.sessions[id].topics
	delete(b.sessions, id)
	delete(w.owners, id)
	if w.chance() {
		w.dies(b)
		return
	}
	for topic := range topics {
		b.holders.Give(id, topic, nil)
	}
}

func (w *world) leaves(id broker.SessionID, b *bridge, topic string) {
	w.note("%s gives up %s at %s", id.Client, topic, b.node.ID)
	delete(b.sessions[id].topics, topic)
	if w.chance() {
		w.dies(b)
		return
	}
	b.holders.Give(id, topic, nil)
}

func (w *world) wants(ctx context.Context, id broker.SessionID, b *bridge, topic string) {
	had := b.HasExclusive(id, topic)
	done, err := b.holders.Take(ctx, id, protocol.Party{}, topic)
	w.note("%s wants %s at %s: %v", id.Client, topic, b.node.ID, err)
	if err != nil {
		return
	}
	defer done()
	switch {
	case w.chance(): // between the record and the subscription
		w.dies(b)
	case w.chance(): // the client is gone
		if !had {
			b.holders.Give(id, topic, nil)
		}
	default:
		b.sessions[id].topics[topic] = true
	}
}

// moves has a kept session go to another bridge.
func (w *world) moves(ctx context.Context, id broker.SessionID, from, to *bridge) {
	c := from.sessions[id]
	w.note("%s moves from %s to %s", id.Client, from.node.ID, to.node.ID)
	to.sessions[id], w.owners[id] = c, to.node.ID
	delete(from.sessions, id)
	if w.chance() {
		w.dies(to)
		return
	}
	if to.holders.Enter(ctx, id, protocol.Party{}, slices.Sorted(maps.Keys(c.topics))) == nil && w.rand.IntN(3) == 0 {
		w.note("and is not kept any more")
		c.kept = false
		delete(w.owners, id)
	}
}

// check fails if two sessions have one topic.
func (w *world) check() {
	has := make(map[string]string)
	for _, b := range w.bridges {
		for id, c := range b.sessions {
			for topic := range c.topics {
				if other, taken := has[topic]; taken {
					w.t.Fatalf("%s and %s have %s: %q", other, id.Client, topic, w.done)
				}
				has[topic] = id.Client
			}
		}
	}
}

// settle has all that is left be done: then every record is of a session that has its
// topic.
func (w *world) settle(ctx context.Context) {
	w.faulty = false
	for _, id := range []string{"a", "b", "c"} {
		if b := w.bridges[id]; !b.alive {
			w.run(id, true, b.sessions)
		}
	}
	for range 2 {
		for _, id := range []string{"a", "b", "c"} {
			if b := w.bridges[id]; !b.holders.giveAll(ctx) || !b.holders.look(ctx) {
				w.t.Fatalf("%s has something left to do: %q", id, w.done)
			}
		}
	}
	for _, s := range w.records {
		if b, c := w.at(s.record.session()); b == nil || !c.topics[s.record.Topic] {
			// What the session did not get may stay its own as long as it lives, where a
			// bridge died that had taken it for the session, which has moved.
			if b != nil && b.node.ID != s.record.Process.ID {
				continue
			}
			w.t.Fatalf("%s does not have %s, and keeps others from it: %q", s.record.Client, s.record.Topic, w.done)
		}
	}
}

// TestNoTwoSessionsHaveATopic lets clients want topics, give them up, move, and end,
// while bridges die between any two steps and writes fail, or seem to.
func TestNoTwoSessionsHaveATopic(t *testing.T) {
	for seed := range uint64(300) {
		w := newWorld(t, seed)
		for range 150 {
			w.step(t.Context())
			w.check()
		}
		w.settle(t.Context())
		w.check()
	}
}
