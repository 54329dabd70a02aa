package app_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/eclipse/paho.golang/paho"

	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/protocol"
)

// Delayed messages have the rights and the space of their publishers, come with all
// they were published with, and are refused by what is wrong with them.
func TestDelayedMessages(t *testing.T) {
	t.Parallel()
	n, admin, _ := guarded(t)
	client := func(id, space string) *bridgetest.Raw {
		return n.Connect(t, id, withPassword("apikey", keyFor(t, admin, fmt.Sprintf(`{"principal_id":%q,"space_id":%q}`, id, space))))
	}
	says, here, there := client("says", "east"), client("here", "east"), client("there", "west")
	here.Listen(t, "rooms/#")
	there.Listen(t, "rooms/#")
	for topic, want := range map[string]byte{
		"$delayed/now/rooms/1":             0x90,
		"$delayed/5":                       0x90,
		"$delayed/4294968/rooms/1":         0x90,
		"$delayed/1/$SYS/broker":           0x90,
		"$delayed/1/aibridge/bridge/mcp":   0x90,
		"$delayed/1/$delayed/1/rooms/late": 0x90,
		"$delayed/0/rooms/lamp":            0,
	} {
		p := &paho.Publish{Topic: topic, Payload: []byte("on"), Properties: &paho.PublishProperties{ContentType: "text/plain", User: paho.UserProperties{{Key: "k", Value: "v"}}}}
		if got := toldBy(t, says, p); got != want {
			t.Errorf("%s: %#x, want %#x", topic, got, want)
		}
	}
	if got := toldBy(t, says, &paho.Publish{Topic: "$delayed/1/rooms/1", Payload: bytes.Repeat([]byte("x"), 256<<10+1)}); got != 0x95 {
		t.Errorf("a large message: %#x", got)
	}
	p := here.Next(t)
	if p.Topic != "rooms/lamp" || string(p.Payload) != "on" || p.QoS != 1 || p.Properties.ContentType != "text/plain" || len(p.Properties.User) != 1 {
		t.Errorf("got %+v", p)
	}
	other := client("other", "west")
	toldBy(t, other, &paho.Publish{Topic: "rooms/west", Payload: []byte("west")})
	if p := there.Next(t); p.Topic != "rooms/west" {
		t.Errorf("another space hears %s", p.Topic)
	}
}

// A publisher lists and cancels its own messages that wait, an operator those of the
// space, and nobody those of another one.
func TestDelayedMessagesAreCalledBack(t *testing.T) {
	t.Parallel()
	n, admin, _ := guarded(t)
	caller := func(id, rest string) *bridgetest.Raw {
		return n.Caller(t, id, withPassword("apikey", keyFor(t, admin, fmt.Sprintf(`{"principal_id":%q,"space_id":"east"%s}`, id, rest))))
	}
	lamp, fan := caller("lamp", ""), caller("fan", "")
	olga := caller("olga", `,"kind":"operator","roles":["operator"]`)
	stranger := n.Caller(t, "olga", withPassword("apikey", keyFor(t, admin, `{"principal_id":"olga","space_id":"west","kind":"operator","roles":["operator"]}`)))
	for client, topic := range map[*bridgetest.Raw]string{lamp: "$delayed/3600/rooms/lamp", fan: "$delayed/60/rooms/fan"} {
		if code := publishes(t, client, &paho.Publish{Topic: topic, QoS: 1, Payload: []byte("on")}); code != 0 {
			t.Fatalf("%s: %#x", topic, code)
		}
	}
	if code := publishes(t, lamp, &paho.Publish{Topic: "$delayed/1/rooms/lamp", QoS: 1}); code != 0 {
		t.Fatalf("got %#x", code)
	}
	listed := func(c *bridgetest.Raw, params string) (topics, ids []string) {
		t.Helper()
		var r struct {
			Messages []struct {
				ID    string `json:"message_id"`
				Topic string `json:"topic"`
				Due   int64  `json:"due_at"`
				Bytes int    `json:"bytes"`
			} `json:"messages"`
		}
		if err := json.Unmarshal(resultOf(t, c.Ask(t, bridgetest.Request(protocol.NewID(), "delayed.list", params))), &r); err != nil {
			t.Fatal(err)
		}
		for _, m := range r.Messages {
			if m.Bytes == 0 {
				continue // the one that is due soon
			}
			topics, ids = append(topics, m.Topic), append(ids, m.ID)
		}
		return topics, ids
	}
	if topics, _ := listed(stranger, `{}`); len(topics) != 0 {
		t.Errorf("another space sees %v", topics)
	}
	if topics, _ := listed(lamp, `{}`); !slices.Equal(topics, []string{"rooms/lamp"}) {
		t.Errorf("the lamp sees %v", topics)
	}
	topics, ids := listed(olga, `{}`)
	if !slices.Equal(topics, []string{"rooms/fan", "rooms/lamp"}) {
		t.Fatalf("the operator sees %v", topics)
	}
	if topics, _ := listed(olga, `{"principal":"fan"}`); !slices.Equal(topics, []string{"rooms/fan"}) {
		t.Errorf("of the fan the operator sees %v", topics)
	}
	cancelled := func(c *bridgetest.Raw, id string) protocol.Code {
		t.Helper()
		answer := c.Ask(t, bridgetest.Request(protocol.NewID(), "delayed.cancel", fmt.Sprintf(`{"message_id":%q}`, id)))
		return protocol.CodeOf(errorOf(answer))
	}
	for _, c := range []*bridgetest.Raw{lamp, stranger} {
		if got := cancelled(c, ids[0]); got != protocol.NotFound {
			t.Errorf("somebody else cancels the message of the fan: %s", got)
		}
	}
	if got := cancelled(fan, ids[0]); got != "" {
		t.Errorf("the fan cancels its message: %s", got)
	}
	if got := cancelled(fan, ids[0]); got != protocol.NotFound {
		t.Errorf("the fan cancels its message again: %s", got)
	}
	if got := cancelled(olga, ids[1]); got != "" {
		t.Errorf("the operator cancels the message of the lamp: %s", got)
	}
	if topics, _ := listed(olga, `{}`); len(topics) != 0 {
		t.Errorf("there are still %v", topics)
	}
}
