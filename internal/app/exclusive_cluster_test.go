package app_test

import (
	"testing"

	"github.com/eclipse/paho.golang/paho"

	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/internal/eventually"
)

// quotaExceeded is the reason of a subscription that another client has alone.
const quotaExceeded = 0x97

// wantsAlone subscribes to $exclusive/TOPIC and returns the reason of the answer.
func wantsAlone(t testing.TB, c *bridgetest.Raw, topic string) byte {
	t.Helper()
	answer, err := c.Subscribe(t.Context(), &paho.Subscribe{Subscriptions: []paho.SubscribeOptions{{Topic: "$exclusive/" + topic, QoS: 1}}})
	if answer == nil {
		t.Fatal(err)
	}
	return answer.Reasons[0]
}

// getsAlone subscribes to $exclusive/TOPIC until that is granted.
func getsAlone(t testing.TB, c *bridgetest.Raw, topic string) {
	t.Helper()
	eventually.Holds(t, "the topic is free", func() bool {
		reason := wantsAlone(t, c, topic)
		if reason > 2 && reason != quotaExceeded {
			t.Fatalf("refused with %#x", reason)
		}
		return reason <= 2
	})
}

func givesUp(t testing.TB, c *bridgetest.Raw, topic string) {
	t.Helper()
	if _, err := c.Unsubscribe(t.Context(), &paho.Unsubscribe{Topics: []string{"$exclusive/" + topic}}); err != nil {
		t.Fatal(err)
	}
}

// TestOneSessionOfAllBridgesHasATopicAlone subscribes at three bridges to the same topic
// while its holder leaves it, ends, moves and sleeps.
func TestOneSessionOfAllBridgesHasATopicAlone(t *testing.T) {
	t.Parallel()
	_, n := three(t)
	first, second, plain := n[0].Connect(t, "first", kept), n[1].Connect(t, "second"), n[2].Connect(t, "plain")
	refused := func(c *bridgetest.Raw, when string) {
		t.Helper()
		if reason := wantsAlone(t, c, "jobs"); reason != quotaExceeded {
			t.Fatalf("%s: %#x", when, reason)
		}
	}
	granted := func(c *bridgetest.Raw, when string) {
		t.Helper()
		if reason := wantsAlone(t, c, "jobs"); reason != 1 {
			t.Fatalf("%s: %#x", when, reason)
		}
	}
	granted(first, "nobody has it")
	refused(second, "another has it")
	granted(first, "its own, again")
	plain.Listen(t, "jobs")
	publishes(t, second, &paho.Publish{Topic: "jobs", Payload: []byte("one"), QoS: 1})
	isTold(t, first, "jobs", "one")
	isTold(t, plain, "jobs", "one")

	givesUp(t, first, "jobs")
	granted(second, "the first has given it up")
	refused(first, "the second has it")
	second.Drop() // its session ends with it
	getsAlone(t, first, "jobs")

	first = n[1].Connect(t, "first", kept) // its session moves
	third := n[2].Connect(t, "third")
	refused(third, "its session has moved")
	first.Drop()
	refused(third, "its client is away")
	publishes(t, third, &paho.Publish{Topic: "jobs", Payload: []byte("two"), QoS: 1})
	first = n[2].Connect(t, "first", kept)
	isTold(t, first, "jobs", "two")
	givesUp(t, first, "jobs")
	granted(third, "the first has given it up where it moved to")
	third.Drop()

	getsAlone(t, first, "jobs")
	first = n[0].Connect(t, "first", func(c *paho.Connect) { c.CleanStart = false }) // its session ends with its client from now on
	fourth := n[1].Connect(t, "fourth")
	refused(fourth, "the session moved, and is not kept any more")
	first.Drop()
	getsAlone(t, fourth, "jobs")
}

// TestATopicOfADeadBridgesClientIsFree declares a bridge dead two of whose clients have
// topics alone: one with a session that is kept, one without.
func TestATopicOfADeadBridgesClientIsFree(t *testing.T) {
	t.Parallel()
	url, n := three(t)
	brief := func(c *paho.Connect) {
		seconds := uint32(2)
		c.Properties = &paho.ConnectProperties{SessionExpiryInterval: &seconds}
	}
	for id, keeps := range map[string]func(*paho.Connect){"kept": kept, "brief": brief, "clean": func(*paho.Connect) {}} {
		if reason := wantsAlone(t, n[2].Connect(t, id, keeps), "of/"+id); reason != 1 {
			t.Fatalf("%s: %#x", id, reason)
		}
	}
	other := n[0].Connect(t, "other")
	verdict(t, url, "c")
	_ = n[2].Ended(t)
	getsAlone(t, other, "of/clean")
	getsAlone(t, other, "of/brief") // once its session has expired where it is served
	if reason := wantsAlone(t, other, "of/kept"); reason != quotaExceeded {
		t.Fatalf("the session of a dead bridge has lost its topic: %#x", reason)
	}
	publishes(t, other, &paho.Publish{Topic: "of/kept", Payload: []byte("waits"), QoS: 1})
	holder := n[1].Connect(t, "kept", kept)
	isTold(t, holder, "of/kept", "waits")
	n[2].Restart(t)
	late := n[2].Connect(t, "late")
	if reason := wantsAlone(t, late, "of/kept"); reason != quotaExceeded {
		t.Fatalf("the bridge that came back gave the topic away: %#x", reason)
	}
	givesUp(t, holder, "of/kept")
	getsAlone(t, late, "of/kept")
}
