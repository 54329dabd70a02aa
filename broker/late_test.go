package broker

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/aibridge/aibridge/broker/packet"
	"github.com/aibridge/aibridge/internal/eventually"
)

// TestWhoDoesNotKeepUpIsLate looks at a client at several times.
func TestWhoDoesNotKeepUpIsLate(t *testing.T) {
	var log bytes.Buffer
	b := &Broker{log: slog.New(slog.NewTextHandler(&log, nil))}
	c := &conn{b: b, client: &Client{ID: "lazy"}, door: &door{name: "mqtt"}, session: new(session)}
	for i, step := range []struct {
		at              time.Duration
		behind, blocked bool
		caughtUp        bool // since the last look
		since           time.Duration
		slow            bool
		said            int // how often the log was told by then
	}{
		{at: 1 * time.Second},
		{at: 2 * time.Second, behind: true, since: 2 * time.Second},
		{at: 12 * time.Second, behind: true, since: 2 * time.Second},
		{at: 13 * time.Second, blocked: true, since: 2 * time.Second, slow: true, said: 1},
		{at: 14 * time.Second, behind: true, blocked: true, since: 2 * time.Second, slow: true, said: 1},
		{at: 15 * time.Second, behind: true, caughtUp: true, since: 15 * time.Second, said: 1},
		{at: 26 * time.Second, behind: true, since: 15 * time.Second, slow: true, said: 2},
		{at: 27 * time.Second, said: 2},
	} {
		c.session.behind.Store(step.behind)
		if step.caughtUp {
			c.late.caughtUp()
		}
		slow := c.late.look(c, step.blocked, int64(step.at))
		if since := time.Duration(c.late.since.Load()); slow != step.slow || since != step.since {
			t.Errorf("%d: slow %v since %v, want %+v", i, slow, since, step)
		}
		if said := strings.Count(log.String(), "client=lazy"); said != step.said {
			t.Errorf("%d: the log was told %d times, want %d", i, said, step.said)
		}
	}
}

// TestASessionTellsSinceWhenItsClientIsLate has a client acknowledge late.
func TestASessionTellsSinceWhenItsClientIsLate(t *testing.T) {
	n := newNode(t, 1)
	p := n.connect(5, "lazy", kept, property(packet.ReceiveMaximum, 1))
	p.subscribe("t", 1)
	speaker := n.connect(5, "speaker")
	for _, payload := range []string{"one", "two"} {
		m := text("t", payload)
		m.QoS = 1
		speaker.publish(m)
	}
	one := p.receive()
	late := func() bool {
		info, _ := n.Session(home("lazy"))
		return !info.Late.IsZero()
	}
	eventually.Holds(t, "it is late", late)
	p.acknowledge(one)
	p.acknowledge(p.receive())
	eventually.Holds(t, "it has caught up", func() bool { return !late() })
}

// TestASessionTellsWhatOfQoS0FoundNoRoom has a client read nothing.
func TestASessionTellsWhatOfQoS0FoundNoRoom(t *testing.T) {
	n := newNode(t, 1, func(o *Options) { o.Limits.OutboxBytes = 1 << 10 })
	p := n.connect(5, "deaf")
	p.subscribe("t", 0)
	speaker := n.connect(5, "speaker")
	eventually.Holds(t, "something is dropped", func() bool {
		speaker.publish(text("t", strings.Repeat("x", 100_000)))
		info, _ := n.Session(home("deaf"))
		return info.Dropped > 0
	})
}
