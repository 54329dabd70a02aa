package estate

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/aibridge/aibridge/cluster"
	"github.com/aibridge/aibridge/cluster/relay"
	"github.com/aibridge/aibridge/internal/bubble"
	"github.com/aibridge/aibridge/internal/leaks"
	"github.com/aibridge/aibridge/protocol"
)

func TestMain(m *testing.M) { leaks.Verify(m) }

// A world is some bridges, what the registry has of them, and their journals.
type world struct {
	t        *testing.T
	mu       sync.Mutex
	rand     *rand.Rand
	epoch    uint64
	living   map[string]*process
	records  map[string]*Record
	revision map[string]uint64
	last     uint64
	journals map[string]*journal
	runs     map[string]uint64 // the last of each bridge
	fragile  bool              // journals cannot be opened now and then
}

// A journal is a bridge's.
type journal struct {
	sessions int
	holder   *process // who may write to it
}

// A process is one run of a bridge.
type process struct {
	w       *world
	node    cluster.Node
	ready   bool
	killed  bool
	members []cluster.Member // as it knows them
	estates *Estates
	stop    context.CancelFunc
	done    sync.WaitGroup
}

func newWorld(t *testing.T, seed uint64, names ...string) *world {
	w := &world{
		t: t, rand: rand.New(rand.NewPCG(seed, 9)), living: make(map[string]*process), records: make(map[string]*Record),
		revision: make(map[string]uint64), journals: make(map[string]*journal), runs: make(map[string]uint64),
	}
	for _, name := range names {
		w.journals[name] = &journal{sessions: 1}
		w.start(name)
	}
	return w
}

// start runs a bridge, as the app does.
func (w *world) start(name string) {
	w.mu.Lock()
	w.epoch += 1000
	p := &process{w: w, node: cluster.Node{ID: name, Epoch: w.epoch}}
	p.estates = New(Options{Records: p, Members: p, Serve: p.serve, Ready: func(m cluster.Member) bool { return m.Notes["relay"] != "" }})
	w.living[name] = p
	w.mu.Unlock()
	ctx, cancel := context.WithCancel(context.Background())
	p.stop = cancel
	p.done.Go(func() {
		if p.estates.Take(ctx) != nil {
			return
		}
		time.Sleep(w.moment()) // it loads
		w.mu.Lock()
		if !p.killed {
			w.take(name, p)
			w.run(name, p.node.Epoch)
			p.ready = true
		}
		w.mu.Unlock()
		w.wake()
		_ = p.estates.Run(ctx)
	})
	w.wake()
}

func (w *world) moment() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Duration(w.rand.IntN(100)) * time.Millisecond
}

// take gives a journal to a process. What was the holder before must be dead, or
// have given it back. mu is held.
func (w *world) take(bridge string, p *process) {
	j := w.journals[bridge]
	if h := j.holder; h != nil && h != p && !h.killed {
		w.t.Errorf("%v takes the journal of %s from %v, which is alive", p.node, bridge, h.node)
	}
	j.holder = p
}

// run notes the number of a run. mu is held.
func (w *world) run(bridge string, number uint64) {
	if number <= w.runs[bridge] {
		w.t.Errorf("run %d of %s comes after run %d", number, bridge, w.runs[bridge])
	}
	w.runs[bridge] = number
}

// kill ends a process at once: the others have declared it dead.
func (w *world) kill(name string) {
	w.mu.Lock()
	p := w.living[name]
	p.killed = true
	delete(w.living, name)
	w.mu.Unlock()
	p.stop()
	p.done.Wait()
	w.wake()
}

// wake has every process hear at once what the records are, and in a while who
// lives: these are two streams.
func (w *world) wake() {
	w.mu.Lock()
	all := slices.Collect(maps.Values(w.living))
	w.mu.Unlock()
	for _, p := range all {
		p.estates.Wake()
		time.AfterFunc(w.moment(), func() {
			p.hear()
			p.estates.Wake()
		})
	}
}

// hear has a process know who lives.
func (p *process) hear() {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	p.members = nil
	for _, other := range p.w.living {
		m := cluster.Member{Node: other.node, State: cluster.Serving, Wire: cluster.Wire}
		if other.ready {
			m.Notes = map[string]string{"relay": "1"}
		}
		p.members = append(p.members, m)
	}
}

// Members of a process are those that it has heard of.

func (p *process) Self() cluster.Node { return p.node }

func (p *process) Catchup(context.Context) error {
	time.Sleep(p.w.moment() / 10)
	p.hear()
	return nil
}

func (p *process) Members() []cluster.Member {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	return slices.Clone(p.members)
}

// Records of a process: those of the dead are not stored.

func (p *process) Get(bridge string) (*Record, uint64, bool) {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	r, ok := p.w.records[bridge]
	return r, p.w.revision[bridge], ok
}

func (p *process) All() iter.Seq2[string, *Record] {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	return maps.All(maps.Clone(p.w.records))
}

func (p *process) Create(ctx context.Context, bridge string, r *Record) (uint64, error) {
	return p.Update(ctx, bridge, r, 0)
}

