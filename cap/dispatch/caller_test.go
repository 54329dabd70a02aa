package dispatch

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// A court judges whether alice may have members asked, and counts how often it
// was asked.
type court struct {
	barred atomic.Bool
	asked  atomic.Int32
}

func (c *court) judging(o *Options) {
	o.MayAsk = func(d *Dispatch, _ protocol.SkillID) error {
		c.asked.Add(1)
		if c.barred.Load() || d.Caller.ID != alice.ID {
			return protocol.Errorf(protocol.PermissionDenied, "not any more")
		}
		return nil
	}
}

func TestWhoComesLaterIsJudgedThen(t *testing.T) {
	var c court
	w := newWorld(t, c.judging)
	w.field.add("here")
	early, late := w.field.add("early", away), w.field.add("late", away)
	id := w.dispatch(Completion{Policy: All}, time.Minute, "here", "early", "late")
	w.expect(id, InProgress, "ok offline offline")
	if c.asked.Load() != 0 {
		t.Error("judged who was judged by whoever began the dispatch")
	}
	w.field.comeBack(early)
	w.expect(id, InProgress, "ok ok offline")
	c.barred.Store(true)
	w.crash()
	w.boot() // whoever takes the dispatch up still knows who began it
	w.field.comeBack(late)
	w.expect(id, Partial, "ok ok denied")
	v, _ := w.engine.Get(id)
	if m := v.Members[2]; m.Error == nil || m.Error.Code != protocol.PermissionDenied || m.Error.Message != "not any more" {
		t.Errorf("denied for %+v", m.Error)
	}
	if late.runs != 0 || early.runs != 1 {
		t.Errorf("late ran %d times, early %d times", late.runs, early.runs)
	}
}

// TestWhoIsAskedAgainIsJudgedThen has the bridge stop right behind having
// asked, and who asked be barred before it is back.
func TestWhoIsAskedAgainIsJudgedThen(t *testing.T) {
	var c court
	w := newWorld(t, c.judging)
	never, again, mute := w.field.add("never", busy), w.field.add("again", busy, idempotent), w.field.add("mute", busy, naive, idempotent)
	id := w.dispatch(Completion{Policy: All}, time.Minute, "never", "again", "mute")
	w.expect(id, InProgress, "accepted accepted accepted")
	w.crash()
	w.field.mu.Lock()
	clear(never.known) // it was asked, as far as is stored, and heard nothing of it
	w.field.mu.Unlock()
	w.field.reset(again) // it may have done it
	c.barred.Store(true)
	w.boot()
	w.expect(id, InProgress, "denied failed pending")
	w.field.finish(mute, ok) // nobody keeps it from telling what it did
	w.expect(id, Partial, "denied failed ok")
	v, _ := w.engine.Get(id)
	if v.Members[1].Error.Code != protocol.OutcomeUnknown {
		t.Errorf("of who may have done it, it is told %+v", v.Members[1].Error)
	}
	if never.runs != 1 || again.runs != 1 || mute.runs != 1 {
		t.Errorf("asked again: %d, %d, %d times", never.runs, again.runs, mute.runs)
	}
}

// TestADispatchOfNobodyAsksNobodyLater is about those that were stored before
// it was known who began them.
func TestADispatchOfNobodyAsksNobodyLater(t *testing.T) {
	var c court
	w := newWorld(t, c.judging)
	late := w.field.add("late", away)
	id := w.dispatch(Completion{Policy: All}, time.Minute, "late")
	w.crash()
	stored, _, _ := w.dispatches.Get(string(id))
	old := *stored
	old.Caller = nil
	if _, err := w.dispatches.Put(t.Context(), string(id), &old); err != nil {
		t.Fatal(err)
	}
	w.boot()
	w.field.comeBack(late)
	w.expect(id, Fruitless, "denied")
	if late.runs != 0 {
		t.Error("it was asked")
	}
}
