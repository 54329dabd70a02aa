package client_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aibridge/aibridge/broker"
	"github.com/aibridge/aibridge/client"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/protocol"
)

var agentA = client.WithAgent(client.Agent{ID: "a", Name: "Agent A"})

type target struct {
	Celsius float64 `json:"celsius"`
}

// one is a skill "s" with the capability "do".
func one(h client.Handler) client.Skill {
	return client.Skill{ID: "s", Name: "Skill", Version: "1.2.3", Capabilities: []client.Capability{{ID: "do", Handler: h}}}
}

const do = `{"skill_id":"s","capability_id":"do"}`

func echo(_ context.Context, in *client.Invocation) (any, error) { return in.Params, nil }

func (b *bridge) serve(c *client.Client, s client.Skill) *client.ServedSkill {
	b.t.Helper()
	served, err := c.ServeSkill(soon(b.t), s)
	if err != nil {
		b.t.Fatal(err)
	}
	return served
}

// TestCallsThatWaitedForAnAgentFindItsSkills sends an agent calls for both of its
// skills as soon as it can be reached.
func TestCallsThatWaitedForAnAgentFindItsSkills(t *testing.T) {
	t.Parallel()
	b := newBridge(t)
	b.on("agent.register", func(*protocol.Request, *broker.Publication) (any, error) {
		b.invoke("1", `{"skill_id":"s","capability_id":"do"}`)
		b.invoke("2", `{"skill_id":"last","capability_id":"do"}`)
		return struct{}{}, nil
	})
	first, last := one(echo), one(echo)
	last.ID = "last"
	if _, err := b.dial(agentA).ServeSkills(soon(t), first, last); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if m := b.heard(); m.Response == nil || m.Response.Err != nil {
			t.Errorf("a call was answered with %+v", m)
		}
	}
}

func TestSkillsThatAreRefusedDoNotTakeTheOthersAlong(t *testing.T) {
	t.Parallel()
	b := newBridge(t)
	b.on("skill.register", func(r *protocol.Request, _ *broker.Publication) (any, error) {
		if bytes.Contains(r.Params, []byte(`"skill_id":"taken"`)) {
			return nil, protocol.Errorf(protocol.AlreadyExists, "somebody else's")
		}
		return struct{}{}, nil
	})
	taken, s := one(echo), one(echo)
	taken.ID = "taken"
	served, err := b.dial(agentA).ServeSkills(soon(t), taken, s)
	if protocol.CodeOf(err) != protocol.AlreadyExists || len(served) != 2 || served[0] != nil || served[1] == nil {
		t.Fatalf("served %v: %v", served, err)
	}
	b.invoke("1", `{"skill_id":"taken","capability_id":"do"}`)
	if answer := b.answer("1"); protocol.CodeOf(answer.Err) != protocol.NotFound {
		t.Errorf("the skill that was refused: %v", answer.Err)
	}
	b.invoke("2", do)
	if answer := b.answer("2"); answer.Err != nil {
		t.Errorf("the other one: %v", answer.Err)
	}
}

func TestServedSkillIsRegisteredWithItsAgent(t *testing.T) {
	t.Parallel()
	b := newBridge(t)
	b.serve(b.dial(agentA), client.Skill{
		ID: "s", Description: "does things", Version: "1.2.3",
		Capabilities: []client.Capability{
			{ID: "read", Handler: echo, Effect: client.EffectRead, Idempotent: true},
			{ID: "set", Handler: echo, ParamsSchema: json.RawMessage(`{"type":"object"}`), Risk: "low", Name: "Set", Description: "sets"},
		},
	})
	if got, want := string(b.asked("agent.register")[0].Params), `{"agent_id":"a","type":"end_agent","name":"Agent A"}`; got != want {
		t.Errorf("agent.register %s", got)
	}
	want := `{"agent_id":"a","skill":{"skill_id":"s","name":"s","description":"does things","version":"1.2.3","capabilities":[` +
		`{"capability_id":"read","effect":"read","idempotent":true},` +
		`{"capability_id":"set","name":"Set","description":"sets","params_schema":{"type":"object"},"risk":"low"}]}}`
	if got := string(b.asked("skill.register")[0].Params); got != want {
		t.Errorf("skill.register %s", got)
	}
}

