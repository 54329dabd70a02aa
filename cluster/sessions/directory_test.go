package sessions

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/aibridge/aibridge/broker"
	"github.com/aibridge/aibridge/internal/eventually"
)

// A memoryLog is a [Log] of one process.
type memoryLog struct {
	mu    sync.Mutex
	stuck bool // nothing can be stored
	words [][]byte
	grown chan struct{}
}

func (l *memoryLog) Append(ctx context.Context, _ string, data []byte) (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stuck {
		l.mu.Unlock()
		<-ctx.Done()
		l.mu.Lock()
		return 0, ctx.Err()
	}
	l.words = append(l.words, slices.Clone(data))
	close(l.grown)
	l.grown = make(chan struct{})
	return uint64(len(l.words)), nil
}

func (l *memoryLog) Follow(ctx context.Context, current func(), take func(uint64, []byte)) {
	current()
	for next := 0; ; {
		l.mu.Lock()
		words, grown := l.words[next:], l.grown
		l.mu.Unlock()
		for _, word := range words {
			next++
			take(uint64(next), word)
		}
		if len(words) > 0 {
			continue
		}
		select {
		case <-grown:
		case <-ctx.Done():
			return
		}
	}
}

func (l *memoryLog) Trim(context.Context, uint64) error { return nil }

// An emptyBroker has no sessions any more.
type emptyBroker struct{ Local }

func (emptyBroker) Here(broker.SessionID) (broker.Standing, int64)  { return broker.Absent, 0 }
func (emptyBroker) All(func(id broker.SessionID, since int64) bool) {}

func TestSessionsWhoseTimeIsOverAtTheStartAreReleased(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), eventually.Patience)
	defer cancel()
	log := &memoryLog{grown: make(chan struct{})}
	d := New(Options{Self: Node{"a", 1}, Secret: new(Secret), Log: log, Say: func(Node, []byte, bool) bool { return true }})
	defer d.Close()
	if err := d.Begin(ctx); err != nil {
		t.Fatal(err)
	}
	id := broker.SessionID{Space: "default", Client: "x"}
	if epochs, err := d.Restored(ctx, []broker.Held{{ID: id}}); err != nil || epochs[0] == 0 {
		t.Fatalf("the session of the journal is of the epochs %v, %v", epochs, err)
	}
	d.Left(id) // by the timers of the broker that is being made
	d.Start(emptyBroker{})
	for {
		owned := make(chan int)
		d.post(func() { owned <- d.machine.table.Len() })
		log.mu.Lock()
		grown := log.grown
		log.mu.Unlock()
		if <-owned == 0 {
			return
		}
		select {
		case <-grown:
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			t.Fatal("the log says that the session is still owned")
		}
	}
}

func TestClientsThatGaveUpDoNotPileUpWhileNothingCanBeWritten(t *testing.T) {
	t.Parallel()
	log := &memoryLog{grown: make(chan struct{})}
	d := New(Options{Self: Node{"a", 1}, Secret: new(Secret), Log: log, Say: func(Node, []byte, bool) bool { return true }})
	defer d.Close()
	if err := d.Begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	d.Start(emptyBroker{})
	log.mu.Lock()
	log.stuck = true
	log.mu.Unlock()
	gone, leave := context.WithCancel(t.Context())
	leave()
	id := broker.SessionID{Space: "default", Client: "x"}
	for range 100 {
		if _, err := d.Enter(gone, broker.Entering{ID: id, Kept: true}); err != broker.ErrUnavailable {
			t.Fatalf("a client is let in that is gone: %v", err)
		}
	}
	waiting := make(chan int)
	d.post(func() { waiting <- len(d.machine.places[d.o.Secret.Key(id)].ops) })
	if n := <-waiting; n != 1 { // whose claim is on its way
		t.Errorf("%d clients wait", n)
	}
}
