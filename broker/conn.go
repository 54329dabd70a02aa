package broker

import (
	"crypto/x509"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aibridge/aibridge/broker/packet"
	"github.com/aibridge/aibridge/internal/gate"
	"github.com/aibridge/aibridge/protocol/grant"
)

// Phases of a connection.
const (
	phaseNew     int32 = iota // CONNECT is expected
	phaseAuth                 // AUTH is expected: enhanced authentication runs
	phaseOpen                 // connected
	phaseLeaving              // nothing new is taken: it ends once it is owed no answer
	phaseEnded                // what comes in is thrown away
)

// A conn is one network connection. Fields that mu does not guard belong to its
// reader, or was set before the connection's session knew it.
type conn struct {
	b         *Broker
	door      *door
	transport transport
	remote    net.Addr
	peer      *x509.Certificate
	known     *grant.Grant // of who sent the HTTP request of a WebSocket; nil for others
	at        int          // in Broker.conns
	visit     *gate.Visit
	accepted  int64 // as all times here: steady

	phase    atomic.Int32
	until    atomic.Int64 // when it is closed unless it is connected by then
	lastRead atomic.Int64
	trace    atomic.Pointer[tracer] // takes note of the packets; nil nearly always

	// The reader's.
	in      []byte     // start of a packet that is not complete
	partial int        // bytes that came since the last sign of life
	job     func()     // work that may block, to be done before reading on
	taking  sync.Mutex // held while packets are taken
	inAlias []string

	refused   int             // publishes since the log told of one
	refusedAt int64           // when that was
	ex        *authentication // enhanced authentication, while it may go on

	late lateness

	// Set on CONNECT.
	version   byte
	problem   bool // reason strings and user properties are wanted (MQTT 5)
	recvMax   int  // the client's Receive Maximum, cut to our own limit
	maxPacket int  // the client's Maximum Packet Size
	aliasMax  int  // topic aliases we may define
	keepAlive time.Duration
	client    *Client
	session   *session

	mu       sync.Mutex
	out      outbox
	outAlias map[string]uint16
	turn     *turn  // whose end will flush
	queued   bool   // the flusher will flush, or the reader at the end of its turn
	riding   int64  // since when acknowledgements wait for a packet to leave with, 0 if none do
	walks    int    // how many acknowledgements do not wait so
	closed   bool   // nothing may be added to the outbox
	gone     bool   // the transport is closed
	since    int64  // when the outbox was blocked, or last got on, or the end began
	dropped  uint64 // messages of QoS 0 that found no room in the outbox
	owed     []pendingAck
	owing    atomic.Bool   // there are some
	relief   chan struct{} // closed when nothing is owed any more; nil if nobody waits
	uncut    bool          // the outbox leaves before the end
	farewell *farewell     // that is told then; nil for none
}

// mayTake gives a connection so long from now until its client is connected.
func (c *conn) mayTake(d time.Duration) { c.until.Store(c.b.clock.Steady() + int64(d)) }

// A transport is the network side of a connection. All methods but pause and
// resume are called with conn.mu held.
type transport interface {
	// write writes as much as goes without blocking.
	write(segs []seg, off int) (n int, err error)
	// held is the number of bytes that write took and that are not on their way yet.
	held() int
	// passOn has the outbox written by the reader of the connection, at the end of the
	// turn that it is in, and reports whether it is in one and another than t.
	passOn(t *turn) bool
	// await has conn.writable called when writing can go on.
	await()
	// full reports whether the peer is to take more before writing goes on, while
	// that is awaited.
	full() bool
	// shut tells the peer that nothing more comes; the reader closes the transport
	// when the peer has closed its side.
	shut()
	close()
	// pause and resume stop and start reading; called by the reader.
	pause()
	resume()
}

// add appends an encoded packet to the outbox.
func (c *conn) add(t *turn, b []byte) {
	if len(b) == 0 {
		return
	}
	c.mu.Lock()
	if !c.closed {
		c.out.add(b)
		c.noteOut(b)
		t.touch(c)
	}
	c.mu.Unlock()
}