func TestInvocationIsAnswered(t *testing.T) {
	t.Parallel()
	b := newBridge(t)
	c := b.dial(agentA)
	b.serve(c, client.Skill{ID: "s", Capabilities: []client.Capability{
		{ID: "set", Handler: client.Handle(func(_ context.Context, in *client.Invocation, p target) (target, error) {
			if left := time.Until(in.Deadline); in.TraceID != "trace-1" || in.ID != "1" || in.SkillID != "s" || left <= 0 || left > patience {
				t.Errorf("invocation %+v", in)
			}
			return target{p.Celsius + 1}, nil
		})},
		{ID: "nothing", Handler: func(context.Context, *client.Invocation) (any, error) { return nil, nil }},
		{ID: "echo", Handler: echo},
	}})
	b.invoke("1", `{"skill_id":"s","capability_id":"set","params":{"celsius":20.5}}`)
	if r := b.answer("1"); string(r.Result) != `{"celsius":21.5}` || r.Err != nil || r.Metadata.TraceID != "trace-1" || r.Metadata.SenderID != "a" {
		t.Errorf("%+v", r)
	}
	for id, capability := range map[string]string{"2": "nothing", "3": "echo"} {
		b.invoke(id, `{"skill_id":"s","capability_id":"`+capability+`"}`)
		if r := b.answer(id); string(r.Result) != "{}" || r.Err != nil {
			t.Errorf("%s: %+v", capability, r)
		}
	}
}

func TestFailureOfAHandlerIsAProtocolError(t *testing.T) {
	t.Parallel()
	b := newBridge(t)
	var fail atomic.Value
	c := b.dial(agentA)
	b.serve(c, one(client.Handle(func(_ context.Context, _ *client.Invocation, p target) (any, error) {
		return fail.Load().(func() (any, error))()
	})))
	for i, test := range []struct {
		params string
		fail   func() (any, error)
		code   protocol.Code
		text   string
	}{
		{`{"celsius":1}`, func() (any, error) { return nil, protocol.Errorf(protocol.InvalidState, "no heating") }, protocol.InvalidState, "no heating"},
		{`{"celsius":1}`, func() (any, error) { return nil, errors.New("secret password") }, protocol.Internal, "internal error"},
		{`{"celsius":1}`, func() (any, error) { panic("oops") }, protocol.Internal, "the skill failed"},
		{`{"celsius":1}`, func() (any, error) { return make(chan int), nil }, protocol.Internal, "internal error"},
		{`{"celsius":"warm"}`, nil, protocol.InvalidParameter, "params.celsius: must be a number, is string"},
		{`[]`, nil, protocol.InvalidParameter, "params: must be an object, is array"},
	} {
		id := fmt.Sprint(i)
		fail.Store(test.fail)
		b.invoke(id, `{"skill_id":"s","capability_id":"do","params":`+test.params+`}`)
		if r := b.answer(id); r.Err == nil || r.Err.Code != test.code || r.Err.Message != test.text {
			t.Errorf("%d: %v", i, r.Err)
		}
	}
}

func TestWhatTheAgentDoesNotDoIsRefused(t *testing.T) {
	t.Parallel()
	b := newBridge(t)
	b.serve(b.dial(agentA), one(echo))
	for id, test := range map[string]struct {
		command, params string
		code            protocol.Code
	}{
		"1": {"skill.invoke", `{"skill_id":"other","capability_id":"do"}`, protocol.NotFound},
		"2": {"skill.invoke", `{"skill_id":"s","capability_id":"other"}`, protocol.NotFound},
		"3": {"skill.invoke", `{"skill_id":7}`, protocol.InvalidParameter},
		"4": {"acme.do", `{}`, protocol.UnknownCommand},
	} {
		b.toAgent(id, test.command, test.params)
		if r := b.answer(id); r.Err == nil || r.Err.Code != test.code || r.Metadata.TraceID != "trace-"+id {
			t.Errorf("%s: %+v", id, r)
		}
	}
	must[int](t)(b.publish(protocol.Message{Topic: "aibridge/agent/a/request", Payload: []byte("nonsense")}))
	b.invoke("5", do)
	b.answer("5")
}

