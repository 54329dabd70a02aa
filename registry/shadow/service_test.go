package shadow

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/protocol"
)

func TestAWishAndAReportMeet(t *testing.T) {
	w := newWorld(t)
	r := w.set(olga, "state.desired.set", `{"agent_id":"lamp","skill_id":"light","state":{"on":true,"level":40}}`)
	if r.Version != 1 || string(r.State) != `{"level":40,"on":true}` || string(r.Delta) != string(r.State) {
		t.Errorf("%+v", r)
	}
	w.tells(`{"light":{"level":40,"on":true}}`, "", `{"light":{"level":40,"on":true}}`)
	r = w.set(device, "state.report", `{"agent_id":"lamp","skill_id":"light","state":{"on":true,"hours":7}}`)
	if r.Version != 1 || string(r.Delta) != `{"level":40}` {
		t.Errorf("%+v", r)
	}
	w.tells(`{"light":{"level":40,"on":true}}`, `{"light":{"hours":7,"on":true}}`, `{"light":{"level":40}}`)
	w.set(device, "state.report", `{"agent_id":"lamp","skill_id":"light","state":{"level":40.0}}`)
	w.tells(`{"light":{"level":40,"on":true}}`, `{"light":{"hours":7,"level":40.0,"on":true}}`, `{}`)
	if v := w.get("light"); !v.InSync || v.Desired.UpdatedBy != "olga" || v.Reported.UpdatedBy != "lamp" || v.Reported.Version != 2 {
		t.Errorf("%+v", v)
	}
	r = w.set(olga, "state.desired.set", `{"agent_id":"lamp","skill_id":"light","state":{"scene":"night"},"replace":true,"version":1}`)
	if r.Version != 2 || string(r.State) != `{"scene":"night"}` {
		t.Errorf("%+v", r)
	}
	if r = w.set(olga, "state.desired.set", `{"agent_id":"lamp","skill_id":"light","state":{"scene":null}}`); string(r.State) != `{}` || r.Version != 3 {
		t.Errorf("%+v", r)
	}
	w.tells(`{"light":{}}`, `{"light":{"hours":7,"level":40.0,"on":true}}`, `{}`)
}

func TestWhatChangesNothingIsNoChange(t *testing.T) {
	w := newWorld(t)
	for _, state := range []string{`{}`, `{"on":null}`} {
		if r := w.set(olga, "state.desired.set", `{"agent_id":"lamp","skill_id":"light","state":`+state+`}`); r.Version != 0 || string(r.State) != `{}` {
			t.Errorf("%s: %+v", state, r)
		}
	}
	w.set(olga, "state.desired.set", `{"agent_id":"lamp","skill_id":"light","state":{"level":40}}`)
	w.tells(`{"light":{"level":40}}`, "", `{"light":{"level":40}}`)
	writes, published := w.table.Writes(), w.published
	if r := w.set(olga, "state.desired.set", `{"agent_id":"lamp","skill_id":"light","state":{"level":40.0}}`); r.Version != 1 {
		t.Errorf("%+v", r)
	}
	if got := w.report(device, `{"light":{}}`); got != "" || w.table.Writes() != writes || w.published != published {
		t.Errorf("%s, %d writes more", got, w.table.Writes()-writes)
	}
}

