package broker

import (
	"bytes"
	"context"
	"sync/atomic"
	"testing"

	"github.com/aibridge/aibridge/broker/packet"
	"github.com/aibridge/aibridge/internal/eventually"
)

// A closableJournal stores nothing while its gate is shut.
type closableJournal struct {
	*MemoryJournal
	shut atomic.Bool
	open chan struct{} // closed when it is so again
}

func (j *closableJournal) Write(ctx context.Context, keyed []KeyedValue, entry []byte) (uint64, error) {
	if j.shut.Load() {
		select {
		case <-j.open:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	return j.MemoryJournal.Write(ctx, keyed, entry)
}

// owing is a broker that is drained while it owes a client acknowledgements: a journal
// has yet to store what they are for. stored lets it.
func owing(t *testing.T, readers int, ctx context.Context) (n *node, client *peer, stored func(), drained chan struct{}) {
	t.Helper()
	return owingUntil(t, readers, func(n *node) {
		n.Drain(ctx, 0, func(string) string { return "elsewhere:1883" })
	})
}

// owingUntil is a broker that does something while it owes a client acknowledgements.
func owingUntil(t *testing.T, readers int, do func(n *node)) (n *node, client *peer, stored func(), done chan struct{}) {
	t.Helper()
	journal := &closableJournal{MemoryJournal: new(MemoryJournal), open: make(chan struct{})}
	n = newNode(t, readers, func(o *Options) { o.Journal = journal })
	n.absent("absent", "x/#")
	client = n.connect(packet.V5, "client")
	journal.shut.Store(true)
	for id, qos := range map[uint16]byte{1: 1, 2: 2} {
		m := text("x/y", "before")
		m.QoS, m.PacketID = qos, id
		client.send(m.Append(nil, packet.V5))
	}
	c := n.session(home("client")).conn.Load()
	eventually.Holds(t, "both are owed", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return len(c.owed) == 2
	})
	done = make(chan struct{})
	go func() {
		defer close(done)
		do(n)
	}()
	eventually.Holds(t, "it is to leave", func() bool { return c.phase.Load() != phaseOpen })
	return n, client, func() { close(journal.open) }, done
}

// answers are the acknowledgements that the client is owed.
func (p *peer) answers() {
	p.t.Helper()
	for want := map[uint16]packet.Type{1: packet.PUBACK, 2: packet.PUBREC}; len(want) > 0; {
		h, body := p.packet()
		typ := h.Type()
		var a packet.Ack
		if err := a.Decode(packet.V5, typ, body); err != nil || want[a.PacketID] != typ || a.Reason.Failed() {
			p.t.Fatalf("%v %+v: %v", typ, a, err)
		}
		delete(want, a.PacketID)
	}
}

// TestAClientOfABrokerThatClosesGetsWhatItIsOwed closes a broker that has acknowledgements
// to make: they come before the end of the connection.
func TestAClientOfABrokerThatClosesGetsWhatItIsOwed(t *testing.T) {
	everywhere(t, func(t *testing.T, readers int) {
		_, client, stored, closed := owingUntil(t, readers, func(n *node) {
			if err := n.Close(t.Context()); err != nil {
				t.Error(err)
			}
		})
		stored()
		client.answers()
		var d packet.Disconnect
		if err := d.Decode(packet.V5, client.expect(packet.DISCONNECT)); err != nil || d.Reason != packet.ServerShuttingDown {
			t.Errorf("DISCONNECT %+v: %v", d, err)
		}
		<-closed
	})
}

// TestABrokerClosesThoughItOwesForEver ends the patience with what a client is owed.
func TestABrokerClosesThoughItOwesForEver(t *testing.T) {
	ctx, end := context.WithCancel(t.Context())
	_, client, stored, closed := owingUntil(t, 2, func(n *node) { _ = n.Close(ctx) })
	end()
	client.expect(packet.DISCONNECT)
	stored()
	<-closed
}

// TestAClientThatIsSentAwayGetsWhatItIsOwed drains a broker that has acknowledgements to
// make: they come before the client is sent away, and what it publishes meanwhile is not
// taken.
func TestAClientThatIsSentAwayGetsWhatItIsOwed(t *testing.T) {
	everywhere(t, func(t *testing.T, readers int) {
		n, client, stored, drained := owing(t, readers, t.Context())
		m := text("x/y", "after")
		m.QoS, m.PacketID = 1, 3
		client.send(append(m.Append(nil, packet.V5), byte(packet.PINGREQ)<<4, 0))
		client.expect(packet.PINGRESP)
		stored()
		client.answers()
		var d packet.Disconnect
		if err := d.Decode(packet.V5, client.expect(packet.DISCONNECT)); err != nil || d.Reason != packet.ServerMoved || !bytes.Equal(d.Properties.Bytes(packet.ServerReference), []byte("elsewhere:1883")) {
			t.Errorf("DISCONNECT %+v: %v", d, err)
		}
		<-drained
		s := n.session(home("absent"))
		s.mu.Lock()
		defer s.mu.Unlock()
		if got := s.queue.len(); got != 2 {
			t.Errorf("%d messages were taken", got)
		}
	})
}

// TestAClientIsSentAwayThoughItIsOwedForEver ends the patience with what a client is
// owed.
func TestAClientIsSentAwayThoughItIsOwedForEver(t *testing.T) {
	ctx, end := context.WithCancel(t.Context())
	_, client, stored, drained := owing(t, 2, ctx)
	end()
	client.expect(packet.DISCONNECT)
	<-drained
	stored()
}

// TestNobodyIsWaitedForWhoHasGone has a client leave by itself that is owed something.
func TestNobodyIsWaitedForWhoHasGone(t *testing.T) {
	_, client, stored, drained := owing(t, 2, t.Context())
	client.nc.Close()
	<-drained
	stored()
}
