package registry

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/bubble"
	"github.com/aibridge/aibridge/protocol"
)

// The heating of the tests can be set, which is idempotent, and bled, which
// is not.
const heating = `{"skill_id":"heating","name":"Heating","capabilities":[
	{"capability_id":"set","idempotent":true,
	 "params_schema":{"type":"object","required":["celsius"],"properties":{"celsius":{"type":"number"}}},
	 "result_schema":{"type":"object","required":["celsius"],"properties":{"celsius":{"type":"number"}}}},
	{"capability_id":"bleed","result_schema":{"type":"object","properties":{"litres":{"type":"number"}}}}]}`

const (
	set   = `{"skill_id":"heating","capability_id":"set","params":{"celsius":21.5}}`
	bleed = `{"skill_id":"heating","capability_id":"bleed"}`
)

// inBubble runs a test with time of its own.
func inBubble(t *testing.T, test func(t *testing.T, w *world)) {
	t.Parallel()
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.close()
		test(t, w)
	})
}

func TestInvokingASkill(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		d := w.device("boiler", heating, func(d *device, r *protocol.Request) {
			time.Sleep(250 * time.Millisecond)
			echo(d, r)
		})
		var got InvokeSkillResult
		w.do(alice, "skill.invoke", set, &got)
		if got.AgentID != "boiler" || string(got.Data) != `{"celsius":21.5}` || got.ExecutionTime != 250 {
			t.Errorf("got %+v", got)
		}
		w.do(alice, "skill.call", set, &got)
		if n := len(d.got()); n != 2 {
			t.Errorf("the device was asked %d times", n)
		}
		if w.asking.Open() != 0 {
			t.Error("an exchange is left open")
		}
	})
}

func TestParamsAreCheckedBeforeTheAgentIsAsked(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		d := w.device("boiler", heating, echo)
		for _, test := range []struct {
			params string
			code   protocol.Code
			at     string
		}{
			{`{"skill_id":"heating","capability_id":"set","params":{"celsius":"warm"}}`, protocol.InvalidParameter, "params.celsius"},
			{`{"skill_id":"heating","capability_id":"set","params":{}}`, protocol.InvalidParameter, "params.celsius"},
			{`{"skill_id":"heating","capability_id":"set"}`, protocol.InvalidParameter, "params.celsius"},
			{`{"skill_id":"heating","capability_id":"set","params":[]}`, protocol.InvalidParameter, "params"},
			{`{"skill_id":"heating","capability_id":"set","params":{"celsius":1e400}}`, protocol.InvalidParameter, "params"},
			{`{"skill_id":"heating"}`, protocol.InvalidParameter, "capability_id"},
			{`{"skill_id":"heating","capability_id":"explode"}`, protocol.NotFound, ""},
			{`{"skill_id":"cooling","capability_id":"set"}`, protocol.NotFound, ""},
		} {
			err := w.fails(alice, "skill.invoke", test.params, test.code)
			if at, _ := err.Details["param_name"].(string); at != test.at {
				t.Errorf("%s: %v, want it at %q", test.params, err.Details, test.at)
			}
		}
		if len(d.got()) != 0 {
			t.Error("the device was asked")
		}
	})
}

func TestASkillThatCannotBeReachedIsOffline(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.do(alice, "skill.register", `{"skill":`+heating+`}`, nil)
		w.fails(alice, "skill.invoke", set, protocol.AgentOffline) // it has no agent

		d := w.device("boiler", heating, echo)
		d.die()
		err := w.fails(alice, "skill.invoke", set, protocol.AgentOffline)
		if err.Details["agent_id"] != "boiler" {
			t.Errorf("details %v", err.Details)
		}

		// Connected, but not listening.
		w.Connected(d, d.client, alice)
		w.fails(alice, "skill.invoke", set, protocol.AgentOffline)

		// Listening, but the broker delivers to nobody: the agent goes at this moment, and
		// its session may have the request.
		d.listen()
		w.mqtt.lose(true)
		w.fails(alice, "skill.invoke", bleed, protocol.OutcomeUnknown)
		if last := w.mqtt.on(d.topic()); !strings.Contains(string(last[len(last)-1].Payload), `"task.cancel"`) {
			t.Error("what may be delivered later was not cancelled")
		}
		w.mqtt.lose(false)
		w.do(alice, "skill.invoke", set, nil)
	})
}

