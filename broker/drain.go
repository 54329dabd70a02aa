package broker

import (
	"context"
	"time"

	"github.com/aibridge/aibridge/broker/packet"
)

// lastAnswers is the time that what clients are owed may take once they are to go.
const lastAnswers = 2 * time.Second

// Drain takes no more clients and sends those that are connected to other
// servers, one after the other over the window, so that they do not all arrive
// there at once. MQTT 5 clients get reason 0x9D with the servers that elsewhere
// names for their listener, "HOST:PORT HOST:PORT", or 0x8B if it names none. What
// is kept for them stays. A client that is owed acknowledgements gets them first: what
// it publishes from then on is not taken, so that nothing is that it would send again.
// It returns when all were told, or ctx ends; [Broker.Close] comes after it.
func (b *Broker) Drain(ctx context.Context, window time.Duration, elsewhere func(listener string) string) {
	b.admitNobody()
	all := b.allConns()
	began := time.Now()
	ctx, cancel := context.WithDeadline(ctx, began.Add(window+lastAnswers))
	defer cancel()
	var owing []*conn
	defer func() { b.dismissAll(ctx, owing) }()
	for i, c := range all {
		due := window * time.Duration(i) / time.Duration(len(all))
		if wait := due - time.Since(began); wait > 0 {
			select {
			case <-time.After(wait):
			case <-ctx.Done():
				return
			}
		}
		f := newFarewell("sent to another server")
		if f.text = elsewhere(c.door.name); f.text != "" {
			f.reason = packet.ServerMoved
		}
		if !b.sendAway(c, f) {
			owing = append(owing, c)
		}
	}
}

// dismiss ends all connections as the broker closes. A client that is owed
// acknowledgements gets them first, unless that takes too long.
func (b *Broker) dismiss(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, lastAnswers)
	defer cancel()
	var owing []*conn
	for _, c := range b.allConns() {
		if !b.sendAway(c, newFarewell(packet.ServerShuttingDown.String())) {
			owing = append(owing, c)
		}
	}
	b.dismissAll(ctx, owing)
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

// A farewell is the last word to a client, once it is owed nothing any more.
type farewell struct {
	reason packet.Reason
	text   string
	why    string        // it is said, as the log has it
	said   chan struct{} // closed when it is said, or the connection is gone
}

// newFarewell is one of a server that shuts down.
func newFarewell(why string) *farewell {
	return &farewell{reason: packet.ServerShuttingDown, why: why, said: make(chan struct{})}
}

// over tells whoever waits that the farewell is said, or need not be.
func (f *farewell) over() {
	if f != nil {
		close(f.said)
	}
}

// sendAway ends one connection, and reports false if that waits for what the client is
// owed.
func (b *Broker) sendAway(c *conn, f *farewell) bool {
	t := b.getTurn().begin()
	defer b.putTurn(t)
	c.taking.Lock() // whatever was read is answered by now, or owed
	c.phase.CompareAndSwap(phaseOpen, phaseLeaving)
	c.mu.Lock()
	waits := len(c.owed) > 0 && !c.closed
	if waits {
		c.farewell = f
	}
	c.mu.Unlock()
	c.taking.Unlock()
	if !waits {
		t.sayFarewell(c, f)
	}
	return !waits
}

// asksForMore reports whether a packet asks for something that a client which leaves
// may as well ask the next server for.
func asksForMore(typ packet.Type) bool {
	switch typ {
	case packet.PUBLISH, packet.SUBSCRIBE, packet.UNSUBSCRIBE, packet.AUTH:
		return true
	}
	return false
}

// sayFarewell ends a connection with the last word.
func (t *turn) sayFarewell(c *conn, f *farewell) {
	c.mu.Lock()
	c.uncut = true
	c.mu.Unlock()
	t.stop(c, f.reason, f.text, f.why)
	f.over()
}

// dismissAll waits until the connections have got what they are owed, and ends those
// that have not when ctx ends.
func (b *Broker) dismissAll(ctx context.Context, owing []*conn) {
	for _, c := range owing {
		c.mu.Lock()
		f := c.farewell
		c.mu.Unlock()
		if f == nil {
			continue
		}
		select {
		case <-f.said:
			continue
		case <-ctx.Done():
		}
		c.mu.Lock()
		f, c.farewell = c.farewell, nil
		c.mu.Unlock()
		if f != nil {
			t := b.getTurn().begin()
			t.sayFarewell(c, f)
			b.putTurn(t)
		}
	}
}
