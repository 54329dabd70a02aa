package registry

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/protocol"
)

// A wsAgent is an agent without MQTT, on a WebSocket connection.
type wsAgent struct {
	testLine
	w      *world
	who    *protocol.Principal
	answer func(a *wsAgent, r *protocol.Request) // nil: stays silent
	got    chan *protocol.Request
}

// Send implements [commands.Line].
func (a *wsAgent) Send(message []byte) bool {
	if !a.testLine.Send(message) {
		return false
	}
	r, err := protocol.DecodeRequest(message, protocol.Limits{})
	if err != nil {
		a.w.t.Errorf("an agent got a request that is none: %v", err)
	}
	a.got <- r
	if a.answer != nil && r.Command != "task.cancel" {
		go a.answer(a, r)
	}
	return true
}

func (a *wsAgent) say(payload string) bool {
	return a.w.AnswerOver(a, a.who, []byte(payload))
}

func (a *wsAgent) hangUp() {
	a.mu.Lock()
	a.over = true
	a.mu.Unlock()
	a.w.HungUp(a, "connection closed")
}

// await is the next request the agent gets.
func (a *wsAgent) await(t testing.TB) *protocol.Request {
	t.Helper()
	select {
	case r := <-a.got:
		return r
	case <-time.After(eventually.Patience):
		t.Fatal("the agent is asked nothing")
		return nil
	}
}

// overWebSocket makes an agent that registers itself, with the heating, over a
// connection of its own.
func (w *world) overWebSocket(id protocol.AgentID, who *protocol.Principal, answer func(*wsAgent, *protocol.Request)) *wsAgent {
	w.t.Helper()
	a := &wsAgent{w: w, who: who, answer: answer, got: make(chan *protocol.Request, 64)}
	w.must(w.ask(question{who: who, line: a, command: "agent.register", params: fmt.Sprintf(`{"agent_id":%q,"type":"end_agent"}`, id)}), nil)
	return a
}

func succeedOver(result string) func(*wsAgent, *protocol.Request) {
	return func(a *wsAgent, r *protocol.Request) {
		a.say(fmt.Sprintf(`{"version":"0.6.3","id":%q,"type":"event","event":"task.progress","data":{"percent":50}}`, r.ID))
		a.say(fmt.Sprintf(`{"version":"0.6.3","id":%q,"type":"response","status":"success","result":%s}`, r.ID, result))
	}
}

func TestAnAgentIsAskedOverTheWebSocketItRegisteredOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.overWebSocket("boiler", alice, succeedOver(`{"litres":2}`))
	w.do(alice, "skill.register", `{"agent_id":"boiler","skill":`+heating+`}`, nil)
	var view AgentView
	if w.do(alice, "agent.get", `{"agent_id":"boiler"}`, &view); view.Status != Online {
		t.Errorf("it is %s", view.Status)
	}
	var events []string
	var got InvokeSkillResult
	w.must(w.ask(question{who: alice, command: "skill.invoke", params: bleed, extension: `{"acme":1}`,
		emit: func(e *protocol.Event) { events = append(events, e.Name) }}), &got)
	if got.AgentID != "boiler" || string(got.Data) != `{"litres":2}` || !slices.Equal(events, []string{"task.progress"}) {
		t.Errorf("got %+v after %v", got, events)
	}
	if r := a.await(t); r.Command != "skill.invoke" || r.Metadata.SenderID != "aibridge" || string(r.Extension) != `{"acme":1}` || r.Metadata.Timeout <= 0 {
		t.Errorf("it is asked %+v", r)
	}
	if result, err := w.Forward(t.Context(), callOf(alice), "boiler", "acme.blink", json.RawMessage(`{"n":1}`)); err != nil || string(result) != `{"litres":2}` {
		t.Errorf("a command of its own: %s, %v", result, err)
	}
	if r := a.await(t); r.Command != "acme.blink" {
		t.Errorf("it is asked %+v", r)
	}
	a.hangUp()
	w.fails(alice, "skill.invoke", bleed, protocol.AgentOffline)
	if w.do(alice, "agent.get", `{"agent_id":"boiler"}`, &view); view.Status != Offline {
		t.Errorf("without a connection it is %s", view.Status)
	}

	again := &wsAgent{w: w, who: alice, answer: succeedOver(`{"litres":3}`), got: make(chan *protocol.Request, 64)}
	w.must(w.ask(question{who: alice, line: again, command: "agent.heartbeat", params: `{"agent_id":"boiler"}`}), nil)
	w.do(alice, "skill.invoke", bleed, &got)
	if string(got.Data) != `{"litres":3}` {
		t.Errorf("after it came back: %+v", got)
	}
}

