package broker

import (
	"sync"
	"testing"

	"github.com/aibridge/aibridge/broker/packet"
	"github.com/aibridge/aibridge/protocol"
)

// A link between two brokers, as a cluster would make it.
type wire struct {
	recorder
	mu    sync.Mutex
	other *Broker
}

func (w *wire) to() *Broker {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.other
}

func (w *wire) Publish(to protocol.Recipients, m *protocol.Message) {
	copied := *m
	copied.Payload = append([]byte(nil), m.Payload...)
	w.add("publish %s", m.Topic)
	go w.to().Relayed(to, copied)
}
func (w *wire) Retained(_ protocol.Recipients, m *protocol.Message) { w.add("retained %s", m.Topic) }
func (w *wire) Claim(id SessionID) {
	if o := w.to(); o != nil {
		o.Yield(id)
	}
}

func TestNodesRelayMessagesAndYieldSessions(t *testing.T) {
	here, there := new(wire), new(wire)
	a := newNode(t, 1, func(o *Options) { o.Relay = here })
	b := newNode(t, 1, func(o *Options) { o.Relay = there })
	here.mu.Lock()
	here.other = b.Broker
	here.mu.Unlock()
	there.mu.Lock()
	there.other = a.Broker
	there.mu.Unlock()

	far, near := b.connect(5, "far"), a.connect(5, "near")
	far.subscribe("x", 1)
	m := text("x", "over there")
	m.QoS, m.Retain = 1, true
	near.publish(m)
	far.take("over there")
	late := b.connect(5, "late")
	late.subscribe("x", 0)
	late.take("over there")

	moving := a.connect(5, "moving", kept)
	b.connect(5, "moving", kept)
	if r := moving.ended(); r != packet.SessionTakenOver {
		t.Errorf("told %v", r)
	}
	if _, ok := a.Session(home("moving")); ok {
		t.Error("session is on both nodes")
	}
}