// flushLocked writes as much as the socket takes. The rest then belongs to the
// outbox alone and is written by writable.
func (c *conn) flushLocked(now int64) {
	o := &c.out
	c.riding = 0
	if c.gone || o.blocked || len(o.segs) == 0 && c.transport.held() == 0 {
		return
	}
	(*c.b.beforeWrite.Load())()
	n, err := c.transport.write(o.segs, o.off)
	if err != nil { // the reader will see it as well and end the connection
		o.drop()
		return
	}
	c.door.bytesOut.Add(uint64(n))
	o.wrote(n)
	if o.size > 0 || c.transport.held() > 0 {
		c.block(now)
	}
}

// block waits for the socket to take more.
func (c *conn) block(now int64) {
	c.out.settle()
	c.out.blocked = true
	c.since = now
	c.transport.await()
}

// writable goes on writing; the transport calls it when the socket is ready. It
// reports whether the outbox is empty.
func (c *conn) writable(now int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone || !c.out.blocked {
		return false
	}
	c.out.blocked = false
	before := c.out.size + c.transport.held()
	since := c.since
	c.flushLocked(now)
	if c.out.blocked && c.out.size+c.transport.held() == before {
		c.since = since // no progress
	}
	if c.out.blocked {
		return false
	}
	if c.closed {
		c.shutLocked(now)
	}
	return true
}

// end closes the connection after telling an MQTT 5 client why; reason 0 with
// no text tells nothing.
func (c *conn) end(reason packet.Reason, text string, now int64) {
	c.phase.Store(phaseEnded)
	c.mu.Lock()
	defer c.mu.Unlock()
	var last []byte
	if reason != 0 && c.session != nil && c.version == packet.V5 {
		last = c.disconnectPacket(reason, text)
	}
	c.endLocked(last, now)
}

// endWith closes the connection after a last packet.
func (c *conn) endWith(last []byte, now int64) {
	c.phase.Store(phaseEnded)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.endLocked(last, now)
}

// endLocked closes the connection after a last packet, if there is one. A full socket is
// given a moment to take it: what it has not been given at all is dropped, but for
// acknowledgements before a farewell, and what lies between them. The last packet is not,
// so it must come this way.
func (c *conn) endLocked(last []byte, now int64) {
	if c.closed {
		return
	}
	c.closed = true
	if c.out.blocked && c.transport.full() && !c.uncut {
		c.out.cut()
		c.out.blocked = len(c.out.segs) > 0 || c.transport.held() > 0
	}
	if len(last) > 0 {
		c.out.add(last)
		c.noteOut(last)
	}
	c.since = now
	c.flushLocked(now)
	if !c.out.blocked {
		c.shutLocked(now)
	}
}

func (c *conn) disconnectPacket(reason packet.Reason, text string) []byte {
	d := packet.Disconnect{Reason: reason}
	switch {
	case text == "":
	case reason == packet.ServerMoved: // the text is where to
		d.Properties.SetBytes(packet.ServerReference, cutText(text))
	case c.problem:
		d.Properties.SetBytes(packet.ReasonString, cutText(text))
	}
	b := d.Append(nil, packet.V5)
	if len(b) > c.maxPacket { // [MQTT-3.14.2-3]
		d.Properties.Reset()
		b = d.Append(b[:0], packet.V5)
	}
	return b
}

// cutText keeps reason strings to a size that fits any packet.
func cutText(s string) []byte {
	const most = 512
	if len(s) > most {
		s = s[:most]
		for len(s) > 0 && !packet.ValidString([]byte(s)) {
			s = s[:len(s)-1]
		}
	}
	return []byte(s)
}

func (c *conn) shutLocked(now int64) {
	c.since = now
	if !c.gone {
		c.transport.shut()
	}
}

// abort closes the connection at once.
func (c *conn) abort() {
	c.phase.Store(phaseEnded)
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed && c.riding != 0 {
		c.flushLocked(c.riding)
	}
	c.closed = true
	c.out.drop()
	c.out.blocked = false
	c.closeLocked()
}

func (c *conn) closeLocked() {
	if c.gone {
		return
	}
	c.gone = true
	c.farewell.over()
	c.farewell = nil
	c.transport.close()
	c.b.removeConn(c)
}
