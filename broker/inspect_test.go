package broker

import (
	"slices"
	"testing"

	"github.com/aibridge/aibridge/broker/packet"
	"github.com/aibridge/aibridge/protocol"
)

// An inspector refuses, tags and replaces messages, and Wills; topics that it does
// not cover stay as they are.
func TestInspectorsJudgeMessages(t *testing.T) {
	everywhere(t, func(t *testing.T, readers int) {
		n := newNode(t, readers)
		n.Inspect("checked/#", func(i *Inspection) Verdict {
			switch string(i.Payload) {
			case "bad":
				return Verdict{Reason: byte(packet.PayloadFormatInvalid), Text: "not as it should be"}
			case "odd":
				i.Tag("odd", "yes")
			case "old":
				i.Replace([]byte("new"))
			}
			return Verdict{}
		})
		for _, version := range []byte{4, 5} {
			for _, to := range []byte{4, 5} {
				from, hears := n.connect(version, "from"), n.connect(to, "hears")
				hears.subscribe("#", 2)
				for qos := range byte(3) {
					say := func(topic, payload string) packet.Reason {
						m := text(topic, payload)
						m.QoS = qos
						return from.publish(m)
					}
					if r := say("checked/x", "bad"); qos > 0 && version == 5 && r != packet.PayloadFormatInvalid {
						t.Errorf("QoS %d: %v", qos, r)
					}
					say("other", "bad")
					hears.take("bad")
					say("checked/x", "odd")
					if got := hears.take("odd"); to == 5 && (len(got.Properties.User) != 1 || string(got.Properties.User[0].Key) != "odd") {
						t.Errorf("tagged %+v", got.Properties.User)
					}
					say("checked", "old")
					hears.take("new")
				}
				n.leave(from, "from")
				n.leave(hears, "hears")
			}
		}
		hears := n.connect(5, "hears")
		hears.subscribe("#", 0)
		for _, payload := range []string{"bad", "old"} {
			dying := n.connect(5, "dying", func(c *packet.Connect) {
				c.HasWill, c.Will = true, packet.Will{Topic: []byte("checked/will"), Payload: []byte(payload)}
			})
			n.cut(dying, "dying")
		}
		hears.take("new")
		hears.quiet()
	})
}

// Handlers are shown a message as inspectors have left it.
func TestHandlersAreShownWhatInspectorsTagged(t *testing.T) {
	everywhere(t, func(t *testing.T, readers int) {
		n := newNode(t, readers)
		n.Inspect("checked/#", func(i *Inspection) Verdict {
			i.Tag("odd", "yes")
			return Verdict{}
		})
		shown := make(chan []protocol.UserProperty, 1)
		n.Handle("checked/#", func(p *Publication) { shown <- slices.Clone(p.UserProperties) })
		from := n.connect(5, "from")
		own, tag := protocol.UserProperty{Key: "own", Value: "too"}, protocol.UserProperty{Key: "odd", Value: "yes"}
		for _, want := range [][]protocol.UserProperty{{tag}, {own, tag}} {
			m := text("checked/x", "odd")
			m.QoS = 1
			if want[0] == own {
				m.Properties.AddUser([]byte(own.Key), []byte(own.Value))
			}
			from.publish(m)
			if got := <-shown; !slices.Equal(got, want) {
				t.Errorf("%v instead of %v", got, want)
			}
		}
	})
}

// An exclusive subscription of one session keeps all others from the same, until it
// ends; plain subscriptions are for everybody.
func TestExclusiveSubscriptions(t *testing.T) {
	everywhere(t, func(t *testing.T, readers int) {
		journal := new(MemoryJournal)
		durable := func(o *Options) { o.Journal = journal }
		n := startNode(t, readers, durable)
		first, second, plain := n.connect(5, "first", kept), n.connect(5, "second"), n.connect(5, "plain")
		m := text("x", "before")
		m.Retain, m.QoS = true, 1 // kept once it is acknowledged
		plain.publish(m)
		first.subscribe("$exclusive/x", 1)
		if got := first.take("before"); string(got.Topic) != "x" {
			t.Errorf("retained on %s", got.Topic)
		}
		first.subscribe("$exclusive/x", 0, func(s *packet.Subscribe) { s.Filters[0].RetainHandling = 2 }) // its own, again
		if r := second.trySubscribe("$exclusive/x", 1)[0]; r != packet.QuotaExceeded {
			t.Errorf("a second one: %v", r)
		}
		if r := second.trySubscribe("$exclusive/forbidden/x", 1)[0]; r != packet.NotAuthorized {
			t.Errorf("without the right: %v", r)
		}
		second.subscribe("$exclusive/y", 1)
		plain.subscribe("x", 0, func(s *packet.Subscribe) { s.Filters[0].RetainHandling = 2 })
		plain.publish(text("x", "now"))
		first.take("now")
		plain.take("now")
		n.leave(first, "first") // its session keeps it, over a restart too
		if r := second.trySubscribe("$exclusive/x", 1)[0]; r != packet.QuotaExceeded {
			t.Errorf("while its client is away: %v", r)
		}
		n.stop()
		n = startNode(t, readers, durable)
		defer n.stop()
		second = n.connect(5, "second")
		if r := second.trySubscribe("$exclusive/x", 1)[0]; r != packet.QuotaExceeded {
			t.Errorf("after a restart: %v", r)
		}
		n.connect(5, "first", func(c *packet.Connect) { c.CleanStart = true })
		second.subscribe("$exclusive/x", 1)
	})
}