func TestAnAgentThatDiesMidCall(t *testing.T) {
	dies := func(d *device, _ *protocol.Request) {
		time.Sleep(time.Second)
		d.die()
	}
	for name, test := range map[string]struct {
		call   string
		others int
		code   protocol.Code // "" for an answer
	}{
		"alone":                        {set, 0, protocol.OutcomeUnknown},
		"with another to take over":    {set, 1, ""},
		"but it cannot be taken over":  {bleed, 1, protocol.OutcomeUnknown},
		"alone, and it is no use":      {bleed, 0, protocol.OutcomeUnknown},
		"with several others to do it": {set, 3, ""},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				w.device("a-mortal", heating, dies)
				for i := range test.others {
					d := w.device(protocol.AgentID(fmt.Sprintf("b-other-%d", i)), heating, echo)
					d.die() // not there while the first is chosen
				}
				began := time.Now()
				answer := make(chan *protocol.Response, 1)
				go func() { answer <- w.ask(question{who: alice, command: "skill.invoke", params: test.call}) }()
				synctest.Wait()
				for i := range test.others {
					w.connect(protocol.AgentID(fmt.Sprintf("b-other-%d", i)), alice, echo)
				}
				r := <-answer
				if took := time.Since(began); took != time.Second {
					t.Errorf("took %v: silence until the deadline is no answer", took)
				}
				if test.code != "" {
					if err := w.failed(r, test.code); err.Details["agent_id"] != "a-mortal" {
						t.Errorf("details %v", err.Details)
					}
					return
				}
				var got InvokeSkillResult
				w.must(r, &got)
				if !strings.HasPrefix(string(got.AgentID), "b-other") {
					t.Errorf("done by %s", got.AgentID)
				}
				if n := w.counted("aibridge_skill_retries_total", ""); n != 1 {
					t.Errorf("%v retries", n)
				}
			})
		})
	}
}

func TestAnAgentThatIsUnregisteredMidCall(t *testing.T) {
	inBubble(t, func(_ *testing.T, w *world) {
		w.device("boiler", heating, func(*device, *protocol.Request) {
			w.do(alice, "agent.unregister", `{"agent_id":"boiler"}`, nil)
		})
		w.fails(alice, "skill.invoke", bleed, protocol.OutcomeUnknown)
	})
}

func TestAnAgentThatStaysSilent(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		d := w.device("boiler", heating, nil)
		began := time.Now()
		r := w.ask(question{who: alice, command: "skill.invoke", params: set, timeout: 5 * time.Second})
		w.failed(r, protocol.TimedOut)
		if took := time.Since(began); took != 5*time.Second {
			t.Errorf("took %v", took)
		}
		synctest.Wait()
		asked := d.got()
		if len(asked) != 2 || asked[1].Command != "task.cancel" || !strings.Contains(string(asked[1].Params), asked[0].ID) {
			t.Fatalf("the device was asked %v", asked)
		}
		// Late is too late, and harms nobody.
		d.succeed(asked[0], `{"celsius":1}`)
		if w.dropped("unknown") != 1 || w.asking.Open() != 0 {
			t.Errorf("dropped %v, open %d", w.dropped("unknown"), w.asking.Open())
		}
	})
}

func TestACancelledCallIsCancelledAtTheAgent(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		d := w.device("boiler", heating, nil)
		ctx, cancel := context.WithCancelCause(t.Context())
		call := &commands.Call{Principal: alice, TraceID: "t", Deadline: time.Now().Add(time.Minute)}
		go func() {
			time.Sleep(time.Second)
			cancel(nil)
		}()
		_, err := w.InvokeSkill(ctx, call, InvokeSkillParams{SkillID: "heating", CapabilityID: "bleed"})
		if protocol.CodeOf(err) != protocol.Cancelled {
			t.Errorf("got %v", err)
		}
		synctest.Wait()
		if asked := d.got(); len(asked) != 2 || asked[1].Command != "task.cancel" {
			t.Errorf("the device was asked %v", asked)
		}
	})
}

