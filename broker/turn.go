package broker

import (
	"time"

	"github.com/aibridge/aibridge/broker/condition"
	"github.com/aibridge/aibridge/broker/packet"
	"github.com/aibridge/aibridge/protocol"
)

// A turn is the scratch space of whoever reads, or publishes, and the list of
// connections that have something to be written at its end. One goroutine
// uses it at a time.
type turn struct {
	b     *Broker
	now   int64 // steady, see the package clock
	dirty []*conn
	tell  []*session // whose presence events are to be told
	own   bool       // outboxes must not refer to the turn's buffers

	// Of peers.
	publisher *session  // whose message waits for its receipt, nil for none
	receipt   *Receipt  // of the message in hand
	sendings  []sending // of the message in hand
	encoded   []byte    // for peers
	relayed   bool      // peers have something to send
	reached   []Peer    // that were given the message in hand
	toShare   *message  // retained message in hand, until it goes into the log of all bridges
	crowded   Peer      // that has no room for more
	origin    origin    // of the message in hand
	numbered  *numbered // the publish that it came in, if that is a numbered one
	known     *known    // the message in hand among the remembered publications, if it has an origin
	before    bool      // it was known before it came
	overtaken bool      // another bridge has asked the others since, and gives it to groups
	given     []given   // its receivers

	handled bool // handlers were called, and not told that this was all

	routes map[string]*route
	epoch  uint64

	// Of the message that is being routed.
	msg      message
	to       protocol.Recipients // of the message in hand, if it is the bridge's own
	kept     *message
	looked   bool                 // users are its user properties
	users    condition.Properties // for conditions of subscriptions
	shown    packet.Properties    // that have them
	read     *packet.Properties   // its properties as they came; nil if it came in no packet, or has others by now
	raw      []byte               // the packet it came in, if it may go out the same
	rawShape int                  // which of frames that would be
	frames   [4][]byte
	shared   []byte // encoded packets that outboxes refer to until the turn ends

	// Decoded packets and what they need.
	pub         packet.Publish
	ack         packet.Ack
	sub         packet.Subscribe
	unsub       packet.Unsubscribe
	props       packet.Properties
	propBytes   []byte
	publication Publication
	strings     map[string]string // that handlers are likely to be shown again
	acks        []byte            // acknowledgements for the connection being read
	patient     int               // bytes of them that may wait for a packet to leave with
	riders      []rider           // connections whose acknowledgements do, in the order they came
	rides       bool              // a reader's, which looks after those
	idle        time.Duration     // the time that the reader has waited until this turn

	resettle []*conn // whose acknowledgements may go now

	recorded uint64 // position of the newest record of this turn, 0 none
	packetAt uint64 // and of the packet in hand
	count    counts
}

const (
	mostRoutes  = 16 << 10
	mostFrames  = 64 << 10
	mostScratch = 64 << 10
)

func newTurn(b *Broker) *turn { return &turn{b: b, routes: make(map[string]*route)} }

// begin readies the turn for work at the present time.
func (t *turn) begin() *turn {
	t.now = t.b.clock.Steady()
	return t
}

// touch has the connection flushed at the end of the turn; conn.mu is held.
func (t *turn) touch(c *conn) {
	if t.own {
		if !c.queued {
			c.queued = true
			t.dirty = append(t.dirty, c)
		}
		return
	}
	if c.turn != t {
		c.turn = t
		t.dirty = append(t.dirty, c)
	}
}

// settle tells the handlers that this was all for now.
func (t *turn) settle() {
	for t.handled {
		t.handled = false
		for _, fn := range t.b.afterHandlers {
			fn()
		}
	}
}

// quiet reports whether the end of the turn has nothing to do but to count.
func (t *turn) quiet() bool {
	return !t.handled && t.recorded == 0 && !t.relayed && len(t.resettle) == 0 && len(t.dirty) == 0 && len(t.tell) == 0 && len(t.shared) == 0
}

