package app_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/eclipse/paho.golang/paho"

	"github.com/aibridge/aibridge/internal/bridgetest"
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
