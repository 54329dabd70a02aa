package client_test

import (
	"testing"

	"github.com/aibridge/aibridge/broker"
	"github.com/aibridge/aibridge/client"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/protocol"
)

func TestCachedAnswerIsGivenUntilSomethingChanges(t *testing.T) {
	t.Parallel()
	b := newBridge(t)
	answer := func(*protocol.Request, *broker.Publication) (any, error) {
		return sum{len(b.asked("skill.discover"))}, nil
	}
	b.on("skill.discover", answer)
	c := b.dial(client.WithCache(), client.WithClientID("me"))
	discover := func(opts ...client.CallOption) int {
		t.Helper()
		return must[sum](t)(client.Call[sum](soon(t), c, "skill.discover", nil, opts...)).Sum
	}
	if first, again := discover(), discover(); first != 1 || again != 1 {
		t.Error("the answer was not kept")
	}
	if discover(client.Fresh()) != 2 || discover() != 2 {
		t.Error("a fresh answer was not taken or not kept")
	}
	must[any](t)(client.Call[any](soon(t), c, "skill.unregister", nil))
	if discover() != 3 {
		t.Error("the client's own change did not drop the answer")
	}
	must[int](t)(b.publish(protocol.Message{Topic: "aibridge/event/agent", Payload: []byte("{}")}))
	eventually.Holds(t, "the event drops the answer", func() bool { return discover() == 4 })

	b.engine.Load().Disconnect(broker.SessionID{Space: protocol.DefaultSpace, Client: "me"}, 0x98, "")
	eventually.Holds(t, "a lost connection drops the answer", func() bool { return discover() == 5 })
}

func TestWithoutOptionNothingIsCached(t *testing.T) {
	t.Parallel()
	b := newBridge(t)
	b.on("skill.discover", func(*protocol.Request, *broker.Publication) (any, error) { return sum{}, nil })
	c := b.dial()
	for range 2 {
		must[sum](t)(client.Call[sum](soon(t), c, "skill.discover", nil))
	}
	if n := len(b.asked("skill.discover")); n != 2 {
		t.Errorf("asked %d times", n)
	}
}
