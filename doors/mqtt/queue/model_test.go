package queue

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/aibridge/aibridge/broker"
	"github.com/aibridge/aibridge/broker/packet"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/internal/leaks"
	"github.com/aibridge/aibridge/internal/records/recordstest"
	"github.com/aibridge/aibridge/protocol"
)

func TestMain(m *testing.M) { leaks.Verify(m) }

// A hall is the workers of one bridge.
type hall struct {
	mu   sync.Mutex
	w    *world
	name string
	dead bool
	has  map[string]func(broker.Return) // what its workers have
	busy int                            // tasks that they take at once; 0 for nobody
}

func (*hall) Handle(string, func(*broker.Publication))   {}
func (*hall) Subscribers(protocol.SpaceID, []string) int { return 1 }
func (*hall) Inspect(string, broker.Inspector)           {}

func (h *hall) Borrowers(protocol.SpaceID, []string, int) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.dead || len(h.has) >= h.busy {
		return 0
	}
	return packet.MaxRemaining
}

func (h *hall) Lend(_ protocol.SpaceID, _ []string, _ int, m protocol.Message, done func(broker.Return)) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.dead || len(h.has) >= h.busy {
		return false
	}
	h.has[m.Topic] = done
	h.w.given(m.Topic, h)
	return true
}

// step lets a worker acknowledge what it has, or leave with it.
func (h *hall) step(taken bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for topic, done := range h.has {
		delete(h.has, topic)
		h.w.ended(topic, taken)
		if taken {
			done(broker.Accepted)
		} else {
			done(broker.Abandoned)
		}
		return
	}
}

// A world is the bridges, and what their workers have done.
type world struct {
	t     *testing.T
	table *recordstest.Memory[Message]

	mu     sync.Mutex
	halls  map[string]*hall // by process
	with   map[string]*hall
	did    map[string]int
	killed bool
	stops  []func()
}

func (w *world) given(topic string, h *hall) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if other := w.with[topic]; other != nil && !other.dead {
		w.t.Errorf("%s is with workers of %s and %s", topic, other.name, h.name)
	}
	if w.did[topic] > 0 && !w.killed {
		w.t.Errorf("%s is given out after it was done", topic)
	}
	w.with[topic] = h
}

func (w *world) ended(topic string, taken bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.with, topic)
	if taken {
		w.did[topic]++
	}
}

// start starts a bridge.
func (w *world) start(name string) *hall {
	h := &hall{w: w, name: name, has: make(map[string]func(broker.Return)), busy: 3}
	w.mu.Lock()
	w.halls[name] = h
	w.mu.Unlock()
	k := Open(Options{
		Queues: []Queue{{Name: "q", Topic: "#", Hours: 1, Prefetch: 3, Messages: 1000, Bytes: 1 << 20}}, Table: w.table, Self: name,
		Gone: func(_ context.Context, process string) bool {
			w.mu.Lock()
			defer w.mu.Unlock()
			other := w.halls[process]
			return other == nil || other.dead
		},
		Registerer: prometheus.NewRegistry(), Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	k.Attend(h)
	ctx, cancel := context.WithCancel(w.t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = k.Run(ctx) }()
	w.stops = append(w.stops, func() { cancel(); <-done; k.working.Wait() })
	return h
}

// kill ends a bridge between any two steps: nothing of it is written any more.
func (w *world) kill(h *hall) {
	h.mu.Lock()
	defer h.mu.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	h.dead, w.killed = true, true
	h.has = make(map[string]func(broker.Return))
}

// Whatever workers and bridges do, each message is done, and with one worker at a time.
func TestEachMessageIsDone(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(seed, 1))
			w := &world{t: t, table: recordstest.New[Message](), halls: make(map[string]*hall), with: make(map[string]*hall), did: make(map[string]int)}
			halls := []*hall{w.start("a/1"), w.start("b/1"), w.start("c/1")}
			defer func() {
				for _, stop := range w.stops {
					stop()
				}
			}()
			const messages = 40
			sent, runs := 0, 1
			done := func() bool { w.mu.Lock(); defer w.mu.Unlock(); return len(w.did) == messages }
			step := func() {
				h := random.IntN(len(halls))
				switch n := random.IntN(100); {
				case n < 40 && sent < messages:
					m := &Message{Queue: "q", Space: "home", At: int64(sent + 1), Until: 1 << 62, Topic: fmt.Sprint(sent)}
					if _, err := w.table.Create(t.Context(), fmt.Sprintf("%04d", sent), m); err != nil {
						t.Error(err)
					}
					sent++
				case n < 80:
					halls[h].step(true)
				case n < 96:
					halls[h].step(false)
				case n < 98 && runs < 6 && seed%2 == 1:
					w.kill(halls[h])
					runs++
					halls[h] = w.start(fmt.Sprint(halls[h].name[:1], "/", runs))
				}
			}
			eventually.Holds(t, "all is done", func() bool { step(); return done() && w.table.Len() == 0 })
			for topic, n := range w.did {
				if n != 1 && !w.killed {
					t.Errorf("%s was done %d times", topic, n)
				}
			}
		})
	}
}
