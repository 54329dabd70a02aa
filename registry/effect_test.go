package registry

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aibridge/aibridge/internal/bubble"
	"github.com/aibridge/aibridge/internal/records/recordstest"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/registry/effects"
)

// The gate of the tests unlocks doors. Whether one is open can be asked.
const gate = `{"skill_id":"gate","name":"Gate","capabilities":[
	{"capability_id":"unlock","effect_key":"door:{door}:unlock","effect_window_ms":60000,
	 "reconcile":{"capability_id":"look","params":{"door":"{door}"},"done_when":{"locked":false},"not_done_when":{"locked":true}},
	 "params_schema":{"type":"object","required":["door"],"properties":{"door":{"type":"string"},"note":{"type":"string"}}}},
	{"capability_id":"ring","effect_key":"ring:{times}",
	 "params_schema":{"type":"object","required":["times"],"properties":{"times":{"type":"integer"}}}},
	{"capability_id":"look","effect":"read",
	 "params_schema":{"type":"object","required":["door"],"properties":{"door":{"type":"string"}}},
	 "result_schema":{"type":"object","required":["locked"],"properties":{"locked":{"type":"boolean"}}}}]}`

func unlock(door, note string) string {
	return fmt.Sprintf(`{"skill_id":"gate","capability_id":"unlock","params":{"door":%q,"note":%q}}`, door, note)
}

func ring(times string) string {
	return fmt.Sprintf(`{"skill_id":"gate","capability_id":"ring","params":{"times":%s}}`, times)
}

// atTheGate runs a test with time of its own and a table of effects.
func atTheGate(t *testing.T, test func(t *testing.T, w *world, kept *recordstest.Memory[effects.Record])) {
	t.Parallel()
	bubble.Test(t, func(t *testing.T) {
		kept := recordstest.New[effects.Record]()
		w := newWorld(t, func(o *Options) { o.Effects.Records = kept })
		defer w.close()
		test(t, w, kept)
	})
}

// asked is the capability that a request is for.
func asked(r *protocol.Request) string {
	var p struct {
		Capability string `json:"capability_id"`
	}
	_ = json.Unmarshal(r.Params, &p)
	return p.Capability
}

// times counts how often a device was asked for a capability.
func (d *device) times(capability string) (n int) {
	for _, r := range d.got() {
		if r.Command == "skill.invoke" && asked(r) == capability {
			n++
		}
	}
	return n
}

func TestTheSameDeedIsDoneOnce(t *testing.T) {
	atTheGate(t, func(t *testing.T, w *world, _ *recordstest.Memory[effects.Record]) {
		d := w.device("porter", gate, func(d *device, r *protocol.Request) {
			time.Sleep(2 * time.Second)
			d.succeed(r, fmt.Sprintf(`{"number":%d}`, d.times("unlock")))
		})
		first, second, other := make(chan *protocol.Response, 1), make(chan *protocol.Response, 1), make(chan *protocol.Response, 1)
		go func() { first <- w.ask(question{who: alice, command: "skill.invoke", params: unlock("1", "a")}) }()
		synctest.Wait()
		go func() { second <- w.ask(question{who: alice, command: "skill.invoke", params: unlock("1", "b")}) }()
		go func() { other <- w.ask(question{who: bob, command: "skill.invoke", params: unlock("1", "c")}) }()
		var made, joined, of InvokeSkillResult
		w.must(<-first, &made)
		w.must(<-second, &joined)
		w.must(<-other, &of)
		if made.Effect != nil || string(made.Data) != `{"number":1}` {
			t.Errorf("the call that was made has %+v", made)
		}
		if joined.Effect == nil || string(joined.Data) != `{"number":1}` || joined.Effect.By != "alice" {
			t.Errorf("the second call has %s of %+v", joined.Data, joined.Effect)
		}
		if of.Effect == nil || string(of.Data) != `null` || of.Effect.By != "" {
			t.Errorf("somebody else's call learns %s of %+v", of.Data, of.Effect)
		}
		w.do(alice, "skill.invoke", unlock("2", ""), nil) // another door
		time.Sleep(50 * time.Second)
		w.do(alice, "skill.invoke", unlock("1", ""), nil) // within the window
		if n := d.times("unlock"); n != 2 {
			t.Errorf("unlocked %d times", n)
		}
		time.Sleep(10 * time.Second)
		w.do(alice, "skill.invoke", unlock("1", ""), nil) // after it
		if n := d.times("unlock"); n != 3 {
			t.Errorf("unlocked %d times after the window", n)
		}
	})
}