func TestRepeatedInvocationRunsOnce(t *testing.T) {
	t.Parallel()
	b := newBridge(t)
	var runs atomic.Int32
	release := make(chan struct{})
	b.serve(b.dial(agentA), one(func(context.Context, *client.Invocation) (any, error) {
		<-release
		return runs.Add(1), nil
	}))
	b.invoke("1", do)
	b.invoke("1", do) // while it runs
	close(release)
	b.answer("1")
	b.invoke("1", do) // after it ran
	if r := b.answer("1"); string(r.Result) != "1" {
		t.Errorf("result %s", r.Result)
	}
	if runs.Load() != 1 {
		t.Errorf("ran %d times", runs.Load())
	}
}

func TestCancelEndsTheHandler(t *testing.T) {
	t.Parallel()
	b := newBridge(t)
	started := make(chan string, 10)
	b.serve(b.dial(agentA), one(func(ctx context.Context, in *client.Invocation) (any, error) {
		started <- in.ID
		if in.ID == "3" {
			return "done", nil
		}
		<-ctx.Done()
		return nil, fmt.Errorf("stopped: %w", ctx.Err())
	}))
	b.invoke("1", do)
	<-started
	b.toAgent("c1", "task.cancel", `{"task_id":"1","reason":"nobody waits"}`)
	if r := b.answer("1"); r.Err == nil || r.Err.Code != protocol.Cancelled || r.Err.Message != "cancelled: nobody waits" {
		t.Errorf("%+v", r.Err)
	}
	// A cancellation that overtakes its invocation keeps it from running.
	b.toAgent("c2", "task.cancel", `{"task_id":"2","reason":"too late"}`)
	b.toAgent("c3", "task.cancel", `{"what":1}`)
	b.invoke("2", do)
	b.invoke("3", do)
	b.answer("3")
	if id := <-started; id != "3" {
		t.Errorf("%s was started", id)
	}
}

func TestInvocationEndsAtItsDeadline(t *testing.T) {
	t.Parallel()
	b := newBridge(t)
	b.serve(b.dial(agentA), one(func(ctx context.Context, _ *client.Invocation) (any, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}))
	b.invoke("1", do, func(r *protocol.Request) { r.Metadata.Timeout = 50 * time.Millisecond })
	if r := b.answer("1"); r.Err == nil || r.Err.Code != protocol.TimedOut {
		t.Errorf("%+v", r.Err)
	}
}

func TestConcurrencyIsBoundedAndTheRestRefused(t *testing.T) {
	t.Parallel()
	b := newBridge(t)
	started, release := make(chan string, 10), make(chan struct{})
	b.serve(b.dial(agentA, client.WithConcurrency(1, 1)), one(func(_ context.Context, in *client.Invocation) (any, error) {
		started <- in.ID
		<-release
		return nil, nil
	}))
	b.invoke("1", do)
	<-started
	b.invoke("2", do) // waits
	b.invoke("3", do)
	if r := b.answer("3"); r.Err == nil || r.Err.Code != protocol.Busy || r.Err.Details["retry_after_ms"] == nil {
		t.Errorf("%+v", r.Err)
	}
	if len(started) != 0 {
		t.Error("two ran at a time")
	}
	close(release)
	ids := []string{b.heardAnswer(), b.heardAnswer()}
	slices.Sort(ids)
	if !slices.Equal(ids, []string{"1", "2"}) {
		t.Errorf("answered %v", ids)
	}
}