// end writes what the turn produced.
func (t *turn) end() {
	t.settle()
	t.settleReady()
	t.b.commit(t)
	if t.b.index.peers != nil {
		t.endAway()
	}
	for i := 0; i < len(t.dirty); i++ { // grows while sessions catch up
		t.flush(t.dirty[i])
	}
	t.b.commit(t) // catching up may have recorded more
	clear(t.dirty)
	t.dirty = t.dirty[:0]
	if cap(t.dirty) > 4096 {
		t.dirty = nil
	}
	t.shared = t.shared[:0]
	if cap(t.shared) > 4*mostFrames {
		t.shared = nil
	}
	t.tellAll()
	t.b.stats.add(&t.count)
}

func (t *turn) tellAll() {
	for i := 0; i < len(t.tell); i++ {
		t.tell[i].events.drain()
	}
	clear(t.tell)
	t.tell = t.tell[:0]
}

// flush writes a connection's outbox. If the reader of the connection is in a turn it is
// left to it: writing takes a while, and the reader would wait for the lock meanwhile.
func (t *turn) flush(c *conn) {
	c.mu.Lock()
	c.turn, c.queued = nil, false
	if c.out.lasts() && c.transport.passOn(t) {
		c.queued = true
		c.mu.Unlock()
		return
	}
	c.flushLocked(t.now)
	s, more := c.session, !c.out.blocked && !c.closed
	c.mu.Unlock()
	if more && s != nil && s.behind.Load() {
		t.pump(s)
	}
}

// space returns room for a packet of n bytes in the turn's shared buffer.
func (t *turn) space(n int) []byte {
	if cap(t.shared)-len(t.shared) < n {
		t.shared = make([]byte, 0, max(n, mostFrames)) // outboxes keep the old one
	}
	return t.shared[len(t.shared):]
}

// consume parses the packets in b and returns the rest: the start
// of a packet, or everything after one that needs a job done first.
func (t *turn) consume(c *conn, b []byte) []byte {
	c.taking.Lock()
	defer c.taking.Unlock()
	t.acks, t.patient = t.acks[:0], 0
	if c.overflows() {
		const text = "the client does not read the answers to what it sends"
		t.stop(c, packet.QuotaExceeded, text, text)
		return nil
	}
	whole := false // a packet came, [MQTT-3.1.2-22] counts these
	for len(b) > 0 && c.job == nil && !t.b.stopped.Load() {
		if c.phase.Load() == phaseEnded {
			b = nil
			break
		}
		if n := t.pubacks(c, b); n > 0 {
			b = b[n:]
			whole = true
			continue
		}
		h, size, err := packet.ParseHeader(b)
		if err == nil && size > 0 && size+h.Remaining > t.b.options.MaxPacket {
			err = &packet.Error{Reason: packet.PacketTooLarge, Text: "packet exceeds the maximum packet size"}
		}
		if err == nil && (size == 0 || len(b) < size+h.Remaining) {
			err = c.expect(b)
			if err == nil {
				break
			}
		}
		if err == nil {
			err = t.packet(c, h, b[:size+h.Remaining], b[size:size+h.Remaining])
		}
		if err != nil {
			t.acknowledge(c)
			t.fail(c, err)
			return nil
		}
		b = b[size+h.Remaining:]
		whole = true
	}
	if whole {
		c.alive(t.now)
	}
	t.acknowledge(c)
	return b
}

// mostUnread bounds the bytes that wait for a client's socket beside a message, as a
// multiple of OutboxBytes: answers, which messages give way to.
const mostUnread = 4

// overflows reports whether more waits for the client's socket.
func (c *conn) overflows() bool {
	o := &c.b.options
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.out.blocked && c.out.size > mostUnread*o.Limits.OutboxBytes+o.MaxPacket
}

// expect refuses bytes that can't become a CONNECT before more of them are awaited.
func (c *conn) expect(b []byte) error {
	if c.phase.Load() == phaseNew && b[0] != byte(packet.CONNECT)<<4 {
		return errNotConnect
	}
	return nil
}

// acknowledge moves the collected acknowledgements into the outbox.
func (t *turn) acknowledge(c *conn) {
	switch {
	case len(t.acks) == 0:
		return
	case t.rides && t.patient == len(t.acks) && t.patient <= mostRiding:
		t.ride(c)
	default:
		c.add(t, t.acks)
	}
	t.acks, t.patient = t.acks[:0], 0
}