func TestBadStateIsRefused(t *testing.T) {
	w := newWorld(t)
	w.set(olga, "state.desired.set", `{"agent_id":"lamp","skill_id":"heating","state":{"celsius":20}}`)
	deep := strings.Repeat(`{"a":`, MaxDepth+1) + "1" + strings.Repeat("}", MaxDepth+1)
	wide := fmt.Sprintf(`{"a":%q}`, strings.Repeat("x", MaxBytes))
	half := fmt.Sprintf(`{"agent_id":"lamp","skill_id":"light","state":{"%%s":%q}}`, strings.Repeat("x", MaxBytes*2/3))
	w.set(olga, "state.desired.set", fmt.Sprintf(half, "a"))
	for _, c := range []struct {
		name, command, params string
		who                   *protocol.Principal
		code                  protocol.Code
		field                 string
	}{
		{"against the schema", "state.desired.set", `{"agent_id":"lamp","skill_id":"heating","state":{"celsius":31}}`, olga, protocol.InvalidParameter, "state.celsius"},
		{"reported against the schema", "state.report", `{"agent_id":"lamp","skill_id":"heating","state":{"celsius":31}}`, device, protocol.InvalidParameter, "state.celsius"},
		{"read-only", "state.desired.set", `{"agent_id":"lamp","skill_id":"heating","state":{"battery":1}}`, olga, protocol.InvalidParameter, "state.battery"},
		{"read-only within", "state.desired.set", `{"agent_id":"lamp","skill_id":"heating","state":{"radio":{"rssi":1}}}`, olga, protocol.InvalidParameter, "state.radio.rssi"},
		{"no object", "state.desired.set", `{"agent_id":"lamp","skill_id":"light","state":[1]}`, olga, protocol.InvalidParameter, "state"},
		{"no state", "state.desired.set", `{"agent_id":"lamp","skill_id":"light"}`, olga, protocol.InvalidParameter, "state"},
		{"too deep", "state.desired.set", `{"agent_id":"lamp","skill_id":"light","state":` + deep + `}`, olga, protocol.InvalidParameter, "state"},
		{"too large", "state.desired.set", `{"agent_id":"lamp","skill_id":"light","state":` + wide + `}`, olga, protocol.PayloadTooLarge, "state"},
		{"too large with what is there", "state.desired.set", fmt.Sprintf(half, "b"), olga, protocol.PayloadTooLarge, "state"},
		{"another version", "state.desired.set", `{"agent_id":"lamp","skill_id":"heating","state":{"celsius":21},"version":0}`, olga, protocol.RevisionConflict, "version"},
		{"another skill", "state.desired.set", `{"agent_id":"lamp","skill_id":"radio","state":{}}`, olga, protocol.NotFound, ""},
		{"another agent", "state.desired.set", `{"agent_id":"lump","skill_id":"light","state":{}}`, olga, protocol.NotFound, ""},
		{"of another space", "state.get", `{"agent_id":"lamp"}`, stranger, protocol.NotFound, ""},
		{"of another space by name", "state.get", `{"agent_id":"lamp","space_id":"default"}`, stranger, protocol.NotFound, ""},
		{"reported by another device", "state.report", `{"agent_id":"lamp","skill_id":"light","state":{"on":true}}`, other, protocol.PermissionDenied, ""},
		{"reported by an administrator", "state.report", `{"agent_id":"lamp","skill_id":"light","state":{"on":true}}`, root, protocol.PermissionDenied, ""},
	} {
		_, err := w.ask(c.who, c.command, c.params)
		known := protocol.AsError(err)
		field, _ := known.Details["param_name"].(string)
		if err == nil || known.Code != c.code || field != c.field {
			t.Errorf("%s: %v, of %q", c.name, err, field)
		}
	}
	_, err := w.ask(olga, "state.desired.set", `{"agent_id":"lamp","skill_id":"heating","state":{},"version":7}`)
	if known := protocol.AsError(err); fmt.Sprint(known.Details["version"]) != "1" || fmt.Sprint(known.Details["expected"]) != "7" {
		t.Errorf("%v", known.Details)
	}
	if v := w.get("heating"); string(v.Desired.State) != `{"celsius":20}` || v.Desired.Version != 1 {
		t.Errorf("%+v", v)
	}
}

func TestTheHistoryIsBounded(t *testing.T) {
	w := newWorld(t)
	for n := range 40 {
		w.set(olga, "state.desired.set", fmt.Sprintf(`{"agent_id":"lamp","skill_id":"light","state":{"level":%d}}`, n))
		w.set(device, "state.report", fmt.Sprintf(`{"agent_id":"lamp","skill_id":"light","state":{"level":%d}}`, n))
	}
	w.set(device, "state.report", fmt.Sprintf(`{"agent_id":"lamp","skill_id":"light","state":{"text":%q}}`, strings.Repeat("x", 300)))
	v := w.get("light")
	desired, reported := v.Desired.History, v.Reported.History
	if len(desired) != 16 || string(desired[15].Patch) != `{"level":39}` || desired[15].Version != 40 || desired[15].By != "olga" || desired[0].Version != 25 {
		t.Errorf("%+v", desired)
	}
	if len(reported) != 8 || reported[7].Patch != nil || string(reported[6].Patch) != `{"level":39}` {
		t.Errorf("%+v", reported)
	}
}

func TestAnAgentHasStateOfAFewSkills(t *testing.T) {
	w := newWorld(t)
	for n := range maxSkills + 1 {
		w.directory.change(func() { w.directory.skills[protocol.SkillID(fmt.Sprint("s", n))] = Skill{} })
		_, err := w.ask(olga, "state.desired.set", fmt.Sprintf(`{"agent_id":"lamp","skill_id":"s%d","state":{"a":1}}`, n))
		if n < maxSkills && err != nil || n == maxSkills && protocol.CodeOf(err) != protocol.LimitReached {
			t.Errorf("skill %d: %v", n, err)
		}
	}
}

func TestStateEndsWithItsAgentAndItsSkill(t *testing.T) {
	w := newWorld(t)
	for _, skill := range []string{"light", "heating"} {
		w.set(olga, "state.desired.set", fmt.Sprintf(`{"agent_id":"lamp","skill_id":%q,"state":{"a":1}}`, skill))
		w.set(device, "state.report", fmt.Sprintf(`{"agent_id":"lamp","skill_id":%q,"state":{"a":1}}`, skill))
	}
	w.directory.change(func() { delete(w.directory.skills, "heating") })
	w.Stirred(protocol.DefaultSpace, "lamp")
	w.tells(`{"light":{"a":1}}`, `{"light":{"a":1}}`, `{}`)
	w.directory.change(func() { w.directory.born = 2 }) // unregistered and registered anew, by whom ever
	if v := w.get("light"); v.Desired.Version != 0 || v.Reported.Version != 0 || string(v.Desired.State) != `{}` {
		t.Errorf("another agent inherits %+v", v)
	}
	if r := w.set(olga, "state.desired.set", `{"agent_id":"lamp","skill_id":"light","state":{"b":2}}`); string(r.State) != `{"b":2}` || r.Version != 1 {
		t.Errorf("%+v", r)
	}
	w.Stirred(protocol.DefaultSpace, "lamp")
	w.tells(`{"light":{"b":2}}`, "", `{"light":{"b":2}}`)
	w.directory.change(func() { w.directory.born = 0 })
	w.Stirred(protocol.DefaultSpace, "lamp")
	w.tells("", "", "")
	eventually.Holds(t, "nothing is kept", func() bool { return w.table.Len() == 0 })
}

