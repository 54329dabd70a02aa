package bench

import (
	"encoding/binary"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// A load is the state that the roles of one run share, across the threads.
type load struct {
	sending   atomic.Bool // publishers may publish
	measuring atomic.Bool // latencies count
	limit     int64       // messages to send at most
	taking    sync.Mutex  // of these

	sent     atomic.Int64
	received atomic.Int64 // deliveries, each message's first alone: a second one makes up for no other
	refused  atomic.Int64 // acknowledged with a reason code of failure
	garbled  atomic.Int64 // payloads that were never sent

	complaint atomic.Pointer[string] // the first wrong answer

	// Receivers wake the senders' loop when enough has arrived for senders
	// that wait for that.
	hungry  atomic.Bool
	enough  int64 // number of outstanding deliveries below which senders continue
	copies  int64 // deliveries for each message sent
	senders *loop

	missing  atomic.Int64 // deliveries that later ones have overtaken
	forgiven atomic.Int64 // outstanding deliveries that were given up
}

// arrived counts a delivery, and its change of the number of missing ones.
func (l *load) arrived(d delivery, missing int64) {
	if missing != 0 {
		l.missing.Add(missing) // first, or a concurrent reader counts a late delivery twice
	}
	switch d {
	case fresh:
		l.received.Add(1)
	case garbled:
		l.garbled.Add(1)
	}
	if l.hungry.Load() {
		l.forgiven.Store(0) // progress: given-up deliveries arrive, or will count as missing
		if l.owed() <= l.enough && l.hungry.CompareAndSwap(true, false) {
			l.senders.wake()
		}
	}
}

// owed is the number of deliveries still expected.
func (l *load) owed() int64 {
	return l.sent.Load()*l.copies - l.accounted() - l.forgiven.Load()
}

// progress changes with every delivery that is not a repetition.
func (l *load) progress() int64 { return l.received.Load() + l.garbled.Load() }

// accounted is the number of deliveries that have arrived, or were overtaken by later
// ones. A garbled delivery counts as missing, too, once it is overtaken.
func (l *load) accounted() int64 {
	return l.received.Load() + max(l.garbled.Load(), l.missing.Load())
}

// take gives the sender leave for up to n more messages and counts them.
func (l *load) take(n int64) int64 {
	if !l.sending.Load() {
		return 0
	}
	if l.limit > 0 {
		l.taking.Lock()
		defer l.taking.Unlock()
		n = min(n, l.limit-l.sent.Load())
	}
	if n <= 0 {
		return 0
	}
	l.sent.Add(n)
	return n
}

// A sender is a role that starts exchanges: publishers and requesters.
type sender interface {
	// room is the number of messages that it may start now.
	room() int
	// send appends one message, due at a time of its loop's clock, to the output of its
	// connection.
	send(due int64)
	conn() *conn
}

// A pump drives the senders of a loop where replies do not: when sending
// begins, when it is paced, and when nothing is acknowledged.
type pump struct {
	load    *load
	loop    *loop
	senders []sender
	next    int // index of the next sender

	batch  int     // messages in one write, 0 for as many as there is room for
	rate   float64 // messages a second, 0 for all that goes
	window int64   // deliveries that may be owed, where nothing is acknowledged
	begun  bool
	since  int64 // when sending began
	paced  int64 // number of due messages that were sent
	heard  int64 // progress when senders last had to wait
	silent int64 // time of the last delivery
}

// turn is the loop's.
func (p *pump) turn() time.Duration {
	if !p.load.sending.Load() {
		return -1
	}
	now := p.loop.clock()
	if !p.begun {
		p.begun, p.since = true, now
		if p.rate == 0 && p.window == 0 {
			for range p.senders { // from here on, each answer lets the next go
				p.burst(1<<20, p.loop.clock()) // of different times, as ids of calls are made of them
			}
		}
	}
	switch {
	case p.rate > 0:
		return p.pace(now)
	case p.window > 0:
		return p.flood()
	}
	return -1
}

// pace sends the due messages, one of each sender in turn. Each has a time of its own
// when it is due, from which its latency counts: a message that goes late, because the
// loop was busy or no sender had room, has waited.
func (p *pump) pace(now int64) time.Duration {
	if now-p.due(p.paced+1) > int64(100*time.Millisecond) {
		p.paced = int64(float64(now-p.since) * p.rate / 1e9) // the rate cannot be kept: no more is caught up
	}
	for idle := 0; p.due(p.paced+1) <= now; {
		if p.burst(1, p.due(p.paced+1)) > 0 {
			idle = 0
			p.paced++
			continue
		}
		if idle++; idle == len(p.senders) {
			return -1 // until an answer makes room, or a socket takes more
		}
	}
	return max(time.Duration(p.due(p.paced+1)-p.loop.clock()), 0) // 0 if it came due during the turn
}

// due is the time of the paced message of a number, from 1.
func (p *pump) due(number int64) int64 {
	return p.since + int64(math.Ceil(float64(number)*1e9/p.rate))
}

// flood sends until too much is owed or every socket is full.
func (p *pump) flood() time.Duration {
	l := p.load
	for budget, full := 1000, 0; budget > 0; budget-- {
		if l.owed() >= p.window {
			l.hungry.Store(true)
			if l.owed() >= p.window { // checked again after the receivers were informed
				return p.forgive()
			}
			l.hungry.Store(false)
		}
		if p.burst(max(p.batch, 1), p.loop.clock()) > 0 {
			full = 0
			continue
		}
		if full++; full == len(p.senders) {
			return -1
		}
	}
	return 0 // let the loop serve other connections
}

// forgive waits for outstanding deliveries, but gives them up after a while: if the
// broker dropped the last ones, only later messages would show that.
func (p *pump) forgive() time.Duration {
	const patience = 500 * time.Millisecond
	l, now := p.load, p.loop.clock()
	if heard := l.progress(); heard != p.heard {
		p.heard, p.silent = heard, now
	} else if now-p.silent > int64(patience) {
		p.silent = now
		l.forgiven.Add(l.owed())
		return 0
	}
	return -1
}

// burst has the next sender send up to n messages that are due in one write, and returns
// their number.
func (p *pump) burst(n int, due int64) int {
	s := p.senders[p.next]
	if p.next++; p.next == len(p.senders) {
		p.next = 0
	}
	c := s.conn()
	if c.blocked || c.stage != established {
		return 0
	}
	n = int(p.load.take(int64(min(n, s.room()))))
	for range n {
		s.send(due)
	}
	c.flush()
	return n
}

// A publisher publishes to one topic. Its payload begins with the time of
// sending, its number and the message's number.
type publisher struct {
	load     *load
	c        *conn
	t        template
	qos      byte
	window   int
	chained  bool // an acknowledgement lets the next message go
	inFlight int
	number   uint64
}

// Where things are in the payload of a flow.
const (
	atTime   = 0
	atStream = 8
	atNumber = 12
)

func newPublisher(l *load, s Scenario, version byte, topic string, index int) *publisher {
	payload := make([]byte, s.Payload)
	for i := range payload {
		payload[i] = 'x'
	}
	binary.LittleEndian.PutUint32(payload[atStream:], uint32(index))
	return &publisher{
		load: l, t: publishTemplate(version, topic, s.QoS, nil, payload),
		qos: s.QoS, window: s.Window, chained: s.Rate == 0,
	}
}

func (p *publisher) conn() *conn { return p.c }

func (p *publisher) room() int {
	if p.qos == 0 {
		return 1 << 20
	}
	return min(p.window, p.c.receiveMaximum) - p.inFlight
}

func (p *publisher) send(due int64) {
	payload := p.t.packet[p.t.payload:]
	binary.LittleEndian.PutUint64(payload[atTime:], uint64(due))
	binary.LittleEndian.PutUint64(payload[atNumber:], p.number)
	p.number++
	if p.qos > 0 {
		p.t.setID(p.c.nextID())
		p.inFlight++
	}
	p.c.out = append(p.c.out, p.t.packet...)
}

func (p *publisher) packet(c *conn, first byte, body []byte) {
	id, reason, ok := acknowledgement(body)
	switch {
	case ok && first == packetPubrec && reason < 0x80:
		c.out = append(c.out, packetPubrel, 2, byte(id>>8), byte(id))
		return
	case ok && (first == packetPuback || first == packetPubcomp || first == packetPubrec):
		if reason >= 0x80 {
			p.load.refused.Add(1)
		}
	default:
		c.end(fmt.Errorf("a publisher was sent % x", first))
		return
	}
	p.inFlight--
	if p.chained && p.room() > 0 && p.load.take(1) == 1 {
		p.send(p.c.loop.now)
	}
}

// A subscriber takes the messages of the streams from first on, acknowledges
// them, and follows each stream.
type subscriber struct {
	load    *load
	first   int
	size    int // of a payload
	streams []stream
	latency *histogram
}

func (s *subscriber) packet(c *conn, first byte, body []byte) {
	if first == packetPubrel {
		c.out = append(c.out, packetPubcomp, 2, body[0], body[1])
		return
	}
	p, ok := parsePublish(c.version, first, body)
	if first&0xF0 != packetPublish || !ok {
		c.end(fmt.Errorf("a subscriber was sent % x", first))
		return
	}
	acknowledge(c, p)
	s.load.arrived(s.note(c.loop.now, p.payload))
}

// note adds the message to its stream, and returns the change of the number of missing
// ones.
func (s *subscriber) note(now int64, payload []byte) (d delivery, missing int64) {
	if len(payload) != s.size {
		return garbled, 0
	}
	index := int(binary.LittleEndian.Uint32(payload[atStream:])) - s.first
	if index < 0 || index >= len(s.streams) {
		return garbled, 0
	}
	if s.load.measuring.Load() {
		s.latency.add(now - int64(binary.LittleEndian.Uint64(payload[atTime:])))
	}
	stream := &s.streams[index]
	before := stream.missing()
	d = stream.take(binary.LittleEndian.Uint64(payload[atNumber:]))
	return d, stream.missing() - before
}

// acknowledge answers a received PUBLISH as its QoS requires.
func acknowledge(c *conn, p publication) {
	switch p.qos {
	case 1:
		c.out = append(c.out, packetPuback, 2, byte(p.id>>8), byte(p.id))
	case 2:
		c.out = append(c.out, packetPubrec, 2, byte(p.id>>8), byte(p.id))
	}
}

// An idler neither publishes nor receives.
type idler struct{}

func (idler) packet(c *conn, first byte, _ []byte) {
	c.end(fmt.Errorf("an idle client was sent % x", first))
}
