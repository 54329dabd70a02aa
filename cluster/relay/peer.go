package relay

import (
	"encoding/binary"
	"sync"
	"time"

	"github.com/aibridge/aibridge/broker"
	"github.com/aibridge/aibridge/cluster/routes"
)

// A peer is another bridge: the streams to it and from it. It stays the same
// while the bridge starts again.
type peer struct {
	r  *Relay
	id string

	taking sync.Mutex // held during a delivery

	mu             sync.Mutex
	epoch          uint64
	state          state
	waits, adopted bool   // see Member
	start          uint64 // of the stream to this process of the peer
	out            outbound
	in             inbound

	asked    bool          // it has sent a hello, and waits for that of this bridge
	wanted   bool          // bytes are missing that the peer is to send again
	due      bool          // the offsets of the peer's stream are to be sent to it
	told     uint64        // received offset of its stream, as last sent to it
	taken    uint64        // and the accepted one
	idle     uint64        // offset that it had received at the last tick
	stuck    int           // ticks without progress
	moved    uint64        // offset that it had accepted at the last tick
	since    time.Time     // when it had last accepted more, or all; zero if it has all
	probing  bool          // it seems to stand still: one frame at a time
	room     chan struct{} // closed when there is room again; nil without waiters
	resync   bool          // its announcements are missing
	outdated bool          // it needs a snapshot of everything, once there is room
	informed bool          // it gets changes of the state of parts
	known    bool          // it knows the announcements of
	round    uint64        // this round and the earlier ones
	dropped  uint64        // messages of QoS 0
	wake     chan struct{}
	gone     chan struct{} // closed when the bridge is
}

// A state is the stage of the connection of two bridges.
type state byte

const (
	absent  state = iota // no process of it accepts relayed messages
	calling              // its hello, with the offset to begin at, is awaited
	open
)

func (p *peer) signal() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// Send implements [broker.Peer].
func (p *peer) Send(m broker.Outgoing) broker.SendResult {
	p.mu.Lock()
	defer p.mu.Unlock()
	held := p.out.held()
	if p.state == absent && p.epoch == 0 || m.QoS == 0 && held > p.r.o.Outbox || held > 8*p.r.o.Outbox && m.Receipt == nil {
		p.dropped++
		p.r.metrics.dropped.Inc()
		if m.Receipt != nil {
			m.Receipt.Answer(broker.Full)
		}
		return broker.SendDropped
	}
	var buffer [64]byte
	head := appendMessage(buffer[:0], &m)
	var before [16]byte
	p.out.append(appendRecord(before[:0], recMessage, len(head)+len(m.Encoded)))
	p.out.append(head)
	p.out.append(m.Encoded)
	w := awaited{qos: m.QoS, receipt: m.Receipt, outcome: broker.Taken}
	if len(m.Groups) > 0 && m.QoS > 0 && !m.Only {
		w.size = len(head) + len(m.Encoded)
	}
	if w.receipt != nil || w.size > 0 {
		p.out.await(w)
	}
	p.r.flush(p)
	if held > p.r.o.Outbox {
		return broker.SendCrowded
	}
	return broker.SendQueued
}

// Room implements [broker.Peer].
func (p *peer) Room() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.room == nil {
		p.room = make(chan struct{})
	}
	room := p.room
	p.makeRoom()
	return room
}

// Process implements [broker.Peer].
func (p *peer) Process() broker.Process { return broker.Process(p.process()) }

// makeRoom wakes the publishers that wait for room, if there is some. The caller holds
// mu.
func (p *peer) makeRoom() {
	if p.room != nil && p.out.held() <= p.r.o.Outbox/2 {
		close(p.room)
		p.room = nil
	}
}

// record adds a record to the stream. mu is held.
func (p *peer) record(kind byte, body []byte) {
	var before [16]byte
	p.out.append(appendRecord(before[:0], kind, len(body)))
	p.out.append(body)
}

// announce sends changes, or a snapshot, to the peer. The caller holds mu.
func (p *peer) announce(batches []routes.Batch, round uint64) {
	for i := range batches {
		p.record(recBatch, batches[i].Append(nil))
	}
	p.out.await(awaited{announced: true, round: round})
}