func (p *process) Update(_ context.Context, bridge string, r *Record, expect uint64) (uint64, error) {
	time.Sleep(p.w.moment() / 10)
	defer p.w.wake()
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	switch {
	case p.killed:
		return 0, errors.New("dead")
	case p.w.revision[bridge] != expect:
		return 0, protocol.Errorf(protocol.RevisionConflict, "it is at %d", p.w.revision[bridge])
	}
	p.w.last++
	p.w.records[bridge], p.w.revision[bridge] = r, p.w.last
	return p.w.last, nil
}

// A server is a process that serves the sessions of a bridge.
type server struct {
	p      *process
	bridge string
}

func (p *process) serve(_ context.Context, bridge string, run uint64) (Server, error) {
	time.Sleep(p.w.moment())
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	if p.killed || p.w.fragile && p.w.rand.IntN(2) == 0 {
		return nil, errors.New("cannot be opened")
	}
	p.w.take(bridge, p)
	p.w.run(bridge, run)
	return &server{p, bridge}, nil
}

func (s *server) Reconcile([]relay.Member) {}
func (s *server) Vacant() bool             { return s.Count() == 0 }

func (s *server) Count() int {
	s.p.w.mu.Lock()
	defer s.p.w.mu.Unlock()
	return s.p.w.journals[s.bridge].sessions
}

func (s *server) Close(context.Context) bool {
	s.p.w.mu.Lock()
	if j := s.p.w.journals[s.bridge]; j.holder == s.p && !s.p.killed {
		j.holder = nil
	}
	s.p.w.mu.Unlock()
	return s.Vacant()
}

// settled fails unless every bridge that lives has its own journal, and that of
// every other one with sessions is served by one that lives, as all of them see it.
func (w *world) settled() {
	w.mu.Lock()
	journals := maps.Clone(w.journals)
	living := maps.Clone(w.living)
	w.mu.Unlock()
	for bridge, j := range journals {
		switch p := living[bridge]; {
		case p != nil && j.holder != p:
			w.t.Errorf("%v does not have its own journal, %v does", p.node, j.holder)
		case p == nil && j.sessions > 0 && (j.holder == nil || j.holder.killed):
			w.t.Errorf("nobody serves the sessions of %s: %+v", bridge, w.records[bridge])
		case p == nil && j.sessions == 0 && !w.records[bridge].Vacant:
			w.t.Errorf("%s has no sessions, and its estate is not vacant: %+v", bridge, w.records[bridge])
		}
	}
	for _, p := range living {
		for _, peer := range p.estates.Peers() {
			_, lives := living[peer.ID]
			if peer.Waits || !peer.Ready || peer.Adopted == lives || journals[peer.ID].sessions == 0 && !lives {
				w.t.Errorf("%v sees %+v", p.node, peer)
			}
			if peer.Wire != cluster.Wire { // also who speaks for one that is dead
				w.t.Errorf("%v speaks with %s by version %d", p.node, peer.ID, peer.Wire)
			}
		}
	}
}

// TestEveryEstateHasOneHolder kills and starts bridges at any moment.
func TestEveryEstateHasOneHolder(t *testing.T) {
	for seed := range uint64(40) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				names := []string{"a", "b", "c", "d"}
				w := newWorld(t, seed, names...)
				roll := rand.New(rand.NewPCG(seed, 1))
				for range 60 {
					name := names[roll.IntN(len(names))]
					w.mu.Lock()
					_, lives := w.living[name]
					w.fragile = seed%2 == 1
					w.mu.Unlock()
					switch {
					case !lives:
						w.start(name)
					case roll.IntN(2) == 0:
						w.kill(name)
					}
					time.Sleep(time.Duration(roll.IntN(400)) * time.Millisecond)
					if roll.IntN(10) == 0 {
						w.mu.Lock()
						w.journals[names[roll.IntN(len(names))]].sessions = roll.IntN(2)
						w.mu.Unlock()
					}
				}
				w.mu.Lock()
				w.fragile = false
				nobody := len(w.living) == 0
				w.mu.Unlock()
				if nobody {
					w.start("a")
				}
				time.Sleep(time.Minute)
				w.settled()
				for _, name := range names {
					w.mu.Lock()
					_, lives := w.living[name]
					w.mu.Unlock()
					if lives {
						w.kill(name)
					}
				}
			})
		})
	}
}

func TestAllAgreeOnTheAdopter(t *testing.T) {
	share := make(map[string]int)
	for i := range 3000 {
		bridge := fmt.Sprint("bridge-", i)
		adopter := Adopter(bridge, []string{"a", "b", "c"})
		if other := Adopter(bridge, []string{"c", "a", "b"}); other != adopter {
			t.Fatalf("%s goes to %s or %s", bridge, adopter, other)
		}
		if adopter != "c" { // which others come and go does not matter
			if other := Adopter(bridge, []string{"b", "a"}); other != adopter {
				t.Fatalf("%s goes to %s, and without c to %s", bridge, adopter, other)
			}
		}
		share[adopter]++
	}
	for id, n := range share {
		if n < 800 {
			t.Errorf("%s has %d of 3000", id, n)
		}
	}
	if got := Adopter("x", nil); got != "" {
		t.Errorf("nobody is %q", got)
	}
}
