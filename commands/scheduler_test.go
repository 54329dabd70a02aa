package commands

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aibridge/aibridge/internal/bubble"
	"github.com/aibridge/aibridge/protocol"
)

// A note writes down when its turn comes and keeps the slot.
type note struct {
	name string
	log  *[]string
}

func (n note) take() { *n.log = append(*n.log, n.name) }

func TestSlotsGoToHighBeforeMediumBeforeLow(t *testing.T) {
	t.Parallel()
	s, log := newScheduler(1), []string{}
	s.start(protocol.Low, note{"first", &log})
	for _, p := range []protocol.Priority{protocol.Low, protocol.Medium, protocol.High, protocol.Low, protocol.Medium, protocol.High} {
		s.start(p, note{p.String(), &log})
	}
	for range 7 {
		s.release()
	}
	if got := strings.Join(log, " "); got != "first high high medium medium low low" {
		t.Errorf("order: %s", got)
	}
	if s.free != 1 || s.queued() != 0 {
		t.Errorf("%d free, %d queued at the end", s.free, s.queued())
	}
}

func TestNoLaneStarves(t *testing.T) {
	t.Parallel()
	s, log := newScheduler(1), []string{}
	s.start(protocol.High, note{"first", &log})
	for range 1000 {
		for _, p := range []protocol.Priority{protocol.Low, protocol.Medium, protocol.High} {
			s.start(p, note{p.String(), &log})
		}
	}
	for range 650 {
		s.release()
	}
	served, longest, last := map[string]int{}, map[string]int{}, map[string]int{}
	for i, name := range log[1:] {
		served[name]++
		longest[name] = max(longest[name], i-last[name])
		last[name] = i
	}
	if served["high"] < 450 || served["medium"] < 100 || served["low"] < 45 {
		t.Errorf("served %v", served)
	}
	if longest["low"] > 14 || longest["medium"] > 6 {
		t.Errorf("waited at most %v turns", longest)
	}
}

func TestAFIFOKeepsOrderWhileItGrows(t *testing.T) {
	t.Parallel()
	var q fifo
	next, want := 0, 0
	for range 50 {
		for range 7 {
			q.push(numbered(next))
			next++
		}
		for range 5 {
			if got := int(q.pop().(numbered)); got != want {
				t.Fatalf("got %d, want %d", got, want)
			}
			want++
		}
	}
	if q.len() != next-want {
		t.Errorf("%d left, want %d", q.len(), next-want)
	}
}

type numbered int

func (numbered) take() {}

func TestAcquireWaitsForItsTurnOrTheEndOfTheContext(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := newScheduler(1)
		if !s.acquire(t.Context(), protocol.Medium) {
			t.Fatal("a free slot was not given")
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		gaveUp := make(chan bool)
		go func() { gaveUp <- s.acquire(ctx, protocol.High) }()
		synctest.Wait()
		got := make(chan bool)
		go func() { got <- s.acquire(t.Context(), protocol.Low) }()
		if <-gaveUp {
			t.Error("a slot that nobody gave back was given")
		}
		s.release() // passes by the one that gave up
		if !<-got {
			t.Error("the slot was lost")
		}
		s.release()
		if s.free != 1 {
			t.Errorf("%d slots are free", s.free)
		}
	})
}