// TestNoBridgeThatStopsInvitesToDoItAgain ends calls for a reason after which others
// make them again: a repeat would find them not done.
func TestNoBridgeThatStopsInvitesToDoItAgain(t *testing.T) {
	for capability, want := range map[protocol.CapabilityID]protocol.Code{"bleed": protocol.OutcomeUnknown, "measure": protocol.ShuttingDown} {
		t.Run(string(capability), func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				d := w.device("boiler", `{"skill_id":"heating","name":"Heating","capabilities":["bleed",{"capability_id":"measure","effect":"read"}]}`, nil)
				ctx, cancel := context.WithCancelCause(t.Context())
				call := &commands.Call{Principal: alice, TraceID: "t", Deadline: time.Now().Add(time.Minute)}
				go func() {
					synctest.Wait() // the device has it
					cancel(protocol.Errorf(protocol.ShuttingDown, "the bridge is stopping"))
				}()
				_, err := w.InvokeSkill(ctx, call, InvokeSkillParams{SkillID: "heating", CapabilityID: capability})
				if protocol.CodeOf(err) != want {
					t.Errorf("got %v", err)
				}
				if len(d.got()) == 0 {
					t.Error("the device was not asked")
				}
			})
		})
	}
}

func TestWhatAgentsAnswer(t *testing.T) {
	for name, test := range map[string]struct {
		call   string
		answer func(d *device, r *protocol.Request)
		code   protocol.Code
		detail string // of the error: key=value
	}{
		"a code of the protocol": {bleed, func(d *device, r *protocol.Request) { d.fail(r, "3006", "valve is open") }, protocol.InvalidState, "agent_id=boiler"},
		"an unknown 1xxx":        {bleed, func(d *device, r *protocol.Request) { d.fail(r, "1999", "no") }, protocol.InvalidParameter, "agent_code=1999"},
		"an unknown 2xxx":        {bleed, func(d *device, r *protocol.Request) { d.fail(r, "2999", "no") }, protocol.TargetUnavailable, "agent_code=2999"},
		"an expired credential":  {bleed, func(d *device, r *protocol.Request) { d.fail(r, "2002", "log in again") }, protocol.TargetUnavailable, "agent_code=2002"},
		"a permission":           {bleed, func(d *device, r *protocol.Request) { d.fail(r, "2003", "no") }, protocol.PermissionDenied, "agent_id=boiler"},
		"an unknown command":     {bleed, func(d *device, r *protocol.Request) { d.fail(r, "1002", "no") }, protocol.TargetUnavailable, "agent_code=1002"},
		"a parameter":            {bleed, func(d *device, r *protocol.Request) { d.fail(r, "1001", "too hot") }, protocol.InvalidParameter, "agent_id=boiler"},
		"a pretended code": {bleed, func(d *device, r *protocol.Request) {
			d.say(fmt.Sprintf(`{"version":"0.6.3","id":%q,"type":"response","status":"failed","error":{"code":"3006","message":"m","details":{"agent_code":"2002","agent_id":"other"}}}`, r.ID))
		}, protocol.InvalidState, "agent_id=boiler"},
		"an unknown 3xxx": {bleed, func(d *device, r *protocol.Request) { d.fail(r, "3999", "no") }, protocol.InvalidState, "agent_code=3999"},
		"an unknown 4xxx": {bleed, func(d *device, r *protocol.Request) { d.fail(r, "4999", "no") }, protocol.TargetUnavailable, "agent_code=4999"},
		"an unknown 5xxx": {bleed, func(d *device, r *protocol.Request) { d.fail(r, "5999", "no") }, protocol.Internal, "agent_code=5999"},
		"no code at all":  {bleed, func(d *device, r *protocol.Request) { d.fail(r, "EPERM", "no") }, protocol.Internal, "code=EPERM"},
		"a number as a code": {bleed, func(d *device, r *protocol.Request) {
			d.say(fmt.Sprintf(`{"version":"0.6.3","id":%q,"type":"response","status":"error","error":{"code":4005,"message":"full"}}`, r.ID))
		}, protocol.NoSpace, "agent_id=boiler"},
		"a rejection":                {bleed, func(d *device, r *protocol.Request) { d.tell(r, "task.rejected", `{"reason":"too hot"}`) }, protocol.TargetUnavailable, "reason=too hot"},
		"a rejection without reason": {bleed, func(d *device, r *protocol.Request) { d.tell(r, "task.rejected", `{}`) }, protocol.TargetUnavailable, "reason=no reason given"},
		"a result of the wrong type": {bleed, func(d *device, r *protocol.Request) { d.succeed(r, `{"litres":"many"}`) }, protocol.OutcomeUnknown, "param_name=result.litres"},
		"a result that lacks things": {set, func(d *device, r *protocol.Request) { d.succeed(r, `{}`) }, protocol.OutcomeUnknown, "param_name=result.celsius"},
		"garbage, correlated":        {bleed, func(d *device, r *protocol.Request) { d.sayWith("%%%", r.ID) }, protocol.OutcomeUnknown, "agent_id=boiler"},
		"JSON that is no envelope":   {bleed, func(d *device, r *protocol.Request) { d.sayWith(`{"litres":2}`, r.ID) }, protocol.OutcomeUnknown, "agent_id=boiler"},
		"a request instead":          {bleed, func(d *device, r *protocol.Request) { d.sayWith(string(r.Append(nil)), r.ID) }, protocol.OutcomeUnknown, "reason=a request is no answer"},
		"garbage that names its request": {bleed, func(d *device, r *protocol.Request) {
			d.say(fmt.Sprintf(`{"id":%q,"status":"success","result":{"litres":NaN}}`, r.ID))
		}, protocol.OutcomeUnknown, "agent_id=boiler"},
		"garbage where it does no harm": {set, func(d *device, r *protocol.Request) {
			d.say(fmt.Sprintf(`{"id":%q,"status":"success","result":{"celsius":`, r.ID))
		}, protocol.TargetUnavailable, "agent_id=boiler"},
		"an unknown status": {bleed, func(d *device, r *protocol.Request) {
			d.say(fmt.Sprintf(`{"version":"0.6.3","id":%q,"type":"response","status":"maybe","result":{}}`, r.ID))
		}, protocol.OutcomeUnknown, "agent_id=boiler"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				w.device("boiler", heating, test.answer)
				err := w.fails(alice, "skill.invoke", test.call, test.code)
				key, value, _ := strings.Cut(test.detail, "=")
				if fmt.Sprint(err.Details[key]) != value {
					t.Errorf("details %v, want %s", err.Details, test.detail)
				}
				if err.Message == "" {
					t.Error("no message")
				}
			})
		})
	}
}