// TestARefusalIsNeverLost has more refusals on their way than a client sends at a
// time: the bridge takes no answer before it has sent all requests.
func TestARefusalIsNeverLost(t *testing.T) {
	t.Parallel()
	b := newBridge(t)
	b.serve(b.dial(agentA), one(func(context.Context, *client.Invocation) (any, error) { return nil, nil }))
	const calls = 1000
	for i := range calls {
		b.toAgent(fmt.Sprint(i), "no.command", `{}`)
	}
	answered := make(map[string]bool)
	for range calls {
		m := b.heard()
		if m.Response == nil || m.Response.Err == nil || m.Response.Err.Code != protocol.UnknownCommand {
			t.Fatalf("%+v", m)
		}
		answered[m.Response.ID] = true
	}
	if len(answered) != calls {
		t.Errorf("%d of %d calls are answered", len(answered), calls)
	}
}

func TestCallsOfOneKeepNobodyElseWaiting(t *testing.T) {
	t.Parallel()
	b := newBridge(t)
	started, release := make(chan string, 20), make(chan struct{})
	b.serve(b.dial(agentA, client.WithConcurrency(16, 64)), one(func(_ context.Context, in *client.Invocation) (any, error) {
		started <- in.ID
		if in.Caller == "greedy" {
			<-release
		}
		return nil, nil
	}))
	for i := range 20 { // four nap, sixteen wait
		b.invokeFor("greedy", fmt.Sprint("nap-", i), do)
	}
	for range 4 {
		<-started
	}
	b.invokeFor("greedy", "nap-too-many", do)
	if r := b.answer("nap-too-many"); r.Err == nil || r.Err.Code != protocol.Busy {
		t.Errorf("%+v", r.Err)
	}
	b.invokeFor("modest", "quick", do)
	if r := b.answer("quick"); r.Err != nil {
		t.Errorf("somebody else: %v", r.Err)
	}
	b.invoke("of-an-administrator", do)
	if r := b.answer("of-an-administrator"); r.Err != nil {
		t.Errorf("an administrator: %v", r.Err)
	}
	if n := len(started); n != 2 {
		t.Errorf("%d calls began besides the naps, want 2", n)
	}
	close(release)
	for range 20 {
		b.heardAnswer()
	}
}

// heardAnswer is the id of the next answer, events left out.
func (b *bridge) heardAnswer() string {
	b.t.Helper()
	for {
		if m := b.heard(); m.Response != nil {
			return m.Response.ID
		}
	}
}

func TestProgressIsToldAfterAcceptance(t *testing.T) {
	t.Parallel()
	b := newBridge(t)
	late := make(chan *client.Invocation, 1)
	b.serve(b.dial(agentA), one(func(_ context.Context, in *client.Invocation) (any, error) {
		in.Progress(10, "warming up")
		in.Delta(map[string]string{"text": "a"})
		in.Progress(100, "")
		late <- in
		return nil, nil
	}))
	b.invoke("1", do)
	for i, want := range []struct{ name, data string }{
		{"task.accepted", `{}`},
		{"task.progress", `{"message":"warming up","percent":10}`},
		{"task.delta", `{"text":"a"}`},
		{"task.progress", `{"percent":100}`},
	} {
		e := b.event(want.name)
		if e.ID != "1" || string(e.Data) != want.data || e.Seq != uint64(i+1) || e.Metadata.TraceID != "trace-1" {
			t.Errorf("%d: %+v %s", i, e, e.Data)
		}
	}
	b.answer("1")
	(<-late).Progress(50, "too late")
	b.invoke("2", do)
	b.event("task.accepted") // and nothing of the first
}

func TestLongWorkIsAcceptedOnItsOwn(t *testing.T) {
	t.Parallel()
	b := newBridge(t)
	release := make(chan struct{})
	b.serve(b.dial(agentA), one(func(context.Context, *client.Invocation) (any, error) { <-release; return nil, nil }))
	b.invoke("1", do)
	b.event("task.accepted")
	close(release)
	b.answer("1")
}

