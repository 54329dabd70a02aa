package app_test

import (
	"testing"
	"time"

	"github.com/eclipse/paho.golang/paho"

	"github.com/aibridge/aibridge/internal/app"
	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/internal/clock"
)

// tenMinutes is the life of messages in these tests, in seconds.
const tenMinutes = 600

// passing makes a message one that expires.
func passing(topic, text string) *paho.Publish {
	life := uint32(tenMinutes)
	return &paho.Publish{Topic: topic, Payload: []byte(text), QoS: 1, Properties: &paho.PublishProperties{MessageExpiry: &life}}
}

// isTimely waits for a message that has most of its life before it.
func isTimely(t *testing.T, c *bridgetest.Raw, topic, text string) {
	t.Helper()
	p := c.Next(t)
	if p.Topic != topic || string(p.Payload) != text {
		t.Fatalf("%s heard %q on %s, not %q on %s", c.ID, p.Payload, p.Topic, text, topic)
	}
	// What is left is told in whole seconds, and the renewals that tell the time are under
	// way for some milliseconds.
	if left := p.Properties.MessageExpiry; left == nil || *left > tenMinutes+1 || *left < tenMinutes/2 {
		t.Errorf("%q has another time left for %s than most of %d seconds: %+v", text, c.ID, tenMinutes, p.Properties)
	}
}

// TestWhatExpiresCrossesBridgesWhoseClocksDiffer has sessions with messages move, be
// adopted, and retained messages be read, by bridges whose clocks are an hour apart.
func TestWhatExpiresCrossesBridgesWhoseClocksDiffer(t *testing.T) {
	t.Parallel()
	url := startNATS(t)
	var n [3]*bridgetest.Node
	for i, ahead := range []time.Duration{0, time.Hour, -time.Hour} {
		c := clock.New()
		c.Step(ahead)
		n[i] = bridgetest.StartWith(t, []app.Option{app.WithClock(c)}, beside(t, url, string(rune('a'+i)), n[0]))
	}
	halfAnHour := uint32(1800)
	forHalfAnHour := func(c *paho.Connect) {
		kept(c)
		c.Properties.SessionExpiryInterval = &halfAnHour
	}
	sleepers := []struct {
		client string
		wakes  *bridgetest.Node
	}{{"moves-ahead", n[1]}, {"moves-behind", n[2]}, {"adopted-ahead", n[1]}, {"adopted-behind", n[2]}}
	for _, s := range sleepers {
		sleeper := n[0].Connect(t, s.client, forHalfAnHour)
		sleeper.Listen(t, "news")
		sleeper.Drop()
	}
	speaker := n[0].Connect(t, "speaker")
	retained := passing("state/lamp", "on")
	retained.Retain = true
	for _, p := range []*paho.Publish{passing("news", "today"), retained} {
		if reason := publishes(t, speaker, p); reason >= 0x80 {
			t.Fatalf("%s was answered by %#x", p.Topic, reason)
		}
	}
	reads := func(at *bridgetest.Node) {
		t.Helper()
		reader := at.Connect(t, "reader-"+at.Config.ID)
		reader.Listen(t, "state/lamp")
		isTimely(t, reader, "state/lamp", "on")
		reader.Drop()
	}
	for _, at := range n[1:] {
		reads(at)
		at.Restart(t)
		reads(at)
	}
	for i, s := range sleepers {
		if i == 2 {
			verdict(t, url, "a")
			_ = n[0].Ended(t)
		}
		isTimely(t, s.wakes.Connect(t, s.client, forHalfAnHour), "news", "today")
	}
	for _, at := range n[1:] {
		reads(at)
	}
}