func TestAnswersInOldFormsAreUnderstood(t *testing.T) {
	for name, answer := range map[string]string{
		"without error":         `{"version":"0.6.0","id":"%s","type":"response","status":"success","result":{"litres":2}}`,
		"with response_to":      `{"version":"0.6.3","id":"my-own","response_to":"%s","type":"response","status":"success","result":{"litres":2}}`,
		"without status":        `{"id":"%s","type":"response","result":{"litres":2}}`,
		"without type, version": `{"id":"%s","status":"success","result":{"litres":2}}`,
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				w.device("boiler", heating, func(d *device, r *protocol.Request) { d.say(fmt.Sprintf(answer, r.ID)) })
				var got InvokeSkillResult
				w.do(alice, "skill.invoke", bleed, &got)
				if string(got.Data) != `{"litres":2}` {
					t.Errorf("data %s", got.Data)
				}
			})
		})
	}
}

func TestAnAnswerIsFoundByItsCorrelation(t *testing.T) {
	inBubble(t, func(_ *testing.T, w *world) {
		w.device("boiler", heating, func(d *device, r *protocol.Request) {
			d.sayWith(`{"version":"0.6.3","id":"of its own making","type":"response","status":"success","result":{"litres":1}}`, r.ID)
		})
		w.do(alice, "skill.invoke", bleed, nil)
	})
}

func TestFailuresThatMayPassAreTriedElsewhereIfIdempotent(t *testing.T) {
	for name, answer := range map[string]func(d *device, r *protocol.Request){
		"busy":        func(d *device, r *protocol.Request) { d.fail(r, "4008", "busy") },
		"unavailable": func(d *device, r *protocol.Request) { d.fail(r, "4006", "cold") },
		"stopping":    func(d *device, r *protocol.Request) { d.fail(r, "5002", "stopping") },
		"rejected":    func(d *device, r *protocol.Request) { d.tell(r, "task.rejected", `{"reason":"no"}`) },
		"garbage":     func(d *device, r *protocol.Request) { d.sayWith("?", r.ID) },
		"nonsense":    func(d *device, r *protocol.Request) { d.succeed(r, `{"celsius":"no"}`) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				bad := w.device("bad", heating, answer)
				good := w.device("good", heating, func(d *device, r *protocol.Request) { d.succeed(r, `{"celsius":20,"litres":1}`) })
				for range 4 {
					w.do(alice, "skill.invoke", set, nil)
				}
				asked := len(bad.got())
				if asked == 0 || len(good.got()) != 4 {
					t.Errorf("bad was asked %d times, good %d", asked, len(good.got()))
				}
				// What is not idempotent stays where it went.
				failed := 0
				for range 4 {
					if r := w.ask(question{who: alice, command: "skill.invoke", params: bleed}); r.Err != nil {
						failed++
					}
				}
				if name != "nonsense" && failed == 0 {
					t.Error("a call that is not idempotent was repeated")
				}
			})
		})
	}
}

