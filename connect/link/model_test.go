package link

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/aibridge/aibridge/internal/eventually"
)

// TestNothingIsLost holds store and forward against its promise, in both
// directions: whatever breaks, each message that its publisher was told is kept
// arrives, in order; with QoS 2 once.
func TestNothingIsLost(t *testing.T) {
	t.Parallel()
	for _, outbound := range []bool{true, false} {
		t.Run(directionName(outbound), func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) { runModel(t, outbound) })
		})
	}
}

func runModel(t *rapid.T, outbound bool) {
	near, far := newSite(t, "near"), newSite(t, "far")
	wire := newLine(t, far.address)
	c := Config{Name: "far", URL: "mqtt://" + wire.address, Inflight: rapid.IntRange(1, 5).Draw(t, "inflight")}
	rule := []Rule{{Topic: "#", Local: "a/", Remote: "b/", QoS: 2}}
	from, to, say, hear := near, far, "a/x", "b/#"
	if c.Out = rule; !outbound {
		c.Out, c.In = nil, rule
		from, to, say, hear = far, near, "b/x", "a/#"
	}
	near.link(c)
	near.connected()
	publisher, receiver := newClient(from, "publisher", ""), newClient(to, "receiver", hear)
	eventually.Holds(t, "the subscription is on record: nobody keeps what is published without it", func() bool {
		return from.recorded(map[bool]string{true: "link-far", false: "near-far"}[outbound])
	})
	var sent []string
	publish := func(qos byte) {
		text := fmt.Sprintf("%d.%d", qos, len(sent))
		publisher.publish(say, text, qos)
		sent = append(sent, text)
	}
	t.Repeat(map[string]func(*rapid.T){
		"QoS 1": func(*rapid.T) { publish(1) },
		"QoS 2": func(*rapid.T) { publish(2) },
		"several": func(*rapid.T) {
			for i := range 10 {
				publish(byte(1 + i%2))
			}
		},
		"cut":  func(t *rapid.T) { wire.breaksAfter(rapid.IntRange(1, 400).Draw(t, "bytes")) },
		"rest": func(*rapid.T) { wire.rests(true) },
		"heal": func(*rapid.T) { wire.rests(false) },
		"kill the bridge": func(*rapid.T) {
			near.kill()
			near.start()
			again(publisher, receiver, near)
		},
		"kill the remote broker": func(*rapid.T) {
			far.kill()
			far.start()
			again(publisher, receiver, far)
		},
	})
	wire.rests(false)
	publish(2)
	receiver.takes(sent[len(sent)-1])
	judge(t, sent, receiver.texts())
}

// again connects the client whose broker was killed.
func again(publisher, receiver *client, killed *site) {
	for _, c := range []*client{publisher, receiver} {
		if c.site == killed {
			c.connect()
		}
	}
}

// judge compares the messages sent with those that arrived.
func judge(t *rapid.T, sent, got []string) {
	var first []string
	for _, text := range got {
		if !slices.Contains(first, text) {
			first = append(first, text)
		} else if text[0] == '2' {
			t.Errorf("%s arrived twice", text)
		}
	}
	if !slices.Equal(first, sent) {
		t.Errorf("sent %v, arrived %v", sent, first)
	}
}