// frame returns the next frame to send to the peer; nil if none is due.
func (p *peer) frame(dst []byte) []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.asked {
		p.asked = false
		return p.hello(true).append(dst)
	}
	f := frame{kind: data, from: p.r.o.Self.Epoch, to: p.epoch, start: p.start}
	if p.state != open {
		return nil
	}
	window := p.r.o.Window
	if p.probing {
		window = maxBody
	}
	f.body = p.out.next(window)
	if len(f.body) == 0 && !p.due && !p.wanted {
		return nil
	}
	f.offset, f.received, f.accepted = p.out.sent, p.in.received, p.in.accepted
	if p.wanted {
		f.kind = resend
	}
	p.out.sent += uint64(len(f.body))
	p.wanted, p.due, p.told, p.taken = false, false, p.in.received, p.in.accepted
	return f.append(dst)
}

// hello returns the frame that opens the streams. answered reports that the peer's own
// hello was received. The caller holds mu.
func (p *peer) hello(answered bool) *frame {
	f := &frame{kind: hello, from: p.r.o.Self.Epoch, to: p.epoch, received: p.in.marked}
	if answered {
		f.start = 1
	}
	return f
}

// run sends to the peer until the bridge is gone.
func (p *peer) run() {
	ticker := time.NewTicker(p.r.o.Tick)
	defer ticker.Stop()
	var buffer []byte
	for {
		select {
		case <-p.gone:
			return
		case <-ticker.C:
			p.tick()
		case <-p.wake:
		}
		for {
			f := p.frame(buffer[:0])
			if f == nil {
				break
			}
			p.r.send(p, f)
			buffer = f
		}
	}
}

// greeted handles the peer's hello, with the offset at which the stream to it begins.
func (p *peer) greeted(f *frame) (fresh bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if f.start == 0 {
		p.asked = true // the receiving goroutine does not wait for sending
		p.signal()
	}
	if p.state != calling || p.epoch != f.from {
		return false
	}
	ready := p.out.begin(f.received)
	p.settle(ready)
	p.state, p.start, p.outdated, p.informed = open, p.out.base, !p.adopted, false
	p.makeRoom()
	return true
}

// settle does the work due on the acceptance of records. The caller holds mu.
func (p *peer) settle(ready []awaited) {
	for i := range ready {
		w := &ready[i]
		if w.receipt != nil {
			w.receipt.Answer(w.outcome)
			w.receipt = nil
		}
		if w.announced {
			p.known, p.round = true, w.round
		}
	}
}

// acknowledged applies the offsets in a frame of the peer to the stream to it. It
// reports whether the frame is from the running process of the peer.
func (p *peer) acknowledged(f *frame) (current bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state != open || p.epoch != f.from {
		return p.epoch == f.from
	}
	before := p.out.received
	p.settle(p.out.acknowledged(f.received, f.accepted))
	if p.out.received > before {
		p.probing = false
	}
	if p.outdated && p.out.held() <= p.r.o.Outbox {
		p.r.announceSoon()
	}
	if f.kind == resend {
		p.out.rewind()
	}
	p.in.accept(p.out.received)
	p.tellSoon()
	p.makeRoom()
	return true
}

// take delivers the records in a frame.
func (p *peer) take(f *frame) {
	p.taking.Lock()
	defer p.taking.Unlock()
	p.mu.Lock()
	if p.epoch != f.from {
		p.mu.Unlock()
		return
	}
	if !p.in.synced {
		p.in.begin(f.start)
	}
	fresh, ok := p.in.take(f.offset, f.body)
	if !ok {
		p.wanted = true
	}
	in, epoch := p.in, p.epoch
	p.mu.Unlock()
	if !ok || len(f.body) == 0 {
		return
	}
	if len(fresh) == 0 { // it was sent again: the acknowledgement was lost
		p.mu.Lock()
		p.due = true
		p.mu.Unlock()
		return
	}
	d := delivery{p: p, from: Node{p.id, epoch}, arrival: p.r.local.Arrive(p.id, epoch), marked: in.marked}
	before := in.parsed
	err := in.records(fresh, d.record)
	if err != nil {
		p.r.o.Log.Error("a malformed frame from another bridge", "bridge", p.id, "error", err)
	}
	p.took(epoch, &in, &d, before)
	d.sayTo()
	for _, l := range d.left {
		p.r.local.Reoffer(l.encoded, l.groups, l.became, l.receipt)
	}
}