func TestADeedThatFailedIsDoneByTheNextCall(t *testing.T) {
	atTheGate(t, func(t *testing.T, w *world, kept *recordstest.Memory[effects.Record]) {
		d := w.device("porter", gate, func(d *device, r *protocol.Request) {
			if d.times("unlock") == 1 {
				d.fail(r, "3006", "the bolt is stuck")
				return
			}
			d.succeed(r, `{}`)
		})
		w.fails(alice, "skill.invoke", unlock("1", ""), protocol.InvalidState)
		if kept.Len() != 0 {
			t.Error("a deed that was not done is kept")
		}
		w.do(alice, "skill.invoke", unlock("1", ""), nil)
		d.die()
		w.fails(alice, "skill.invoke", unlock("2", ""), protocol.AgentOffline)
		if kept.Len() != 1 {
			t.Errorf("%d deeds are kept", kept.Len())
		}
	})
}

func TestWrittenOtherwiseIsTheSameDeed(t *testing.T) {
	atTheGate(t, func(t *testing.T, w *world, _ *recordstest.Memory[effects.Record]) {
		d := w.device("porter", gate, func(d *device, r *protocol.Request) { d.succeed(r, `{}`) })
		for _, times := range []string{"30000", "3e4", "30000.0", "0", "-0"} {
			w.do(alice, "skill.invoke", ring(times), nil)
		}
		if n := d.times("ring"); n != 2 {
			t.Errorf("rang %d times", n)
		}
	})
}

func TestAnUnknownOutcomeBarsTheNextCallUntilItIsSettled(t *testing.T) {
	atTheGate(t, func(t *testing.T, w *world, _ *recordstest.Memory[effects.Record]) {
		d := w.device("porter", gate, func(d *device, _ *protocol.Request) {
			time.Sleep(time.Second)
			d.die()
		})
		id, _ := w.fails(alice, "skill.invoke", ring("1"), protocol.OutcomeUnknown).Details["effect_id"].(string)
		d.w.Connected(d, d.client, alice)
		d.listen()
		d.answer = func(d *device, r *protocol.Request) { d.succeed(r, `{}`) }
		err := w.fails(bob, "skill.invoke", ring("1"), protocol.OutcomeUnknown)
		if err.Details["effect_id"] != id || d.times("ring") != 1 {
			t.Errorf("asked %d times; %v, want it to name %s", d.times("ring"), err.Details, id)
		}
		var list ListEffectsResult
		w.do(alice, "skill.effect.list", `{"state":"unknown"}`, &list)
		if len(list.Effects) != 1 || list.Effects[0].ID != id || list.Effects[0].Key != "ring:1" || list.Effects[0].AgentID != "porter" {
			t.Errorf("listed %+v", list)
		}
		settle := fmt.Sprintf(`{"effect_id":%q,"outcome":"not_done","reason":"nobody heard it"}`, id)
		w.fails(carol, "skill.effect.settle", settle, protocol.NotFound)
		w.fails(bob, "skill.effect.settle", settle, protocol.NotFound) // neither the owner nor the caller
		w.do(alice, "skill.effect.settle", settle, nil)
		w.fails(alice, "skill.effect.settle", settle, protocol.InvalidState)
		w.do(bob, "skill.invoke", ring("1"), nil)
		if n := d.times("ring"); n != 2 {
			t.Errorf("rang %d times", n)
		}
	})
}