func TestRejectedTaskIsAnEvent(t *testing.T) {
	t.Parallel()
	b := newBridge(t)
	b.serve(b.dial(agentA), one(func(context.Context, *client.Invocation) (any, error) { return nil, client.Rejected("not today") }))
	b.invoke("1", do)
	if e := b.event("task.rejected"); string(e.Data) != `{"reason":"not today"}` {
		t.Errorf("%s", e.Data)
	}
}

func TestCallsOfAHandlerCarryOnTheTrace(t *testing.T) {
	t.Parallel()
	b := newBridge(t)
	b.on("math.add", add)
	c := b.dial(agentA)
	b.serve(c, one(func(ctx context.Context, _ *client.Invocation) (any, error) {
		return client.Call[sum](ctx, c, "math.add", map[string]int{"a": 1})
	}))
	b.invoke("1", do)
	if r := b.answer("1"); string(r.Result) != `{"sum":1}` {
		t.Errorf("%+v", r)
	}
	if trace := b.asked("math.add")[0].Metadata.TraceID; trace != "trace-1" {
		t.Errorf("trace %s", trace)
	}
}

func TestReconnectRegistersEverythingAgain(t *testing.T) {
	t.Parallel()
	b := newBridge(t)
	c := b.dial(agentA)
	b.serve(c, one(echo))
	withdrawn := b.serve(c, client.Skill{ID: "gone", Capabilities: []client.Capability{{ID: "x", Handler: echo}}})
	if err := withdrawn.Withdraw(soon(t)); err != nil {
		t.Fatal(err)
	}
	b.stop()
	b.start()
	eventually.Holds(t, "registered again", func() bool {
		return len(b.asked("agent.register")) == 2 && len(b.asked("skill.register")) == 3
	})
	if again := string(b.asked("skill.register")[2].Params); !strings.Contains(again, `"skill_id":"s"`) {
		t.Errorf("registered %s", again)
	}
	b.invoke("1", do)
	b.answer("1")
}

func TestAnswerWaitsForTheNextConnection(t *testing.T) {
	t.Parallel()
	b := newBridge(t)
	started, release := make(chan struct{}, 1), make(chan struct{})
	b.serve(b.dial(agentA), one(func(context.Context, *client.Invocation) (any, error) {
		started <- struct{}{}
		<-release
		return "late", nil
	}))
	b.invoke("1", do)
	<-started
	b.stop()
	close(release)
	b.start()
	for {
		if m := b.heard(); m.Response != nil {
			if m.Response.ID != "1" || string(m.Response.Result) != `"late"` {
				t.Errorf("%+v", m.Response)
			}
			return
		}
	}
}

func TestHeartbeatGoesOnAndRegistersAForgottenAgent(t *testing.T) {
	t.Parallel()
	b := newBridge(t)
	b.on("agent.register", func(*protocol.Request, *broker.Publication) (any, error) {
		return map[string]any{"heartbeat_interval": 0.05}, nil
	})
	b.on("agent.heartbeat", func(r *protocol.Request, _ *broker.Publication) (any, error) {
		if string(r.Params) != `{"agent_id":"a"}` {
			t.Errorf("heartbeat %s", r.Params)
		}
		return nil, protocol.Errorf(protocol.NotFound, "who is a?")
	})
	b.serve(b.dial(agentA), one(echo))
	eventually.Holds(t, "registered again", func() bool {
		return len(b.asked("agent.heartbeat")) >= 1 && len(b.asked("agent.register")) >= 2 && len(b.asked("skill.register")) >= 2
	})
}

func TestCloseAnswersWhatIsAtWork(t *testing.T) {
	t.Parallel()
	b := newBridge(t)
	c := b.dial(agentA)
	started := make(chan struct{}, 1)
	b.serve(c, one(func(ctx context.Context, _ *client.Invocation) (any, error) {
		started <- struct{}{}
		<-ctx.Done()
		return nil, ctx.Err()
	}))
	b.invoke("1", do)
	<-started
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if r := b.answer("1"); r.Err == nil || r.Err.Code != protocol.ShuttingDown {
		t.Errorf("%+v", r.Err)
	}
}