func TestABridgeThatStartsTellsWhatIsStored(t *testing.T) {
	w := newWorld(t)
	w.set(olga, "state.desired.set", `{"agent_id":"lamp","skill_id":"light","state":{"on":true}}`)
	w.tells(`{"light":{"on":true}}`, "", `{"light":{"on":true}}`)
	w.mu.Lock()
	if len(w.retained) != 2 {
		t.Errorf("of an agent that is gone there is %v", w.retained)
	}
	w.retained = map[string]string{}
	w.mu.Unlock()
	w.begin()
	w.tells(`{"light":{"on":true}}`, "", `{"light":{"on":true}}`)
	if document, ok := w.Reported(protocol.DefaultSpace, "lamp", "light"); ok {
		t.Errorf("reported %s", document)
	}
}

func TestPublishedReportsAreTaken(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct {
		who     *protocol.Principal
		payload string
		code    protocol.Code
	}{
		{device, `{"light":{"on":true},"heating":{"celsius":20}}`, ""},
		{device, `{"light":{"on":true},"heating":{"celsius":99}}`, protocol.InvalidParameter},
		{device, `{"nope":{}}`, protocol.NotFound},
		{device, `{"light":1}`, protocol.InvalidParameter},
		{device, `[]`, protocol.InvalidParameter},
		{device, `{"light":{"on":true,"on":false}}`, protocol.MalformedEnvelope},
		{device, ``, protocol.MalformedEnvelope},
		{device, strings.Repeat("x", maxReport+1), protocol.PayloadTooLarge},
		{root, `{"light":{"on":false}}`, protocol.PermissionDenied},
		{stranger, `{"light":{"on":false}}`, protocol.NotFound},
		{device, `{"heating":{"celsius":null}}`, ""},
	} {
		if got := w.report(c.who, c.payload); got != c.code {
			t.Errorf("%.60s: %s, want %s", c.payload, got, c.code)
		}
	}
	w.tells("", `{"heating":{},"light":{"on":true}}`, "")
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.faults) != 9 {
		t.Errorf("told of %v", w.faults)
	}
}

// Reports of one agent keep their order, however many come at once, and each is
// answered.
func TestReportsKeepTheirOrder(t *testing.T) {
	w := newWorld(t)
	w.table.Yield()
	const most = 2000
	var settled sync.WaitGroup
	last, taken := -1, 0
	for n := range most {
		settled.Add(1)
		answer := make(chan *protocol.Error, 1)
		w.Take(device, "lamp", fmt.Appendf(nil, `{"light":{"n":%d,"k%d":1}}`, n, n%7), func(why *protocol.Error) {
			answer <- why
			settled.Done()
		})
		select {
		case why := <-answer:
			if why != nil && why.Code != protocol.Busy {
				t.Fatal(why)
			}
			if why != nil {
				continue
			}
		default:
		}
		last, taken = n, taken+1
	}
	settled.Wait()
	v := w.get("light")
	if !strings.Contains(string(v.Reported.State), fmt.Sprintf(`"n":%d`, last)) {
		t.Errorf("the last of %d was %d: %s", taken, last, v.Reported.State)
	}
	eventually.Holds(t, "the intake is empty", func() bool {
		w.intake.mu.Lock()
		defer w.intake.mu.Unlock()
		return w.intake.waiting == 0 && len(w.intake.lines) == 0 && w.intake.writers == 0
	})
}

// Whoever wins, no change of a document is lost.
func TestChangesThatMeetAreAllMade(t *testing.T) {
	w := newWorld(t)
	w.table.Yield()
	var running sync.WaitGroup
	for n := range 8 {
		running.Go(func() {
			at, _ := w.directory.Shadowed(protocol.DefaultSpace, "lamp")
			_, wrong, err := w.change(t.Context(), &place{at, "light", Desired}, Skill{}, []step{{patch: object{fmt.Sprint("k", n): n > 3}, by: "x"}})
			if err != nil || wrong[0] != nil {
				t.Error(err, wrong)
			}
		})
	}
	running.Wait()
	if v := w.get("light"); v.Desired.Version != 8 || len(objectOf(t, string(v.Desired.State))) != 8 {
		t.Errorf("%d: %s", v.Desired.Version, v.Desired.State)
	}
}