func TestWhatOnlyReadsIsTriedElsewhereAsIfIdempotent(t *testing.T) {
	const gauge = `{"skill_id":"gauge","name":"Gauge","capabilities":[{"capability_id":"read","effect":"read"},{"capability_id":"reset","effect":"act"}]}`
	inBubble(t, func(t *testing.T, w *world) {
		bad := w.device("bad", gauge, func(d *device, r *protocol.Request) { d.fail(r, "4008", "busy") })
		good := w.device("good", gauge, func(d *device, r *protocol.Request) { d.succeed(r, `{}`) })
		for range 4 {
			w.do(alice, "skill.invoke", `{"skill_id":"gauge","capability_id":"read"}`, nil)
		}
		if len(bad.got()) == 0 || len(good.got()) != 4 {
			t.Errorf("bad was asked %d times, good %d", len(bad.got()), len(good.got()))
		}
		failed := 0
		for range 4 {
			if r := w.ask(question{who: alice, command: "skill.invoke", params: `{"skill_id":"gauge","capability_id":"reset"}`}); r.Err != nil {
				failed++
			}
		}
		if failed == 0 {
			t.Error("what acts was repeated")
		}
	})
}

func TestAnAnswerThatIsFinalIsNotTriedElsewhere(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		first := w.device("one", heating, func(d *device, r *protocol.Request) { d.fail(r, "3006", "no") })
		second := w.device("two", heating, func(d *device, r *protocol.Request) { d.fail(r, "3006", "no") })
		w.fails(alice, "skill.invoke", set, protocol.InvalidState)
		if n := len(first.got()) + len(second.got()); n != 1 {
			t.Errorf("asked %d times", n)
		}
	})
}

func TestMessagesNobodyWaitsForAreCountedAndDropped(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		spy := w.connect("spy", bob, nil)
		other := w.device("other", strings.ReplaceAll(heating, `"skill_id":"heating"`, `"skill_id":"other"`), nil)
		w.device("boiler", heating, func(d *device, r *protocol.Request) {
			stranger := &device{w: w, id: "boiler", who: bob, client: "stranger"}
			stranger.succeed(r, `{"litres":666}`) // on the right topic, by the wrong principal
			other.succeed(r, `{"litres":666}`)    // by the right principal, for the wrong agent
			other.sayWith("garbage", r.ID)
			spy.succeed(r, `{"litres":666}`)
			d.succeed(&protocol.Request{ID: "never asked"}, `{}`)
			d.say("garbage")
			d.say(`{"id":`)
			d.say("")
			d.tell(r, "task.exploded", `{}`)
			d.tell(r, "task.rejected ", `{}`)
			d.succeed(r, `{"litres":1}`)
			d.succeed(r, `{"litres":2}`) // a second time
			d.tell(r, "task.progress", `{}`)
		})
		var got InvokeSkillResult
		w.do(alice, "skill.invoke", bleed, &got)
		synctest.Wait()
		if string(got.Data) != `{"litres":1}` {
			t.Errorf("data %s", got.Data)
		}
		for reason, want := range map[string]float64{"foreign": 4, "unknown": 3, "malformed": 3, "event": 2} {
			if n := w.dropped(reason); n != want {
				t.Errorf("%s: %v dropped, want %v", reason, n, want)
			}
		}
		w.Answer("aibridge/agent/boiler/request", alice, nil, []byte("x"), nil) // not even a response topic
		w.Answer("elsewhere", alice, nil, []byte("x"), nil)
	})
}

