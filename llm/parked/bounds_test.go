package parked_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/internal/records"
	"github.com/aibridge/aibridge/internal/records/recordstest"
	"github.com/aibridge/aibridge/llm/approval"
	"github.com/aibridge/aibridge/llm/parked"
	"github.com/aibridge/aibridge/protocol"
)

// shifting seals by moving every byte.
type shifting struct{}

func (shifting) Seal(plain []byte, purpose string) ([]byte, error) {
	return append([]byte(purpose+"\n"), bytes.Map(func(r rune) rune { return r + 1 }, plain)...), nil
}

func (shifting) Open(sealed []byte, purpose string) ([]byte, error) {
	text, ok := bytes.CutPrefix(sealed, []byte(purpose+"\n"))
	if !ok {
		return nil, errors.New("sealed for something else")
	}
	return bytes.Map(func(r rune) rune { return r - 1 }, text), nil
}

// Nothing of a conversation is stored in the open: neither the arguments of the
// call that waits, nor the calls that an error tells of.
func TestNothingOfAConversationIsStoredInTheOpen(t *testing.T) {
	w := newWorld(t, func(p *parked.Options, _ *approval.Options) { p.Sealer = shifting{} })
	w.parked.Handle("llm.query", func(context.Context, *parked.Job) (json.RawMessage, error) {
		return nil, protocol.Errorf(protocol.Internal, "broken").With("tools", map[string]any{"calls": []string{"secret"}}).With("reason", "so")
	})
	r, a := w.waits(t)
	for range 2 {
		var raw bytes.Buffer
		if err := records.Encode(&raw, w.task()); err != nil || strings.Contains(raw.String(), "door") || strings.Contains(raw.String(), "secret") {
			t.Errorf("stored %s, %v", raw.String(), err)
		}
		if w.task().State.Over() {
			break
		}
		if err := w.decide(alice, a, "approve", ""); err != nil {
			t.Fatal(err)
		}
		w.ended()
	}
	v, _ := w.parked.Get(r.ID)
	if told, _ := json.Marshal(v.Failure.Details); string(told) != `{"reason":"so","tools":{"calls":["secret"]}}` {
		t.Errorf("told %s", told)
	}
}

// However many are parked at once, no more is kept than may.
func TestNoMoreIsKeptThanMay(t *testing.T) {
	one := newWorld(t)
	r, _ := one.waits(t)
	size := len(r.Kept) + len(r.Asks)
	one.stop()
	w := newWorld(t, func(p *parked.Options, _ *approval.Options) { p.MaxOwnBytes = 3*size + size/2 })
	w.tasks.Yield()
	var asking sync.WaitGroup
	for range 12 {
		asking.Go(func() {
			if _, _, err := w.ask(carol); err != nil {
				t.Error(err)
			}
		})
	}
	asking.Wait()
	if n := w.tasks.Len(); n == 0 || n > 3 {
		t.Errorf("%d are kept", n)
	}
}

// slow is a table whose first answer is lost: what it was to store is stored, and
// nobody is told so.
type slow struct {
	records.Table[parked.Record]
	lost sync.Once
}

func (s *slow) Create(ctx context.Context, key string, r *parked.Record) (revision uint64, err error) {
	revision, err = s.Table.Create(ctx, key, r)
	s.lost.Do(func() {
		revision, err = 0, protocol.Errorf(protocol.StoreUnavailable, "the store did not answer in time")
	})
	return revision, err
}

func TestATaskThatWasStoredLateIsNobodys(t *testing.T) {
	w := newWorld(t, func(p *parked.Options, _ *approval.Options) { p.Tasks = &slow{Table: p.Tasks} })
	turn, _, err := w.ask(carol)
	if err != nil || turn.Parked {
		t.Fatalf("it is parked: %+v, %v", turn, err)
	}
	eventually.Holds(t, "the task is removed", func() bool { return w.tasks.Len() == 0 })
	if a := w.pending(); a != nil {
		t.Errorf("somebody is asked: %+v", a)
	}
	w.waits(t)
}

// What a call has done is told, however much that is.
func TestALongOutcomeIsKept(t *testing.T) {
	for name, test := range map[string]struct {
		most, long int
		want       string
		rings      int
	}{
		"it fits":            {1 << 20, 40 << 10, "I heard xxx", 1},
		"it is cut":          {12 << 10, 60 << 10, "[The rest of the result was too long to be kept.]", 1},
		"there is no room":   {250, 0, "too much to be kept", 0},
		"too long an answer": {24 << 10, 90<<10 + 1, "failed: 1004 the answer is too long to be kept", 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.bell.says = strings.Repeat("x", test.long)
			_, a := w.waits(t)
			w.stop()
			w.change = func(p *parked.Options, _ *approval.Options) { p.MaxKept = test.most }
			w.begin(&recordstest.Process{})
			if name == "too long an answer" {
				w.parked.Handle("llm.query", func(context.Context, *parked.Job) (json.RawMessage, error) {
					w.bell.rings++
					return json.Marshal(strings.Repeat("x", 100<<10))
				})
			}
			if err := w.decide(alice, a, "approve", ""); err != nil {
				t.Fatal(err)
			}
			if said := w.ended(); !strings.Contains(said, test.want) || w.bell.rings != test.rings {
				t.Errorf("it said %.200q … %d bytes, and the bell was rung %d times", said, len(said), w.bell.rings)
			}
		})
	}
}

// counted is a table that counts how often it is asked.
type counted struct {
	records.Table[parked.Record]
	asked *atomic.Int64
}

func (c counted) Get(key string) (*parked.Record, uint64, bool) {
	c.asked.Add(1)
	return c.Table.Get(key)
}

// However many are decided at once, each costs the same.
func TestWhatManyCostGrowsWithTheirNumberAlone(t *testing.T) {
	var asked atomic.Int64
	w := newWorld(t, func(p *parked.Options, a *approval.Options) {
		p.Tasks, p.MaxRunning = counted{p.Tasks, &asked}, 8
		a.MaxOwn = 1000
	})
	const n = 600
	for range n {
		if _, _, err := w.ask(carol); err != nil {
			t.Fatal(err)
		}
	}
	w.stop()
	for id, r := range w.approvals.All() { // somebody has decided elsewhere
		denied := *r
		denied.State, denied.DecidedBy = approval.Denied, "alice"
		if _, err := w.approvals.Put(t.Context(), id, &denied); err != nil {
			t.Fatal(err)
		}
	}
	asked.Store(0)
	w.begin(&recordstest.Process{})
	eventually.Holds(t, "all have ended", func() bool { tasks, _ := w.parked.Tally(); return tasks == 0 })
	if each := asked.Load() / n; each > 20 {
		t.Errorf("for each task the table is asked %d times", each)
	}
}
