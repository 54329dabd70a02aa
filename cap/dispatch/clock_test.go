package dispatch

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/aibridge/aibridge/internal/clock"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/registry/ask"
)

// A deadline is so long after the beginning, whatever the clock is set to meanwhile.
func TestAClockThatIsSetEndsNoDispatch(t *testing.T) {
	now := clock.New()
	w := newWorld(t, func(o *Options) { o.Clock = now })
	steps := map[string]func(){
		"b": func() { now.Step(24 * time.Hour) },
		"c": func() { now.Step(-48 * time.Hour) },
		"d": func() { now.Advance(time.Hour) },
	}
	w.field.add("a", busy)
	for _, skill := range []string{"b", "c", "d"} {
		w.field.add(skill, busy)
	}
	id := w.dispatch(Completion{Policy: All}, time.Hour, "a", "b", "c", "d")
	for i, want := range []string{"accepted accepted accepted accepted", "accepted ok accepted accepted", "accepted ok ok accepted"} {
		w.expect(id, InProgress, want)
		skill := string("bcd"[i])
		steps[skill]()
		w.field.finish(w.field.devices[protocol.SkillID(skill)], ask.Notice{Kind: ask.Answered, Data: json.RawMessage(`{}`)})
	}
	w.expect(id, Partial, "timed_out ok ok ok")
}

// A device that was started anew after it was asked is not asked again because the
// clock was set back to before: it may have done it.
func TestAClockThatIsSetBackHasNobodyAskedTwice(t *testing.T) {
	now := clock.New()
	w := newWorld(t, func(o *Options) { o.Clock = now })
	a := w.field.add("a", busy)
	id := w.dispatch(Completion{Policy: All}, 24*time.Hour, "a")
	w.expect(id, InProgress, "accepted")
	now.Advance(2 * time.Hour)
	now.Step(-119 * time.Minute)
	w.field.leave(a)
	w.field.reset(a)
	w.field.mu.Lock()
	a.born = time.Now().Add(-30 * time.Minute)
	w.field.mu.Unlock()
	w.field.comeBack(a)
	w.expect(id, Fruitless, "failed")
	if v, _ := w.engine.Get(id); v.Members[0].Error.Code != protocol.OutcomeUnknown || a.runs != 1 {
		t.Errorf("it ran %d times, and says %+v", a.runs, v.Members[0].Error)
	}
}
