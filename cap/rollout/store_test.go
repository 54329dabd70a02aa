package rollout

import (
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aibridge/aibridge/cap/dispatch"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/internal/natsd"
	"github.com/aibridge/aibridge/internal/store"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/registry/ask"
)

// newStoredWorld is a world whose tables are in the bridge's own store, which
// every boot opens again.
func newStoredWorld(t testing.TB, devices int) *world {
	w := newWorld(t, devices)
	log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	servers, err := natsd.Start(natsd.Options{Dir: t.TempDir(), Log: log})
	if err != nil {
		t.Fatal(err)
	}
	var s *store.Store
	end := func() {
		w.crash()
		if s != nil {
			s.Close()
		}
	}
	t.Cleanup(func() { end(); servers.Close() })
	w.open = func() (load func()) {
		end()
		s, err = store.Open(t.Context(), store.Conns{State: servers.State(), Flow: servers.Flow()}, store.Options{Log: log, WriteTimeout: eventually.Patience})
		if err != nil {
			t.Fatal(err)
		}
		w.rollouts, w.parts = store.NewTable[Rollout](s, "rollout"), store.NewTable[Part](s, "rollout-part")
		w.dispatches, w.batches = store.NewTable[dispatch.Dispatch](s, "dispatch"), store.NewTable[dispatch.Batch](s, "batch")
		return func() {
			if err := s.Load(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	return w
}

// A fleet of ten thousand, of which one in twenty fails: the rollout stops by
// itself where it was told to, stays so over a restart, and reaches everybody
// once the devices were mended.
func TestAFleetIsReachedThoughSomeOfItFails(t *testing.T) {
	const fleet, before, atOnce = 10_000, 1000, 1000
	w := newStoredWorld(t, fleet).boot()
	w.field.behave = func(agent protocol.AgentID, _ int) ask.Notice {
		if n, err := strconv.Atoi(strings.TrimPrefix(string(agent), "device-")); err != nil || n%20 == 0 {
			return broken
		}
		return answered
	}
	id := w.start(Plan{Rollout: &Pace{InProgress: atOnce}, Abort: []Abort{{On: "failed", Percent: 3, After: before}}})
	w.expect(id, Aborted, "")
	var v View
	eventually.Holds(t, "who was asked has answered", func() bool { v, _ = w.engine.Get(id); return v.Counts.InProgress == 0 })
	if v.Counts.ended() < before || v.Counts.Queued <= fleet-before-atOnce || !strings.Contains(v.Reason, "3 percent stop it") {
		t.Errorf("it stopped at %s: %s", inWords(v.Counts), v.Reason)
	}
	w.once(v.Counts.ended())
	w.tidy()

	w.boot()
	w.expect(id, Aborted, inWords(v.Counts))
	w.field.change(func() { w.field.behave = func(protocol.AgentID, int) ask.Notice { return answered } })
	if _, err := w.engine.Resume(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	failed := v.Counts.Failed
	v = w.expect(id, Partial, "")
	if v.Counts.Failed != failed || v.Counts.Succeeded != fleet-failed {
		t.Errorf("it ended with %s, after %d had failed", inWords(v.Counts), failed)
	}
	if _, err := w.engine.Retry(t.Context(), id, []State{Failed}, time.Time{}); err != nil {
		t.Fatal(err)
	}
	w.expect(id, Complete, "succeeded 10000")
	w.once(fleet + failed)
	w.tidy()
}
