package broker

import (
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/aibridge/aibridge/broker/packet"
	"github.com/aibridge/aibridge/internal/clock"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/internal/gate"
)

// gated is a broker behind a gate.
func gated(l gate.Limits, c *clock.Clock) func(*Options) {
	return func(o *Options) { o.Clock, o.Gate = c, gate.New(l, c, nil) }
}

// Silent sockets, however many, do not keep out who has something to say.
func TestSilentSocketsShutNobodyOut(t *testing.T) {
	everywhere(t, func(t *testing.T, readers int) {
		c := clock.New()
		n := newNode(t, readers, gated(gate.Limits{Connections: 40, Strangers: 10, PerAddress: 10}, c))
		resident := n.connect(5, "resident")
		var silent []net.Conn
		for range 100 {
			silent = append(silent, n.dial(5).nc)
		}
		eventually.Holds(t, "no more are let in", func() bool { return n.stats.door("mqtt").turnedAway.Load() >= 90 })
		c.Advance(3 * time.Second) // less than they have for CONNECT
		n.connect(5, "guest").quiet()
		resident.quiet()
		for _, nc := range silent {
			_ = nc.Close()
		}
	})
}

// A client that comes back finds room for itself when there is none for another.
func TestAClientThatComesBackHasItsOwnPlace(t *testing.T) {
	everywhere(t, func(t *testing.T, readers int) {
		n := newNode(t, readers, gated(gate.Limits{Connections: 8, Strangers: 4, PerAddress: 4}, clock.New()))
		var last *peer
		for i := range 4 {
			last = n.connect(5, fmt.Sprint("device-", i), kept)
		}
		if p := n.tryConnect(5, "one too many", kept); p.connack.Reason != packet.QuotaExceeded {
			t.Fatalf("a fifth: %v", p.connack.Reason)
		}
		if p := n.tryConnect(4, "one too many"); p.connack.Reason != 3 {
			t.Fatalf("a fifth with 3.1.1: %v", p.connack.Reason)
		}
		back := n.connect(5, "device-3", kept)
		if r := last.ended(); r != packet.SessionTakenOver {
			t.Errorf("the old one ended by %v", r)
		}
		back.quiet()
		n.leave(back, "device-3")
		eventually.Holds(t, "there is room for another", func() bool {
			p := n.tryConnect(5, "another")
			return p.connack.Reason == packet.Success
		})
		if n.session(home("one too many")) != nil {
			t.Error("a refused client has a session")
		}
	})
}
