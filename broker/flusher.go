package broker

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// A flusher writes messages published from within the process, so that many
// messages of many goroutines leave with few system calls. Readers help it at
// the end of their turns.
type flusher struct {
	b    *Broker
	wake chan struct{}

	helpers atomic.Int32 // readers in a turn, at the end of which they help
	began   atomic.Int64 // steady time at which the latest of these turns began

	mu    sync.Mutex
	conns []*conn
}

func newFlusher(b *Broker) *flusher { return &flusher{b: b, wake: make(chan struct{}, 1)} }

// take moves what the turn has to flush to the flusher.
func (f *flusher) take(t *turn) {
	if len(t.dirty) == 0 {
		return
	}
	f.mu.Lock()
	first := len(f.conns) == 0
	f.conns = append(f.conns, t.dirty...)
	f.mu.Unlock()
	clear(t.dirty)
	t.dirty = t.dirty[:0]
	if first && f.helpers.Load() == 0 {
		f.alert()
	}
}

func (f *flusher) alert() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// enter says that a turn begins, at a steady time, that will help at its end.
func (f *flusher) enter(now int64) {
	f.began.Store(now)
	f.helpers.Add(1)
}

// now is the time for a message of the bridge's own: that of the turn at the end of which
// it is written, if there is one under way.
func (f *flusher) now() int64 {
	if f.helpers.Load() > 0 {
		return f.began.Load()
	}
	return f.b.clock.Steady()
}

// leave ends such a turn. Output that came too late for its help, and relied on it,
// is for the flusher.
func (f *flusher) leave() {
	if f.helpers.Add(-1) > 0 {
		return
	}
	f.mu.Lock()
	late := len(f.conns) > 0
	f.mu.Unlock()
	if late {
		f.alert()
	}
}

// idle waits until no such turn is under way, or the context ends. It is for a
// broker that is stopped: its readers take no more packets.
func (f *flusher) idle(ctx context.Context) {
	for f.helpers.Load() > 0 && ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-time.After(time.Millisecond):
		}
	}
}

// help moves what waits here to a turn that is about to end.
func (f *flusher) help(t *turn) {
	f.mu.Lock()
	t.dirty = append(t.dirty, f.conns...)
	clear(f.conns)
	f.conns = f.conns[:0]
	f.mu.Unlock()
}

func (f *flusher) run(stop <-chan struct{}) {
	t := newTurn(f.b)
	for {
		select {
		case <-stop:
			return
		case <-f.wake:
			t.begin()
			f.help(t)
			t.end()
		}
	}
}