// A sharedBuffer is written and read by several.
type sharedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *sharedBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *sharedBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func TestCloseDoesNotWaitForABridgeThatIsGone(t *testing.T) {
	t.Parallel()
	b := newBridge(t)
	var log sharedBuffer
	c := b.dial(agentA, client.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	started, ended := make(chan struct{}, 1), make(chan struct{})
	b.serve(c, one(func(ctx context.Context, _ *client.Invocation) (any, error) {
		started <- struct{}{}
		<-ended
		return "nobody hears it", nil
	}))
	b.invoke("1", do)
	<-started
	b.stop()
	eventually.Holds(t, "the client has noticed", func() bool { return strings.Contains(log.String(), "failed") })
	close(ended)
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if text := log.String(); strings.Contains(text, "do not stop") || !strings.Contains(text, "answer not sent") {
		t.Errorf("it said\n%s", text)
	}
}

func TestSkillIsReplacedAndWithdrawn(t *testing.T) {
	t.Parallel()
	b := newBridge(t)
	c := b.dial(agentA)
	first := b.serve(c, one(echo))
	second := b.serve(c, one(func(context.Context, *client.Invocation) (any, error) { return "new", nil }))
	if err := first.Withdraw(soon(t)); err != nil || len(b.asked("skill.unregister")) != 0 {
		t.Errorf("the replaced skill was withdrawn: %v", err)
	}
	b.invoke("1", do)
	if r := b.answer("1"); string(r.Result) != `"new"` {
		t.Errorf("%+v", r)
	}
	b.on("skill.unregister", func(*protocol.Request, *broker.Publication) (any, error) {
		return nil, protocol.Errorf(protocol.NotFound, "no such skill")
	})
	if err := errors.Join(second.Withdraw(soon(t)), second.Withdraw(soon(t))); err != nil {
		t.Fatal(err)
	}
	if n := len(b.asked("skill.unregister")); n != 1 {
		t.Errorf("unregistered %d times", n)
	}
	b.invoke("2", do)
	if r := b.answer("2"); r.Err == nil || r.Err.Code != protocol.NotFound {
		t.Errorf("%+v", r)
	}
}

func TestRegistrationThatFailsServesNothing(t *testing.T) {
	t.Parallel()
	b := newBridge(t)
	_, err := b.dial().ServeSkill(soon(t), one(echo))
	expectCode(t, err, protocol.InvalidState)

	c := b.dial(agentA)
	for name, s := range map[string]client.Skill{
		"no id":         {Capabilities: one(echo).Capabilities},
		"no capability": {ID: "s"},
		"no handler":    one(nil),
		"bad id":        {ID: "s", Capabilities: []client.Capability{{ID: "a/b", Handler: echo}}},
		"twice":         {ID: "s", Capabilities: append(one(echo).Capabilities, one(echo).Capabilities...)},
	} {
		_, err := c.ServeSkill(soon(t), s)
		if protocol.CodeOf(err) != protocol.InvalidParameter {
			t.Errorf("%s: %v", name, err)
		}
	}

	refuse := func(*protocol.Request, *broker.Publication) (any, error) {
		return nil, protocol.Errorf(protocol.AlreadyExists, "taken")
	}
	welcome := func(*protocol.Request, *broker.Publication) (any, error) { return struct{}{}, nil }
	b.on("agent.register", refuse)
	_, err = c.ServeSkill(soon(t), one(echo))
	expectCode(t, err, protocol.AlreadyExists)
	if n := must[int](t)(b.publish(protocol.Message{Topic: "aibridge/agent/a/request"})); n != 0 {
		t.Error("it still listens")
	}
	b.on("agent.register", welcome)
	b.on("skill.register", refuse)
	_, err = c.ServeSkill(soon(t), one(echo))
	expectCode(t, err, protocol.AlreadyExists)
	b.invoke("1", do)
	if r := b.answer("1"); r.Err == nil || r.Err.Code != protocol.NotFound {
		t.Errorf("%+v", r)
	}
	b.on("skill.register", welcome)
	b.serve(c, one(echo))
}