func TestTheBridgeAsksWhetherItWasDone(t *testing.T) {
	for name, test := range map[string]struct {
		locked string // when asked: at first, and after six seconds
		later  string
		calls  int
		code   protocol.Code // of the call whose outcome was unknown
	}{
		"done":               {"false", "false", 1, ""},
		"not done":           {"true", "true", 2, protocol.TargetUnavailable},
		"done while it asks": {"true", "false", 1, ""},
	} {
		t.Run(name, func(t *testing.T) {
			atTheGate(t, func(t *testing.T, w *world, _ *recordstest.Memory[effects.Record]) {
				var back atomic.Int64
				d := w.device("porter", gate, nil)
				d.answer = func(d *device, r *protocol.Request) {
					if asked(r) == "unlock" && d.times("unlock") == 1 {
						time.Sleep(time.Second)
						d.die()
						return
					}
					locked := test.locked
					if time.Since(time.UnixMilli(back.Load())) > 3*time.Second {
						locked = test.later
					}
					d.succeed(r, `{"locked":`+locked+`}`)
				}
				answer := make(chan *protocol.Response, 1)
				go func() { answer <- w.ask(question{who: alice, command: "skill.invoke", params: unlock("1", "")}) }()
				time.Sleep(2 * time.Second)
				back.Store(time.Now().UnixMilli())
				w.Connected(d, d.client, alice)
				d.listen()
				r := <-answer
				if test.code == "" {
					var got InvokeSkillResult
					w.must(r, &got)
					if got.Effect == nil || got.Effect.SettledBy != "bridge" {
						t.Errorf("got %+v", got.Effect)
					}
				} else {
					w.failed(r, test.code)
				}
				w.do(bob, "skill.invoke", unlock("1", ""), nil)
				if n := d.times("unlock"); n != test.calls {
					t.Errorf("unlocked %d times, want %d", n, test.calls)
				}
			})
		})
	}
}

// TestSilentAgentsOfOneSpaceKeepNoOtherWaiting puts many deeds of one space in doubt,
// whose agent says nothing. A deed of another space is settled all the same.
func TestSilentAgentsOfOneSpaceKeepNoOtherWaiting(t *testing.T) {
	atTheGate(t, func(t *testing.T, w *world, kept *recordstest.Memory[effects.Record]) {
		w.device("mute", gate, nil)
		ward := w.connect("ward", carol, func(d *device, r *protocol.Request) { d.succeed(r, `{"locked":false}`) })
		ward.register()
		w.do(carol, "skill.register", `{"agent_id":"ward","skill":`+gate+`}`, nil)
		doubt := func(who *protocol.Principal, agent protocol.AgentID, door string) string {
			now := time.Now().UnixMilli()
			r := &effects.Record{
				ID: door, Space: who.Space, Skill: "gate", Capability: "unlock", Key: "door:" + door + ":unlock", State: effects.Unknown, By: who.Party(),
				Window: 60_000, Question: json.RawMessage(`{"door":"` + door + `"}`), Began: now, Ended: now, Until: now + 3_600_000, Agent: agent,
			}
			key := string(who.Space) + "/" + door
			if _, err := kept.Put(t.Context(), key, r); err != nil {
				t.Fatal(err)
			}
			return key
		}
		for i := range 100 {
			doubt(alice, "mute", fmt.Sprint(i))
		}
		key := doubt(carol, "ward", "lab")
		time.Sleep(reconcileEvery + time.Second)
		if r, _, _ := kept.Get(key); r.State != effects.Done || r.SettledBy != byBridge {
			t.Errorf("after %v it is %s by %q", reconcileEvery, r.State, r.SettledBy)
		}
		if r, _, _ := kept.Get("default/0"); r.State != effects.Unknown {
			t.Errorf("what nobody answered for is %s", r.State)
		}
	})
}