// took records the new offsets of the peer's stream, and ends the delivery.
func (p *peer) took(epoch uint64, in *inbound, d *delivery, before uint64) {
	end := in.parsed
	p.mu.Lock()
	if p.epoch != epoch { // another process of the bridge runs by now
		p.mu.Unlock()
		d.arrival.End(end, func() {})
		return
	}
	for _, told := range d.outcomes {
		p.record(told.kind, told.body)
	}
	p.in.received, p.in.parsed, p.in.partial = in.received, in.parsed, in.partial
	if d.urgent {
		p.in.urgent = end
	}
	if end > before {
		a := acceptance{end: end}
		if len(d.outcomes) > 0 {
			a.after = p.out.end
		}
		p.in.pending = append(p.in.pending, a)
	}
	p.mu.Unlock()
	if d.arrival.End(end, func() { p.stored(epoch, end) }) {
		p.stored(epoch, end)
	}
}

// stored notes that the delivery of the peer's stream up to an offset is stored.
func (p *peer) stored(epoch, end uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.epoch != epoch {
		return
	}
	p.in.stored(end)
	p.in.accept(p.out.received)
	p.tellSoon()
}

// tellSoon schedules a frame with the offsets of the peer's stream, if the peer waits
// for them: for the acceptance of a record, or for room in its window. The caller holds
// mu.
func (p *peer) tellSoon() {
	if p.in.accepted > p.taken && p.in.urgent > p.taken || p.in.received-p.told >= uint64(p.r.o.Window/4) {
		p.due = true
		p.signal()
	}
}

// A delivery is the processing of the records of one frame.
type delivery struct {
	p        *peer
	from     Node
	arrival  Arrival
	marked   uint64
	groups   []uint64
	urgent   bool      // the peer waits for its acceptance
	outcomes []outcome // to be sent to the peer
	left     []leftover
	said     []saying
}

// An outcome is a record with the outcome of a message, for its sender.
type outcome struct {
	kind byte
	body []byte
}

// A leftover is a message that no member of some groups at the peer took: it is offered
// to their other members.
type leftover struct {
	encoded []byte
	groups  []uint64
	became  broker.Outcome // outcome of the message apart from these groups
	receipt broker.Answerer
}

func (d *delivery) record(kind byte, body []byte, end uint64) error {
	switch kind {
	case recMessage:
		return d.message(body, end)
	case recBatch:
		d.urgent = true
		return d.p.r.announced(d.p, body)
	case recResync:
		d.urgent = true
		d.p.mu.Lock()
		d.p.outdated = true
		d.p.mu.Unlock()
		d.p.r.announceSoon()
	case recOutcome:
		d.urgent = true
		return d.p.outcome(body)
	case recLeft:
		d.urgent = true
		return d.takeBack(body)
	case recPart:
		return d.heard(body)
	default:
		return errFrame
	}
	return nil
}

func (d *delivery) message(body []byte, end uint64) error {
	marks, groups, encoded, ok := parseMessage(body, d.groups)
	d.groups = groups
	if !ok {
		return errFrame
	}
	d.urgent = d.urgent || marks&markAnswer != 0
	if end <= d.marked {
		return nil // it was stored before this process began
	}
	d.p.r.metrics.received.Inc()
	only := marks&markOnly != 0
	became, left, err := d.arrival.Deliver(encoded, groups, only)
	if err != nil {
		return err
	}
	if marks&markTell != 0 && became != broker.Taken {
		d.outcomes = append(d.outcomes, outcome{recOutcome, append(binary.AppendUvarint(nil, end), byte(became))})
	}
	if len(left) > 0 && !only { // with only, the outcome has it
		d.outcomes = append(d.outcomes, outcome{recLeft, appendGroups(binary.AppendUvarint(nil, end), left)})
	}
	return nil
}

// takeBack handles the return of a message that no member of some groups took at the
// peer.
func (d *delivery) takeBack(body []byte) error {
	end, n := binary.Uvarint(body)
	if n <= 0 || len(body) == n || (len(body)-n)%8 != 0 {
		return errFrame
	}
	d.p.mu.Lock()
	record, w := d.p.out.takeBack(end)
	d.p.mu.Unlock()
	if record == nil {
		return nil
	}
	_, _, encoded, _ := parseMessage(record, nil)
	l := leftover{encoded: encoded, became: w.outcome, receipt: w.receipt}
	for b := body[n:]; len(b) > 0; b = b[8:] {
		l.groups = append(l.groups, binary.LittleEndian.Uint64(b))
	}
	d.left = append(d.left, l)
	return nil
}

// outcome handles the outcome of a message, sent by the peer.
func (p *peer) outcome(body []byte) error {
	end, n := binary.Uvarint(body)
	if n <= 0 || len(body) != n+1 || broker.Outcome(body[n]) > broker.Taken {
		return errFrame
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.out.told(end, broker.Outcome(body[n]))
	return nil
}
