package link

import (
	"context"
	"net"
	"testing"

	"github.com/aibridge/aibridge/broker/packet"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/protocol/grant"
)

// A mute is a bridge that takes a session and acknowledges no subscription, like one
// whose store is away.
type mute struct {
	Broker
	asked func() // for a subscription
}

func (m mute) Dial(grant.Grant) (net.Conn, error) {
	ours, theirs := net.Pipe()
	go func() {
		defer ours.Close()
		s := newSide("the link", ours, packet.V5, packet.MaxRemaining)
		for {
			h, _, err := s.read()
			switch {
			case err != nil:
				return
			case h.Type() == packet.CONNECT:
				err = s.say((&packet.Connack{}).Append(nil, packet.V5))
			case h.Type() == packet.SUBSCRIBE:
				m.asked()
			}
			if err != nil {
				return
			}
		}
	}()
	return theirs, nil
}

// TestALinkEndsThoughTheBridgeStoresNothing ends a link while it waits for the
// bridge to store its session.
func TestALinkEndsThoughTheBridgeStoresNothing(t *testing.T) {
	t.Parallel()
	s := New(Options{Links: []Config{{Name: "far", Out: []Rule{{Topic: "x", QoS: 1}}}}, Mark: "here"})
	ctx, cancel := context.WithCancel(t.Context())
	s.Broker = mute{asked: cancel}
	who := &protocol.Principal{ID: "agent", Kind: protocol.KindAgent, Space: protocol.DefaultSpace}
	if err := s.links[0].keep(ctx, who, nil); err == nil {
		t.Error("the bridge kept what it has not confirmed")
	}
}