func TestWhatACapabilityMayDeclareOfDeeds(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Effects.Records = recordstest.New[effects.Record]() })
	const look = `{"capability_id":"look","effect":"read","params_schema":{"type":"object","properties":{"door":{"type":"string"}}},"result_schema":{"type":"object","properties":{"locked":{"type":"boolean"}}}}`
	const schema = `"params_schema":{"type":"object","required":["door","n","weight"],"properties":{"door":{"type":"string"},"n":{"type":["integer","null"]},"weight":{"type":"number"},"any":{},"maybe":{"type":"string"}}}`
	const ok = `"reconcile":{"capability_id":"look","params":{"door":"{door}"},"done_when":{"locked":false}}`
	for _, test := range []struct{ declared, field, reason string }{
		{`"effect_key":"a:{dor}",` + schema, "effect_key", `did you mean "door"?`},
		{`"effect_key":"a:{door",` + schema, "effect_key", "{ without } at character 3"},
		{`"effect_key":"a}",` + schema, "effect_key", "} without { at character 2"},
		{`"effect_key":"a:{do or}",` + schema, "effect_key", "no name of a param"},
		{`"effect_key":"a:{any}",` + schema, "effect_key", "no type"},
		{`"effect_key":"a:{n}",` + schema, "effect_key", "integer or null"},
		{`"effect_key":"a:{weight}",` + schema, "effect_key", "number"},
		{`"effect_key":"a:{maybe}",` + schema, "effect_key", "not required"},
		{`"effect_key":"a:{door}"`, "effect_key", "params_schema does not declare"},
		{`"effect_key":"a","effect":"read"`, "effect_key", "read"},
		{`"effect_window_ms":5000`, "effect_window_ms", "without effect_key"},
		{`"effect_key":"a","effect_window_ms":5`, "effect_window_ms", "1000"},
		{ok, "reconcile", "needs effect_key"},
		{`"effect_key":"a",` + schema + `,"reconcile":{"capability_id":"lok","done_when":{"locked":true}}`, "reconcile.capability_id", `no capability "lok"`},
		{`"effect_key":"a",` + schema + `,"reconcile":{"capability_id":"open","done_when":{"locked":true}}`, "reconcile.capability_id", "effect is read"},
		{`"effect_key":"a",` + schema + `,"reconcile":{"capability_id":"look","params":{"dor":"1"},"done_when":{"locked":true}}`, "reconcile.params", `did you mean "door"?`},
		{`"effect_key":"a",` + schema + `,"reconcile":{"capability_id":"look","params":{"door":"{maybe}"},"done_when":{"locked":true}}`, "reconcile.params", "not required"},
		{`"effect_key":"a",` + schema + `,"reconcile":{"capability_id":"look","done_when":{"loked":true}}`, "reconcile.done_when", `did you mean "locked"?`},
		{`"effect_key":"a",` + schema + `,"reconcile":{"capability_id":"look","done_when":{"locked":{}}}`, "reconcile.done_when", "string, a number or a boolean"},
		{`"effect_key":"a",` + schema + `,"reconcile":{"capability_id":"look","done_when":{}}`, "reconcile.done_when", "at least one"},
	} {
		params := fmt.Sprintf(`{"skill":{"skill_id":"gate","name":"Gate","capabilities":[{"capability_id":"open",%s},%s]}}`, test.declared, look)
		err := w.fails(alice, "skill.register", params, protocol.InvalidParameter)
		at, _ := err.Details["param_name"].(string)
		reason, _ := err.Details["reason"].(string)
		if want := "skill.capabilities[0]." + test.field; at != want || !strings.Contains(reason, test.reason) {
			t.Errorf("%s: %s %s", test.declared, at, reason)
		}
	}
	w.do(alice, "skill.register", fmt.Sprintf(`{"skill":{"skill_id":"gate","name":"Gate","capabilities":[{"capability_id":"open","effect_key":"a:{door}",%s,%s},%s]}}`, schema, ok, look), nil)
	var found DiscoverSkillsResult
	w.do(alice, "skill.discover", `{}`, &found)
	if c := found.Skills[0].Capabilities[0]; c.EffectKey != "a:{door}" || c.Reconcile.Capability != "look" {
		t.Errorf("it is described as %+v", c)
	}
}
