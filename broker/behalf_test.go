package broker

import (
	"context"
	"fmt"
	"testing"

	"github.com/aibridge/aibridge/broker/packet"
	"github.com/aibridge/aibridge/protocol"
)

// Messages published for a client are judged, inspected and handled as its own,
// retained where that is wanted, and on record once they are stored.
func TestMessagesArePublishedForClients(t *testing.T) {
	everywhere(t, func(t *testing.T, readers int) {
		journal := new(MemoryJournal)
		durable := func(o *Options) { o.Journal = journal }
		n := startNode(t, readers, durable)
		handled := make(chan string, 8)
		n.Handle("a/#", func(p *Publication) { handled <- fmt.Sprint(p.Client.ID, " ", string(p.Payload), " ", p.Absent) })
		n.Inspect("a/#", func(i *Inspection) Verdict {
			if string(i.Payload) == "bad" {
				return Verdict{Reason: byte(packet.PayloadFormatInvalid), Text: "bad"}
			}
			return Verdict{}
		})
		away := NewClient("away", &protocol.Principal{ID: "user:", Space: protocol.DefaultSpace})
		say := func(topic, payload string, retain bool) Verdict {
			v, stored := n.PublishFor(away, protocol.Message{Topic: topic, Payload: []byte(payload), QoS: 1, Retain: retain})
			if err := stored(t.Context()); err != nil {
				t.Error(err)
			}
			return v
		}
		hears := n.connect(5, "hears", kept)
		hears.subscribe("#", 1)
		for topic, want := range map[string]packet.Reason{"forbidden/x": packet.NotAuthorized, "a/+": packet.TopicNameInvalid} {
			if v := say(topic, "x", false); packet.Reason(v.Reason) != want {
				t.Errorf("%s: %+v", topic, v)
			}
		}
		if v := say("a/b", "bad", false); packet.Reason(v.Reason) != packet.PayloadFormatInvalid {
			t.Errorf("inspected: %+v", v)
		}
		if v := say("a/b", "good", true); !v.Allowed() {
			t.Errorf("refused: %+v", v)
		}
		if got := <-handled; got != "away good true" {
			t.Errorf("handled %q", got)
		}
		hears.take("good")
		n.connect(5, "self").publish(said("a/d", "own", 1))
		if got := <-handled; got != "self own false" {
			t.Errorf("handled %q", got)
		}
		hears.take("own")
		n.leave(hears, "hears")
		if v := say("a/c", "later", false); !v.Allowed() {
			t.Errorf("refused: %+v", v)
		}
		n.stop()
		if v, _ := n.PublishFor(away, protocol.Message{Topic: "a/b"}); v.Allowed() {
			t.Error("a broker that is closed publishes")
		}
		n = startNode(t, readers, durable)
		defer n.stop()
		again := n.connect(5, "hears", kept)
		again.take("later")
		late := n.connect(5, "late")
		late.subscribe("a/b", 0)
		late.take("good")
	})
}

// What a handler holds is stored when the handler says so, and not if that fails.
func TestAMessageForAClientIsStoredOnceItsHandlerHasStoredIt(t *testing.T) {
	everywhere(t, func(t *testing.T, readers int) {
		n := startNode(t, readers, func(o *Options) { o.Journal = new(MemoryJournal) })
		defer n.stop()
		held := make(chan func(Verdict), 1)
		n.Handle("jobs/#", func(p *Publication) { held <- p.Hold() })
		away := NewClient("away", &protocol.Principal{ID: "user:", Space: protocol.DefaultSpace})
		for _, qos := range []byte{0, 1} {
			for reason, want := range map[packet.Reason]protocol.Code{packet.Success: "", packet.ImplementationSpecific: protocol.StoreUnavailable} {
				v, stored := n.PublishFor(away, protocol.Message{Topic: "jobs/1", QoS: qos})
				if !v.Allowed() {
					t.Errorf("refused: %+v", v)
				}
				settle := <-held
				ended, cancel := context.WithCancel(t.Context())
				cancel()
				if err := stored(ended); err == nil {
					t.Error("stored before the handler says so")
				}
				settle(Verdict{Reason: byte(reason)})
				if err := stored(t.Context()); protocol.CodeOf(err) != want {
					t.Errorf("after %s: %v", reason, err)
				}
			}
		}
	})
}