func TestACallOverAWebSocketEndsAsOverMQTT(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.overWebSocket("boiler", alice, nil)
	w.do(alice, "skill.register", `{"agent_id":"boiler","skill":`+heating+`}`, nil)
	invoke := func(ctx context.Context) <-chan error {
		ended := make(chan error, 1)
		go func() {
			_, err := w.InvokeSkill(ctx, callOf(alice), InvokeSkillParams{SkillID: "heating", CapabilityID: "bleed"})
			ended <- err
		}()
		return ended
	}

	ctx, cancel := context.WithCancel(t.Context())
	ended := invoke(ctx)
	call := a.await(t)
	cancel()
	if err := <-ended; protocol.CodeOf(err) != protocol.Cancelled {
		t.Errorf("cancelled: %v", err)
	}
	if told := a.await(t); told.Command != "task.cancel" || !strings.Contains(string(told.Params), call.ID) {
		t.Errorf("it is told %+v", told)
	}

	ended = invoke(t.Context())
	call = a.await(t)
	a.say(fmt.Sprintf(`{"id":%q,"result":{"litres":`, call.ID))
	if err := <-ended; protocol.CodeOf(err) != protocol.OutcomeUnknown {
		t.Errorf("an answer that cannot be read: %v", err)
	}

	ended = invoke(t.Context())
	a.await(t)
	a.hangUp()
	if err := <-ended; protocol.CodeOf(err) != protocol.OutcomeUnknown {
		t.Errorf("hung up: %v", err)
	}
	w.awaitNoExchanges(t)
}

func TestOnlyItsOwnConnectionAnswersForAnAgent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.overWebSocket("boiler", alice, nil)
	w.do(alice, "skill.register", `{"agent_id":"boiler","skill":`+heating+`}`, nil)
	other := w.overWebSocket("lamp", alice, nil)
	thief := w.overWebSocket("thief", bob, nil)
	ended := make(chan error, 1)
	go func() {
		_, err := w.InvokeSkill(t.Context(), callOf(alice), InvokeSkillParams{SkillID: "heating", CapabilityID: "bleed"})
		ended <- err
	}()
	call := a.await(t)
	forged := fmt.Sprintf(`{"id":%q,"type":"response","status":"success","result":{"litres":-1}}`, call.ID)
	for name, who := range map[string]*wsAgent{"another agent of the same owner": other, "somebody else's agent": thief} {
		before := w.dropped("foreign")
		if !who.say(forged) || w.dropped("foreign") != before+1 {
			t.Errorf("%s answers for it", name)
		}
	}
	w.Answer("aibridge/agent/boiler/response", bob, nil, []byte(forged), nil)
	if w.asking.Open() != 1 {
		t.Fatal("a forged answer counts")
	}
	if a.say(`{"version":"0.6.3","id":"own","timestamp":0,"type":"request","command":"skill.discover","params":{}}`) {
		t.Error("a request of its own is taken for an answer")
	}
	succeedOver(`{"litres":2}`)(a, call)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if len(other.got) != 0 || len(thief.got) != 0 {
		t.Error("others are asked, too")
	}
}

func TestAConnectionThatHasEndedServesNobody(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := &wsAgent{w: w, who: alice, got: make(chan *protocol.Request, 1)}
	a.over = true
	var got RegisterAgentResult
	r := w.ask(question{who: alice, line: a, command: "agent.register", params: `{"agent_id":"boiler","type":"end_agent"}`})
	w.must(r, &got)
	if got.Status != Offline || len(r.Metadata.Warnings) != 1 {
		t.Errorf("it is %s, warned %q", got.Status, r.Metadata.Warnings)
	}
}

func TestADurableInvocationGoesOverAWebSocketAndComesBackOverTheNext(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.overWebSocket("d", alice, nil)
	w.do(alice, "skill.register", `{"agent_id":"d","skill":`+tool+`}`, nil)
	h := make(heard, 8)
	c := durable(h)
	w.asking.AskDurably(c)
	if call := a.await(t); call.ID != c.ID {
		t.Errorf("asked %+v", call)
	}
	a.hangUp()
	h.expect(t, "left")
	next := w.overWebSocket("d", alice, func(a *wsAgent, r *protocol.Request) {
		a.say(`{"id":"task-0","type":"response","status":"success","result":{"on":true}}`)
		a.say(fmt.Sprintf(`{"id":%q,"type":"response","status":"success","result":{"state":"done"}}`, r.ID))
	})
	w.asking.Recall(c)
	if r := next.await(t); r.Command != "task.get" {
		t.Errorf("asked %+v", r)
	}
	h.expect(t, `answered {"on":true}`)
	w.awaitNoExchanges(t)
}

func TestWhatWasAskedOverAConnectionEndsWithItThoughAnotherServesTheAgent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.overWebSocket("d", alice, nil)
	w.do(alice, "skill.register", `{"agent_id":"d","skill":`+tool+`}`, nil)
	h := make(heard, 8)
	w.asking.AskDurably(durable(h))
	a.await(t)
	w.overWebSocket("d", alice, nil) // before the bridge notices that the first has ended
	a.hangUp()
	h.expect(t, "left")
}
