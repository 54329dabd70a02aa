package broker

import (
	"testing"
	"time"

	"github.com/aibridge/aibridge/broker/packet"
	"github.com/aibridge/aibridge/internal/clock"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/protocol"
)

// looked returns when the timers have looked everything over, twice, so that the
// second time began after the call.
func (n *node) looked() {
	n.t.Helper()
	from := n.timers.looks.Load()
	eventually.Holds(n.t, "the timers have looked everything over", func() bool { return n.timers.looks.Load() >= from+2 })
}

// ticking is the clock of a broker under test.
func ticking(c *clock.Clock) func(*Options) { return func(o *Options) { o.Clock = c } }

func TestAClockThatIsSetDisconnectsNobody(t *testing.T) {
	for name, step := range map[string]time.Duration{"forward": time.Hour, "back": -time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := clock.New()
			n := newNode(t, 1, ticking(c))
			listener := n.connect(5, "listener", func(c *packet.Connect) { c.KeepAlive = 60 })
			listener.subscribe("status/#", 1)
			device := n.connect(5, "device", offline("status/device"), func(c *packet.Connect) { c.KeepAlive = 60 })
			silent := n.dial(5) // says nothing, and has time for that
			away := n.connect(5, "away", property(packet.SessionExpiry, 1800), offline("status/away"), func(c *packet.Connect) {
				c.CleanStart = false
				c.Will.Properties.SetNumber(packet.WillDelay, 900)
			})
			away.subscribe("x", 1)
			n.cut(away, "away")
			m := text("x", "still good")
			m.QoS = 1
			m.Properties.SetNumber(packet.MessageExpiry, 600)
			device.publish(m)

			c.Step(step)
			n.looked()

			device.quiet()
			listener.quiet() // no Will
			back := n.connect(5, "away", kept)
			if !back.connack.SessionPresent {
				t.Error("the session is gone")
			}
			got := back.take("still good")
			if left := got.Properties.Number(packet.MessageExpiry, 0); left < 500 || left > 600 {
				t.Errorf("%d seconds are left of 600", left)
			}
			silent.send((&packet.Connect{Version: 5, CleanStart: true, ClientID: []byte("silent")}).Append(nil))
			silent.expect(packet.CONNACK)
		})
	}
}

func TestTimePassesWhateverTheClockSays(t *testing.T) {
	c := clock.New()
	n := newNode(t, 1, ticking(c))
	listener := n.connect(5, "listener")
	listener.subscribe("status/#", 1)
	device := n.connect(5, "device", offline("status/device"), func(c *packet.Connect) { c.KeepAlive = 60 })
	n.cut(n.connect(5, "away", kept), "away")
	c.Step(-2 * time.Hour)
	c.Advance(time.Hour)
	if r := device.ended(); r != packet.KeepAliveTimeout {
		t.Errorf("ended by %v, want the keep alive", r)
	}
	listener.take("offline")
	eventually.Holds(t, "the session has expired", func() bool { return n.session(home("away")) == nil })
}

// A credential is good until a date, however the clock came to it.
func TestACredentialExpiresByTheCalendar(t *testing.T) {
	c := clock.New()
	until := c.Now().Add(30 * time.Minute)
	n := newNode(t, 1, ticking(c), func(o *Options) {
		o.Recognise = func(shown Credentials) *protocol.Principal {
			return &protocol.Principal{ID: "user:", Expires: until}
		}
	})
	p := n.connect(5, "device")
	n.looked()
	p.quiet()
	c.Step(time.Hour) // as after a sleep
	if r := p.ended(); r != packet.NotAuthorized {
		t.Errorf("ended by %v", r)
	}
}

// restarted tells what a broker with a clock that is ahead finds of a session
// that was left with a clock that is not.
func restarted(t *testing.T, expiry uint32, set time.Duration) *node {
	t.Helper()
	journal := new(MemoryJournal)
	before := startNode(t, 1, func(o *Options) { o.Journal = journal })
	p := before.connect(5, "away", property(packet.SessionExpiry, expiry), func(c *packet.Connect) { c.CleanStart = false })
	before.cut(p, "away")
	before.stop()
	c := clock.New()
	c.Step(set)
	after := newNode(t, 1, ticking(c), func(o *Options) { o.Journal = journal })
	after.looked()
	return after
}

func TestAStoredDeadlineIsTheCalendars(t *testing.T) {
	if n := restarted(t, 1800, time.Hour); n.session(home("away")) != nil {
		t.Error("an hour later a session of half an hour is there")
	}
	// A clock that was set back a day does not make half an hour a day.
	n := restarted(t, 1800, -24*time.Hour)
	if left := time.Duration(n.session(home("away")).expires - n.clock.Steady()); left > 30*time.Minute {
		t.Errorf("%v are left of half an hour", left)
	}
}

// A computer without a clock of its own starts in the past and is told the
// time later.
func TestDeadlinesAreStoredAgainWhenTheClockIsSet(t *testing.T) {
	journal := new(MemoryJournal)
	c := clock.New()
	c.Step(-30 * 24 * time.Hour)
	before := startNode(t, 1, ticking(c), func(o *Options) { o.Journal = journal })
	before.cut(before.connect(5, "away", kept), "away")
	from := before.connect(5, "from")
	m := text("x", "still good")
	m.QoS, m.Retain = 1, true
	m.Properties.SetNumber(packet.MessageExpiry, 600)
	from.publish(m)
	before.looked()
	c.Step(30 * 24 * time.Hour)
	before.looked()
	before.stop()
	after := newNode(t, 1, func(o *Options) { o.Journal = journal })
	if !after.connect(5, "away", kept).connack.SessionPresent {
		t.Error("the session is gone")
	}
	p := after.connect(5, "p")
	p.subscribe("x", 1)
	p.take("still good")
}
