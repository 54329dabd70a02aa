package client_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/aibridge/aibridge/client"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/protocol"
)

// collect subscribes and hands messages to a channel.
func collect(t *testing.T, c *client.Client, filter string) (<-chan client.Message, *client.Subscription) {
	t.Helper()
	got := make(chan client.Message, 100)
	s, err := c.Subscribe(soon(t), filter, func(_ context.Context, m client.Message) { got <- m })
	if err != nil {
		t.Fatal(err)
	}
	return got, s
}

func next(t *testing.T, messages <-chan client.Message) client.Message {
	t.Helper()
	select {
	case m := <-messages:
		return m
	case <-time.After(patience):
		t.Fatal("no message")
		return client.Message{}
	}
}

func TestMessagesArriveInOrderWithTheirProperties(t *testing.T) {
	t.Parallel()
	b := newBridge(t)
	got, _ := collect(t, b.dial(), "room/+/temp")
	sender := b.dial()
	for i := range 20 {
		err := sender.Publish(soon(t), client.Message{
			Topic: "room/1/temp", Payload: fmt.Append(nil, i), QoS: 1, ContentType: "text/plain",
			ResponseTopic: "r", CorrelationData: []byte("c"), Expiry: 90 * time.Second,
			UserProperties: []client.UserProperty{{Key: "k", Value: "v"}},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for i := range 20 {
		m := next(t, got)
		if string(m.Payload) != fmt.Sprint(i) || m.Topic != "room/1/temp" || m.ContentType != "text/plain" || m.ResponseTopic != "r" ||
			string(m.CorrelationData) != "c" || m.Property("k") != "v" || m.Property("none") != "" || m.Expiry == 0 || m.QoS != 1 {
			t.Fatalf("message %d: %+v", i, m)
		}
	}
}

func TestSubscriptionOutlivesTheConnection(t *testing.T) {
	t.Parallel()
	b := newBridge(t)
	got, _ := collect(t, b.dial(client.WithClientID("me")), "x")
	b.stop()
	b.start()
	eventually.Holds(t, "x is subscribed to again", func() bool {
		n, err := b.publish(protocol.Message{Topic: "x", QoS: 1})
		return err == nil && n == 1
	})
	next(t, got)
}

func TestClosedSubscriptionHearsNothing(t *testing.T) {
	t.Parallel()
	b := newBridge(t)
	c := b.dial()
	first, one := collect(t, c, "x")
	second, two := collect(t, c, "x")
	if err := one.Close(soon(t)); err != nil {
		t.Fatal(err)
	}
	if n := must[int](t)(b.publish(protocol.Message{Topic: "x"})); n != 1 {
		t.Errorf("%d receivers", n)
	}
	next(t, second)
	if err := two.Close(soon(t)); err != nil {
		t.Fatal(err)
	}
	if err := two.Close(soon(t)); err != nil {
		t.Fatal(err)
	}
	if n := must[int](t)(b.publish(protocol.Message{Topic: "x"})); n != 0 {
		t.Errorf("%d receivers", n)
	}
	if len(first) != 0 {
		t.Error("the first subscription heard something")
	}
}

func TestSlowHandlerLosesMessagesAndHoldsUpNobody(t *testing.T) {
	t.Parallel()
	b := newBridge(t)
	b.on("math.add", add)
	c := b.dial()
	release := make(chan struct{})
	slow, err := c.Subscribe(soon(t), "x", func(ctx context.Context, _ client.Message) {
		select {
		case <-release:
		case <-ctx.Done():
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	for range 1500 {
		if _, err := b.publish(protocol.Message{Topic: "x"}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := client.Call[sum](soon(t), c, "math.add", nil); err != nil {
		t.Fatal(err)
	}
	if slow.Dropped() == 0 {
		t.Error("nothing was dropped")
	}
	close(release)
}

func TestRefusalsAreErrors(t *testing.T) {
	t.Parallel()
	b := newBridge(t)
	c := b.dial()
	_, err := c.Subscribe(soon(t), "forbidden/x", nil)
	if e := expectCode(t, err, protocol.PermissionDenied); e.Message != "the bridge refuses the subscription to forbidden/x: not yours" {
		t.Error(e.Message)
	}
	for qos := byte(1); qos <= 2; qos++ {
		expectCode(t, c.Publish(soon(t), client.Message{Topic: "forbidden/x", QoS: qos}), protocol.PermissionDenied)
	}
	_, err = c.Subscribe(soon(t), "a/#/b", nil)
	expectCode(t, err, protocol.InvalidParameter)
	expectCode(t, c.Publish(soon(t), client.Message{Topic: "a/#"}), protocol.InvalidParameter)
	expectCode(t, c.Publish(soon(t), client.Message{Topic: "a", QoS: 3}), protocol.InvalidParameter)
}

func TestChannelMembersTalk(t *testing.T) {
	t.Parallel()
	b := newBridge(t)
	c := b.dial()
	room := must[*client.Channel](t)(c.Channel("room"))
	got := make(chan client.Message, 1)
	_, err := room.Subscribe(soon(t), "#", func(_ context.Context, m client.Message) { got <- m })
	if err != nil {
		t.Fatal(err)
	}
	if err := room.Publish(soon(t), "light/state", client.Message{Payload: []byte("on"), QoS: 1}); err != nil {
		t.Fatal(err)
	}
	if m := next(t, got); m.Topic != "light/state" || string(m.Payload) != "on" {
		t.Errorf("%+v", m)
	}
	_, err = c.Channel("a/b")
	expectCode(t, err, protocol.InvalidParameter)
}

func TestAgentIsWatchedByItsCard(t *testing.T) {
	t.Parallel()
	b := newBridge(t)
	c := b.dial()
	must[int](t)(b.publish(protocol.Message{Topic: "aibridge/agent/a/card", Retain: true, QoS: 1,
		Payload: []byte(`{"agent_id":"a","status":"online","type":"end_agent","skills":[{"skill_id":"s"}]}`)}))
	cards := make(chan client.Card, 10)
	if _, err := c.WatchAgent(soon(t), "+", func(_ context.Context, card client.Card) { cards <- card }); err != nil {
		t.Fatal(err)
	}
	if card := <-cards; !card.Online() || card.AgentID != "a" || card.Skills[0].ID != "s" {
		t.Errorf("%+v", card)
	}
	must[int](t)(b.publish(protocol.Message{Topic: "aibridge/agent/a/card", Payload: []byte("nonsense")}))
	must[int](t)(b.publish(protocol.Message{Topic: "aibridge/agent/a/card", Retain: true, QoS: 1}))
	if card := <-cards; card.Online() || card.AgentID != "a" {
		t.Errorf("%+v", card)
	}
}