func TestProgressReachesACallerThatAskedForIt(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.device("boiler", heating, func(d *device, r *protocol.Request) {
			d.tell(r, "task.accepted", `{}`)
			d.tell(r, "task.progress", `{"percent":50,"message":"half"}`)
			d.tell(r, "task.delta", `{"text":"psst"}`)
			d.succeed(r, `{}`)
			d.tell(r, "task.progress", `{"percent":101}`)
		})
		var mu sync.Mutex
		var told []string
		w.must(w.ask(question{who: alice, command: "skill.invoke", params: bleed, emit: func(e *protocol.Event) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, fmt.Sprintf("%d %s %s %s", e.Seq, e.ID, e.Name, e.Data))
		}}), nil)
		id := fmt.Sprintf("r-%d", w.requests)
		want := []string{
			"1 " + id + ` task.accepted {}`,
			"2 " + id + ` task.progress {"percent":50,"message":"half"}`,
			"3 " + id + ` task.delta {"text":"psst"}`,
		}
		if !slices.Equal(told, want) {
			t.Errorf("told %q\nwant %q", told, want)
		}
		w.do(alice, "skill.invoke", bleed, nil) // and one that did not ask hears nothing
		if len(told) != 3 {
			t.Error("events for nobody")
		}
	})
}

func TestEquallyBusyAgentsTakeTurns(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		devices := make([]*device, 3)
		for i := range devices {
			devices[i] = w.device(protocol.AgentID(fmt.Sprint("boiler-", i)), heating, echo)
		}
		for range 30 {
			w.do(alice, "skill.invoke", set, nil)
		}
		for _, d := range devices {
			if n := len(d.got()); n != 10 {
				t.Errorf("%s was asked %d times", d.id, n)
			}
		}
	})
}

func TestManyCallsAtOnceEachGetTheirOwnAnswer(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		for i := range 4 {
			w.device(protocol.AgentID(fmt.Sprint("boiler-", i)), heating, func(d *device, r *protocol.Request) {
				time.Sleep(time.Duration(len(d.got())%7) * time.Millisecond)
				echo(d, r)
			})
		}
		var calls sync.WaitGroup
		for i := range 500 {
			calls.Go(func() {
				var got InvokeSkillResult
				w.do(alice, "skill.invoke", fmt.Sprintf(`{"skill_id":"heating","capability_id":"set","params":{"celsius":%d}}`, i), &got)
				if string(got.Data) != fmt.Sprintf(`{"celsius":%d}`, i) {
					t.Errorf("call %d got %s", i, got.Data)
				}
			})
		}
		calls.Wait()
		if w.asking.Open() != 0 {
			t.Error("exchanges are left open")
		}
	})
}

func TestACommandOfAnAgentIsForwardedAsItIs(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		d := w.connect("acme", alice, func(d *device, r *protocol.Request) { d.succeed(r, `{"ok":true}`) })
		d.register()
		call := &commands.Call{Principal: alice, TraceID: "t-1", Deadline: time.Now().Add(time.Minute)}
		result, err := w.Forward(t.Context(), call, "acme", "acme.paint", json.RawMessage(`{"color":"red"}`))
		if err != nil || string(result) != `{"ok":true}` {
			t.Fatalf("got %s, %v", result, err)
		}
		if r := d.got()[0]; r.Command != "acme.paint" || string(r.Params) != `{"color":"red"}` || r.Metadata.TraceID != "t-1" {
			t.Errorf("the agent got %+v", r)
		}
		if _, err := w.Forward(t.Context(), call, "nobody", "acme.paint", nil); protocol.CodeOf(err) != protocol.NotFound {
			t.Errorf("to nobody: %v", err)
		}
		d.die()
		if _, err := w.Forward(t.Context(), call, "acme", "acme.paint", nil); protocol.CodeOf(err) != protocol.AgentOffline {
			t.Errorf("to one that is offline: %v", err)
		}
		w.Connected(d, d.client, alice) // connected again, but only somebody else hears what it is asked
		w.mqtt.deliver(d.topic(), &device{w: w, id: "watcher"})
		if _, err := w.Forward(t.Context(), call, "acme", "acme.paint", nil); protocol.CodeOf(err) != protocol.AgentOffline {
			t.Errorf("to one that does not listen: %v", err)
		}
	})
}

func TestTheStopOfTheBridgeEndsCalls(t *testing.T) {
	inBubble(t, func(_ *testing.T, w *world) {
		w.device("boiler", heating, nil)
		answer := make(chan *protocol.Response, 1)
		go func() { answer <- w.ask(question{who: alice, command: "skill.invoke", params: bleed}) }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = w.router.Close(ctx)
		w.failed(<-answer, protocol.ShuttingDown)
	})
}
