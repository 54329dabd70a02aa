package app_test

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/app"
	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/protocol"
)

// TestARequestRunsOnceAtAllBridges repeats requests at other bridges: while they
// run, when they have ended, and when their bridge has.
func TestARequestRunsOnceAtAllBridges(t *testing.T) {
	t.Parallel()
	url, n := three(t)
	a, b, c := n[0].Caller(t, "at-a"), n[1].Caller(t, "at-b"), n[2].Caller(t, "at-c")
	device := n[0].Device(t, "lamp", "light", `["switch"]`)
	everywhere(t, "lamp", "online", b, c)
	send := func(to *bridgetest.Raw, id, params string) {
		t.Helper()
		to.Send(t, "aibridge/bridge/request", envelope(id, "skill.invoke", `{"skill_id":"light","capability_id":"switch","params":`+params+`}`, `{"timeout":300000}`))
	}
	same := func(to *bridgetest.Raw, what string) {
		t.Helper()
		if answer := to.Answer(t); answer.Err != nil || !strings.Contains(string(answer.Result), `"on":1`) {
			t.Errorf("%s, %s hears %s %v", what, to.ID, answer.Result, answer.Err)
		}
	}
	fails := func(to *bridgetest.Raw, what string, code protocol.Code) {
		t.Helper()
		if answer := to.Answer(t); answer.Err == nil || answer.Err.Code != code {
			t.Errorf("%s, %s hears %s %v", what, to.ID, answer.Result, answer.Err)
		}
	}

	send(b, "one", `{"n":1}`)
	call := device.Invocation(t)
	send(c, "one", `{"n":1}`)
	send(a, "one", `{"n":1}`)
	device.Reply(t, "lamp", call, map[string]any{"on": 1})
	for _, to := range []*bridgetest.Raw{a, b, c} {
		same(to, "while it runs")
	}
	send(a, "one", `{"n":1}`)
	same(a, "when it has ended")
	fourth := together(t, url, "d", n[0])
	d := fourth.Caller(t, "at-d")
	send(d, "one", `{"n":1}`)
	same(d, "at a bridge that came later")
	send(b, "one", `{"n":2}`)
	fails(b, "of another request", protocol.IDReused)
	send(d, "one", `{"n":2}`)
	fails(d, "of another request", protocol.IDReused)

	// A failure is an answer, too.
	device.Drop()
	everywhere(t, "lamp", "offline", a, b, c)
	send(c, "two", `{}`)
	fails(c, "without the agent", protocol.AgentOffline)
	device = n[0].Connect(t, "lamp")
	device.Listen(t, "aibridge/agent/lamp/request")
	everywhere(t, "lamp", "online", a, b, c)
	send(b, "two", `{}`)
	fails(b, "when the agent is back", protocol.AgentOffline)

	// Of what a bridge has left nobody knows whether it was done.
	send(c, "three", `{}`)
	device.Invocation(t)
	send(b, "three", `{}`)
	verdict(t, url, "c")
	fails(b, "when its bridge has ended", protocol.OutcomeUnknown)
	_ = n[2].Ended(t)
	send(a, "three", `{}`)
	fails(a, "when its bridge has ended", protocol.OutcomeUnknown)
	select {
	case p := <-device.Received:
		if !strings.Contains(string(p.Payload), "task.cancel") {
			t.Errorf("the agent is asked again: %s", p.Payload)
		}
	default:
	}
}

// TestAWriteRunsOnceAtAllBridges repeats requests of commands that write. Only
// bridges can read the answers that are told to other bridges.
func TestAWriteRunsOnceAtAllBridges(t *testing.T) {
	t.Parallel()
	url := startNATS(t)
	var ran atomic.Int32
	began, goOn := make(chan struct{}, 1), make(chan struct{})
	t.Cleanup(func() { close(goOn) })
	hold := commands.New(commands.Spec{Name: "test.hold", Summary: "Test.", Effect: commands.Write, Action: "test:hold", Example: `{}`},
		func(ctx context.Context, _ *commands.Call, _ struct{}) (struct{}, error) {
			ran.Add(1)
			began <- struct{}{}
			<-goOn
			return struct{}{}, nil
		})
	with := []app.Option{app.WithCommands(hold)}
	nodeA := bridgetest.StartWith(t, with, beside(t, url, "a", nil))
	nodeB := bridgetest.StartWith(t, with, beside(t, url, "b", nodeA))
	a, b := nodeA.Caller(t, "at-a"), nodeB.Caller(t, "at-b")

	create := envelope("one", "key.create", `{"principal_id":"meter","kind":"agent"}`, `{"timeout":300000}`)
	first, second := a.Ask(t, create), b.Ask(t, create)
	if first.Err != nil || second.Err != nil || !bytes.Equal(first.Result, second.Result) {
		t.Errorf("the first answer is %s %v, the second %s %v", first.Result, first.Err, second.Result, second.Err)
	}
	var made struct {
		Key string `json:"key"`
	}
	if err := json.Unmarshal(first.Result, &made); err != nil || made.Key == "" {
		t.Fatalf("no key in %s: %v", first.Result, err)
	}
	if streamHas(t, url, "aibridge-claims", made.Key) {
		t.Error("the key can be read in NATS")
	}
	if other := b.Ask(t, envelope("one", "key.create", `{"principal_id":"other","kind":"agent"}`, `{}`)); other.Err == nil || other.Err.Code != protocol.IDReused {
		t.Errorf("another request by the same id gets %s %v", other.Result, other.Err)
	}

	// The outcome of a command that a dead bridge has begun is unknown.
	held := envelope("two", "test.hold", `{}`, `{"timeout":300000}`)
	b.Send(t, "aibridge/bridge/request", held)
	<-began
	a.Send(t, "aibridge/bridge/request", held)
	verdict(t, url, "b")
	if answer := a.Answer(t); answer.Err == nil || answer.Err.Code != protocol.OutcomeUnknown {
		t.Errorf("when its bridge has ended a repeat gets %s %v", answer.Result, answer.Err)
	}
	_ = nodeB.Ended(t)
	if n := ran.Load(); n != 1 {
		t.Errorf("it ran %d times", n)
	}
}

// streamHas reports whether a text stands in a message of a stream.
func streamHas(t *testing.T, url, stream, text string) bool {
	t.Helper()
	s, err := jetStream(t, url).Stream(t.Context(), stream)
	if err != nil {
		t.Fatal(err)
	}
	if s.CachedInfo().State.Msgs == 0 {
		t.Fatalf("%s is empty", stream)
	}
	for seq := s.CachedInfo().State.FirstSeq; seq <= s.CachedInfo().State.LastSeq; seq++ {
		m, err := s.GetMsg(t.Context(), seq)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(m.Data, []byte(text)) {
			return true
		}
	}
	return false
}
