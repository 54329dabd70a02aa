package dispatch

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/aibridge/aibridge/internal/bubble"
	"github.com/aibridge/aibridge/protocol"
)

// TestWhateverHappensNobodyRunsTwiceAndEveryDispatchEnds lets devices come, go,
// die and forget, and the bridge crash, in any order.
func TestWhateverHappensNobodyRunsTwiceAndEveryDispatchEnds(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var failed any
		bubble.Test(t, func(*testing.T) {
			defer func() { failed = recover() }()
			anything(rt)
		})
		if failed != nil {
			panic(failed) // where rapid expects it
		}
	})
}

func anything(t *rapid.T) {
	// The clock of the test stands still between sleeps, so devices are born
	// clearly before or after a dispatch begins.
	w := newWorld(t)
	defer w.crash()
	var skills []string
	var devices []*device
	for i := range rapid.IntRange(1, 5).Draw(t, "devices") {
		behaviour := rapid.SampledFrom([]func(*device){func(*device) {}, busy, away, failing, rejecting}).Draw(t, "behaviour")
		kind := rapid.SampledFrom([]func(*device){func(*device) {}, idempotent, naive}).Draw(t, "kind")
		skills = append(skills, fmt.Sprintf("s%d", i))
		devices = append(devices, w.field.add(skills[i], behaviour, kind))
	}
	one := rapid.SampledFrom(devices)
	var ids []protocol.TaskID
	t.Repeat(map[string]func(*rapid.T){
		"dispatch": func(t *rapid.T) {
			c := Completion{Policy: rapid.SampledFrom([]Policy{All, Quorum, First, Deadline}).Draw(t, "policy")}
			if c.Policy == Quorum || c.Policy == First {
				c.N = rapid.IntRange(1, len(skills)).Draw(t, "n")
			}
			ids = append(ids, w.dispatch(c, time.Duration(rapid.IntRange(1, 500).Draw(t, "patience"))*time.Millisecond, skills...))
		},
		"crash": func(t *rapid.T) {
			w.crash()
			if rapid.Bool().Draw(t, "slowly") {
				time.Sleep(100 * time.Millisecond)
			}
			w.boot()
		},
		"cancel": func(t *rapid.T) {
			if len(ids) > 0 {
				_ = w.engine.Cancel(context.Background(), rapid.SampledFrom(ids).Draw(t, "task"), "why not")
			}
		},
		"leave":  func(t *rapid.T) { w.field.leave(one.Draw(t, "device")) },
		"return": func(t *rapid.T) { w.field.comeBack(one.Draw(t, "device")) },
		"forget": func(t *rapid.T) {
			time.Sleep(2 * time.Millisecond)
			w.field.reset(one.Draw(t, "device"))
			time.Sleep(2 * time.Millisecond)
		},
		"finish": func(t *rapid.T) { w.field.finish(one.Draw(t, "device"), ok) },
		"wait":   func(t *rapid.T) { time.Sleep(time.Duration(rapid.IntRange(0, 50).Draw(t, "ms")) * time.Millisecond) },
	})
	time.Sleep(time.Second) // past every deadline
	synctest.Wait()
	for _, id := range ids {
		v, there := w.engine.Get(id)
		if !there || v.Outcome == InProgress {
			t.Fatalf("dispatch %s never ends: %+v", id, v)
		}
		for i, m := range v.Members {
			switch m.State {
			case Pending, Accepted, Running:
				t.Fatalf("%s is still %s in %s", m.Skill, m.State, v.Outcome)
			case OK:
				if devices[i].ran[v.invocationID(i)] == 0 {
					t.Fatalf("%s is ok and never ran", m.Skill)
				}
			case Denied, Offline:
				if m.State == Denied || devices[i].ran[v.invocationID(i)] > 0 {
					t.Fatalf("%s is %s and ran", m.Skill, m.State)
				}
			}
		}
	}
	for _, d := range devices {
		for id, n := range d.ran {
			if n > 1 && !d.idempotent {
				t.Fatalf("%s ran %d times for %s", d.skill, n, id)
			}
		}
	}
	if again := len(w.outcomesAgain()); again != len(ids) {
		t.Fatalf("%d dispatches of %d are listed", again, len(ids))
	}
}

// outcomesAgain are the outcomes as a fresh engine finds them.
func (w *world) outcomesAgain() map[protocol.TaskID]Status {
	w.crash()
	before := make(map[protocol.TaskID]Status)
	for v := range w.engine.All() {
		before[v.ID] = v.Outcome
	}
	w.boot()
	for v := range w.engine.All() {
		if before[v.ID] != v.Outcome {
			w.t.Fatalf("%s is %s after a restart and was %s", v.ID, v.Outcome, before[v.ID])
		}
	}
	return before
}
