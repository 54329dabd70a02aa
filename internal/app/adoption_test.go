package app_test

import (
	"fmt"
	"testing"

	"github.com/eclipse/paho.golang/paho"

	"github.com/aibridge/aibridge/cluster/estate"
	"github.com/aibridge/aibridge/internal/app"
	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/protocol"
)

// leaves has a client connect, with a Will, whose session ends with it.
func leaves(will *paho.WillMessage) func(*paho.Connect) {
	return func(c *paho.Connect) { c.WillMessage = will }
}

// count publishes numbered messages with QoS 1 and 2 in turn, and fails unless each
// is acknowledged.
func count(t *testing.T, c *bridgetest.Raw, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		if reason := publishes(t, c, &paho.Publish{Topic: "news", Payload: fmt.Append(nil, i), QoS: byte(1 + i%2)}); reason != 0 {
			t.Errorf("message %d was answered by %#x", i, reason)
		}
	}
}

// TestSessionsOfADeadBridgeAreServedByOthers kills the bridge that has a kept
// session, and then the one that served it meanwhile.
func TestSessionsOfADeadBridgeAreServedByOthers(t *testing.T) {
	t.Parallel()
	url, n := three(t)
	adopter, other := n[0], n[1]
	if estate.Adopter("c", []string{"a", "b"}) == "b" {
		adopter, other = n[1], n[0]
	}
	sleeper := n[2].Connect(t, "sleeper", kept)
	if _, err := sleeper.Subscribe(t.Context(), &paho.Subscribe{Subscriptions: []paho.SubscribeOptions{{Topic: "news", QoS: 2}}}); err != nil {
		t.Fatal(err)
	}
	sleeper.Drop()
	mourner := other.Connect(t, "mourner")
	mourner.Listen(t, "wills/#")
	n[2].Connect(t, "mourned", leaves(&paho.WillMessage{Topic: "wills/mourned", Payload: []byte("gone"), QoS: 1}))
	first := adopter.Connect(t, "first")
	count(t, first, 0, 4)
	verdict(t, url, "c")
	count(t, first, 4, 8)
	_ = n[2].Ended(t)
	isTold(t, mourner, "wills/mourned", "gone")
	count(t, first, 8, 12)
	verdict(t, url, adopter.Config.ID)
	last := other.Connect(t, "last")
	count(t, last, 12, 16)
	_ = adopter.Ended(t)
	count(t, last, 16, 20)

	n[2].Restart(t)
	count(t, last, 20, 24)
	sleeper = n[2].Connect(t, "sleeper", kept)
	for i := range 24 {
		isTold(t, sleeper, "news", fmt.Sprint(i))
	}
	last.Send(t, "wills/end", "")
	isTold(t, mourner, "wills/end", "")
}

// TestABridgeTakesItsSessionsBackFromWhoServedThem stops and starts a bridge again
// and again while its session is written to.
func TestABridgeTakesItsSessionsBackFromWhoServedThem(t *testing.T) {
	t.Parallel()
	_, n := three(t)
	sleeper := n[2].Connect(t, "sleeper", kept)
	sleeper.Listen(t, "news")
	sleeper.Drop()
	speaker := n[0].Connect(t, "speaker")
	onA := n[0].Caller(t, "asker-a")
	for run := range 3 {
		n[2].Stop(t)
		eventually.Holds(t, "another bridge serves the session", func() bool {
			at := serverOf(t, onA, "sleeper")
			return at != "" && at != n[2].Config.ID
		})
		count(t, speaker, 4*run, 4*run+2)
		n[2].Restart(t)
		for _, asker := range []*bridgetest.Raw{onA, n[2].Caller(t, fmt.Sprint("asker-", run))} {
			if at := serverOf(t, asker, "sleeper"); at != n[2].Config.ID {
				t.Errorf("the session is at %q", at)
			}
		}
		count(t, speaker, 4*run+2, 4*run+4)
	}
	sleeper = n[2].Connect(t, "sleeper", kept)
	for i := range 12 {
		isTold(t, sleeper, "news", fmt.Sprint(i))
	}
}

// serverOf is the bridge that serves a session, "" for nobody.
func serverOf(t *testing.T, asker *bridgetest.Raw, client string) string {
	t.Helper()
	answer := asker.Ask(t, bridgetest.Request(protocol.NewID(), "session.get", fmt.Sprintf(`{"client_id":%q}`, client)))
	if answer.Err != nil {
		return ""
	}
	return field(t, answer.Result, "bridge_id")
}

// TestWhatWasKeptWhileOneBridgeWorkedIsThereWhenAllDo has a session wait, and
// messages be retained, before all bridges work.
func TestWhatWasKeptWhileOneBridgeWorkedIsThereWhenAllDo(t *testing.T) {
	t.Parallel()
	url := startNATS(t)
	a := bridgetest.Start(t, func(c *app.Config) { c.NATS.URL, c.ID = url, "a" })
	sleeper := a.Connect(t, "sleeper", kept)
	sleeper.Listen(t, "news")
	sleeper.Drop()
	speaker := a.Connect(t, "speaker")
	publishes(t, speaker, &paho.Publish{Topic: "state/door", Payload: []byte("open"), QoS: 1, Retain: true})
	publishes(t, speaker, &paho.Publish{Topic: "state/lamp", Payload: []byte("on"), QoS: 1, Retain: true})
	a.Stop(t)
	a.Config.Cluster.Working = "all"
	a.Restart(t)
	b := together(t, url, "b", a)
	onB := b.Caller(t, "asker-b")
	eventually.Holds(t, "one of them serves the session", func() bool { return serverOf(t, onB, "sleeper") != "" })
	sees := func(at *bridgetest.Node, topic, want string) {
		t.Helper()
		reader := at.Connect(t, "reader-"+at.Config.ID)
		reader.Listen(t, topic)
		isTold(t, reader, topic, want)
		reader.Drop()
	}
	eventually.Holds(t, "what was retained is shared", func() bool { return retains(t, a) && retains(t, b) })
	sees(b, "state/lamp", "on")
	publishes(t, b.Connect(t, "other"), &paho.Publish{Topic: "state/door", Payload: []byte("shut"), QoS: 1, Retain: true})
	publishes(t, b.Connect(t, "another"), &paho.Publish{Topic: "state/lamp", QoS: 1, Retain: true})
	a.Restart(t)
	sees(a, "state/door", "shut")
	if retains(t, a) {
		t.Error("a message is back that was taken away")
	}
}

// retains reports whether a bridge has a retained message for state/lamp.
func retains(t *testing.T, n *bridgetest.Node) bool {
	t.Helper()
	c := n.Connect(t, "looker-"+n.Config.ID)
	defer c.Drop()
	c.Listen(t, "state/lamp", "mark")
	c.Send(t, "mark", "") // behind what is retained
	return c.Next(t).Topic != "mark"
}
