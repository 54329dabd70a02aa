package broker

import (
	"context"
	"time"

	"github.com/aibridge/aibridge/broker/packet"
)

// Drain takes no more clients and sends those that are connected to other
// servers, one after the other over the window, so that they do not all arrive
// there at once. MQTT 5 clients get reason 0x9D with the servers that elsewhere
// names for their listener, "HOST:PORT HOST:PORT", or 0x8B if it names none. What
// is kept for them stays. It returns when all were told, or ctx ends;
// [Broker.Close] comes after it.
func (b *Broker) Drain(ctx context.Context, window time.Duration, elsewhere func(listener string) string) {
	b.admitNobody()
	all := b.allConns()
	began := time.Now()
	for i, c := range all {
		due := window * time.Duration(i) / time.Duration(len(all))
		if wait := due - time.Since(began); wait > 0 {
			select {
			case <-time.After(wait):
			case <-ctx.Done():
				return
			}
		}
		b.sendAway(c, elsewhere(c.door.name))
	}
}

// admitNobody lets nobody in any more, by whatever way.
func (b *Broker) admitNobody() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.draining = true
	for l := range b.listeners {
		_ = l.Close()
	}
}

// sendAway ends one connection.
func (b *Broker) sendAway(c *conn, elsewhere string) {
	t := b.getTurn().begin()
	defer b.putTurn(t)
	reason := packet.ServerShuttingDown
	if elsewhere != "" {
		reason = packet.ServerMoved
	}
	t.stop(c, reason, elsewhere, "sent to another server")
}
