package app_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/eclipse/paho.golang/paho"

	"github.com/aibridge/aibridge/internal/app"
	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/protocol"
)

// know waits until a bridge knows that so many work.
func know(t *testing.T, c *bridgetest.Raw, working int) {
	t.Helper()
	eventually.Holds(t, "the bridges that work are known", func() bool {
		count := 0
		for _, m := range members(t, c) {
			if m.Ready && m.State == "working" {
				count++
			}
		}
		return count == working
	})
}

// drain asks for the end of a bridge.
func drain(t *testing.T, c *bridgetest.Raw, id string) *protocol.Response {
	t.Helper()
	return c.Ask(t, bridgetest.Request(protocol.NewID(), "bridge.drain", fmt.Sprintf(`{"bridge_id":%q,"window_seconds":0}`, id)))
}

// isRefused says that a bridge was not drained, and why.
func isRefused(t *testing.T, answer *protocol.Response, code protocol.Code, text string) {
	t.Helper()
	if answer.Err == nil || answer.Err.Code != code || !strings.Contains(answer.Err.Message, text) {
		t.Errorf("answered by %v, not %s with %q", answer.Err, code, text)
	}
}

// TestABridgeThatStopsSendsItsClientsToTheOthers stops one of two bridges that
// work, under a client.
func TestABridgeThatStopsSendsItsClientsToTheOthers(t *testing.T) {
	t.Parallel()
	url := startNATS(t)
	a := together(t, url, "a", nil)
	b := together(t, url, "b", a)
	know(t, b.Caller(t, "caller"), 2)
	client := b.Connect(t, "client")
	b.Stop(t)
	isSentTo(t, client, a)
	onA := a.Caller(t, "caller")
	eventually.Holds(t, "b has left", func() bool { return len(members(t, onA)) == 1 })
}

func isSentTo(t *testing.T, client *bridgetest.Raw, to *bridgetest.Node) {
	t.Helper()
	told := <-client.Dismissed
	if told.ReasonCode != 0x9D || told.Properties == nil || told.Properties.ServerReference != to.MQTT {
		t.Errorf("the client is told %+v %+v", told, told.Properties)
	}
}

// TestABridgeIsDrainedByAnother asks one of two bridges to end the other, which has
// a client, a session that is kept, and a call that takes long.
func TestABridgeIsDrainedByAnother(t *testing.T) {
	t.Parallel()
	url := startNATS(t)
	a := together(t, url, "a", nil)
	b := bridgetest.Start(t, beside(t, url, "b", a), func(c *app.Config) { c.Drain = 60 })
	onA := a.Caller(t, "caller")
	know(t, onA, 2)
	sleeper := b.Connect(t, "sleeper", kept)
	sleeper.Listen(t, "news")
	sleeper.Drop()
	publishes(t, onA, &paho.Publish{Topic: "news", Payload: []byte("while it sleeps"), QoS: 1})
	client := b.Connect(t, "client")
	device := b.Device(t, "lamp", "lamp", `["switch"]`)
	busy := b.Caller(t, "busy")
	busy.Send(t, "aibridge/bridge/request", bridgetest.Request("long", "skill.invoke", invokeLamp))
	asked := device.Invocation(t)

	isRefused(t, drain(t, onA, "nobody"), protocol.NotFound, `no living bridge "nobody", but "a", "b"`)
	answer := drain(t, onA, "b")
	if answer.Err != nil {
		t.Fatal(answer.Err)
	}
	for _, word := range []string{`"id":"b"`, `"others":["a"]`, `"window_seconds":0`} {
		if !strings.Contains(string(answer.Result), word) {
			t.Errorf("the answer lacks %s: %s", word, answer.Result)
		}
	}
	if again := drain(t, onA, "b"); again.Err != nil || !strings.Contains(string(again.Result), `"already":true`) {
		t.Errorf("asked again: %v %s", again.Err, again.Result)
	}
	isRefused(t, drain(t, onA, "a"), protocol.InvalidState, `bridge "a" is the only one that works`)
	eventually.Holds(t, "it is known who works and who drains", func() bool {
		all := members(t, onA)
		return len(all) == 2 && all[0].State == "working" && all[1].State == "draining"
	})
	device.Reply(t, "lamp", asked, map[string]bool{"on": true})
	if answer := busy.Answer(t); answer.Err != nil {
		t.Error(answer.Err)
	}
	isSentTo(t, client, a)
	if err := b.Ended(t); err != nil {
		t.Errorf("the bridge ended with %v", err)
	}
	awake := a.Connect(t, "sleeper", kept)
	if !awake.Connack.SessionPresent {
		t.Error("the session is not there")
	}
	isTold(t, awake, "news", "while it sleeps")
}

// TestOneOfBridgesThatAreDrainedAtOnceStays asks each of two bridges to end, at the
// same time.
func TestOneOfBridgesThatAreDrainedAtOnceStays(t *testing.T) {
	t.Parallel()
	url := startNATS(t)
	a := together(t, url, "a", nil)
	b := together(t, url, "b", a)
	onA, onB := a.Caller(t, "caller-a"), b.Caller(t, "caller-b")
	know(t, onA, 2)
	know(t, onB, 2)
	var asking sync.WaitGroup
	var ofA, ofB *protocol.Response
	asking.Go(func() { ofA = drain(t, onA, "a") })
	asking.Go(func() { ofB = drain(t, onB, "b") })
	asking.Wait()
	switch {
	case ofA.Err == nil && ofB.Err == nil:
		t.Error("both end")
	case ofA.Err == nil:
		isRefused(t, ofB, protocol.InvalidState, "only one that works")
		know(t, onB, 1)
	case ofB.Err == nil:
		isRefused(t, ofA, protocol.InvalidState, "only one that works")
		know(t, onA, 1)
	default: // each saw that the other was about to
		know(t, onA, 2)
	}
}

// TestABridgeHandsOverToAStandby drains the one that works where one does, and what
// cannot be drained.
func TestABridgeHandsOverToAStandby(t *testing.T) {
	t.Parallel()
	url := startNATS(t)
	first := bridgetest.Start(t, func(c *app.Config) { c.NATS.URL, c.ID = url, "first" })
	caller := first.Caller(t, "caller")
	isRefused(t, drain(t, caller, "first"), protocol.InvalidState, `bridge "first" is the only one that works`)
	second := begin(t, url)
	second.says(t, 503, "standby")
	isRefused(t, drain(t, caller, "second"), protocol.InvalidState, `bridge "second" is a standby`)
	if answer := drain(t, caller, "first"); answer.Err != nil {
		t.Fatal(answer.Err)
	}
	if err := first.Ended(t); err != nil {
		t.Errorf("the bridge ended with %v", err)
	}
	<-second.bridge
	second.says(t, 200, "ready")
}

func TestABridgeThatIsAloneIsNotDrained(t *testing.T) {
	t.Parallel()
	only := bridgetest.Start(t)
	isRefused(t, drain(t, only.Caller(t, "caller"), only.Config.ID), protocol.InvalidState, "is in no cluster")
}
