package relay

import (
	"sync"
	"time"

	"github.com/aibridge/aibridge/broker"
	"github.com/aibridge/aibridge/cluster/routes"
)

// A peer is another bridge: the lanes to it and from it. It stays the same while the
// bridge starts again.
type peer struct {
	r  *Relay
	id string

	taking sync.Mutex // held during a delivery

	mu             sync.Mutex
	epoch          uint64
	state          state
	called         time.Time // when it was called first
	waits, adopted bool      // see Member
	split          bool      // the process knows of the control lane
	start          uint64    // of the messages to this process of the peer
	messages       lane
	control        lane // of this process of the peer alone

	asked    bool          // it has sent a hello, and waits for that of this bridge
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
	held := p.messages.out.held()
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
	out := &p.messages.out
	var before [16]byte
	out.append(appendRecord(before[:0], recMessage, len(head)+len(m.Encoded)))
	out.append(head)
	out.append(m.Encoded)
	w := awaited{qos: m.QoS, receipt: m.Receipt, outcome: broker.Taken}
	if len(m.Groups) > 0 && m.QoS > 0 && !m.Only {
		w.size = len(head) + len(m.Encoded)
	}
	if w.receipt != nil || w.size > 0 {
		out.await(w)
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
	if p.room != nil && p.messages.out.held() <= p.r.o.Outbox/2 {
		close(p.room)
		p.room = nil
	}
}

// ahead is the lane of everything that is not to wait behind messages: that of control,
// or the only one that a process of an earlier release knows. The caller holds mu.
func (p *peer) ahead() *lane {
	if p.split {
		return &p.control
	}
	return &p.messages
}

// record adds a record to the lane of control. The caller holds mu.
func (p *peer) record(kind byte, body []byte) {
	out := &p.ahead().out
	var before [16]byte
	out.append(appendRecord(before[:0], kind, len(body)))
	out.append(body)
}

// announce sends changes, or a snapshot, to the peer. The caller holds mu.
func (p *peer) announce(batches []routes.Batch, round uint64) {
	for i := range batches {
		p.record(recBatch, batches[i].Append(nil))
	}
	p.ahead().out.await(awaited{announced: true, round: round, since: time.Now()})
}

// frame returns the next frame to send to the peer; nil if none is due.
func (p *peer) frame(dst []byte) []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.asked {
		p.asked = false
		return p.hello(true).append(dst)
	}
	if p.state != open {
		return nil
	}
	f := frame{from: p.r.o.Self.Epoch, to: p.epoch}
	knows := p.split || p.control.in.received > 0 // of the lane
	if knows && p.control.cut(&f, p.r.o.Window) {
		f.control = true
		return f.append(dst)
	}
	window := p.r.o.Window
	if p.control.out.sent < p.control.out.end {
		window = 0 // control that is older than the messages goes first
	}
	if !p.messages.cut(&f, window) {
		return nil
	}
	f.start = p.start
	if f.ordered = p.split && len(f.body) > 0; f.ordered {
		f.after = p.control.out.end
	}
	return f.append(dst)
}

// hello returns the frame that opens the lanes. answered reports that the peer's own
// hello was received. The caller holds mu.
func (p *peer) hello(answered bool) *frame {
	f := &frame{hello: true, from: p.r.o.Self.Epoch, to: p.epoch, received: p.messages.in.marked}
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
	ready := p.messages.out.begin(f.received)
	p.settle(ready)
	p.state, p.start, p.outdated, p.informed = open, p.messages.out.base, !p.adopted, false
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

// lane is the lane of a frame.
func (p *peer) lane(f *frame) *lane {
	if f.control {
		return &p.control
	}
	return &p.messages
}

// acknowledged applies the offsets in a frame of the peer to its lane. It reports whether
// the frame is from the running process of the peer.
func (p *peer) acknowledged(f *frame) (current bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state != open || p.epoch != f.from {
		return p.epoch == f.from
	}
	l := p.lane(f)
	before := l.out.received
	p.settle(l.out.acknowledged(f.received, f.accepted))
	if l.out.received > before {
		l.probing = false
	}
	if p.outdated && p.ahead().out.held() <= p.r.o.Outbox {
		p.r.announceSoon()
	}
	if f.resend {
		l.out.rewind()
	}
	p.accept()
	p.makeRoom()
	return true
}

// accept accepts messages of the peer as far as they are stored and it has their
// outcomes, and schedules a frame that says so. The caller holds mu.
func (p *peer) accept() {
	p.messages.in.accept(p.ahead().out.received)
	p.tellSoon(&p.messages)
}

// take delivers the records in a frame.
func (p *peer) take(f *frame) {
	p.taking.Lock()
	defer p.taking.Unlock()
	in, epoch, fresh := p.takes(f)
	if len(fresh) == 0 {
		return
	}
	d := delivery{p: p, from: Node{p.id, epoch}, marked: in.marked}
	if !f.control {
		d.arrival = p.r.local.Arrive(p.id, epoch)
	}
	before := in.parsed
	err := in.records(fresh, d.record)
	if err != nil {
		p.r.o.Log.Error("a malformed frame from another bridge", "bridge", p.id, "error", err)
	}
	if f.control {
		p.heeded(epoch, &in, &d)
	} else {
		p.took(epoch, &in, &d, before)
	}
	d.sayTo()
	for _, l := range d.left {
		p.r.local.Reoffer(l.encoded, l.groups, l.became, l.receipt)
	}
}

// takes returns the new bytes in a frame, and the stream that they belong to.
func (p *peer) takes(f *frame) (in inbound, epoch uint64, fresh []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.epoch != f.from {
		return in, 0, nil
	}
	l := p.lane(f)
	if !l.in.synced {
		l.in.begin(f.start)
	}
	if f.ordered && p.control.in.received < f.after { // control that is older than these messages is missing
		p.control.wanted, l.wanted = true, true
		return in, 0, nil
	}
	fresh, ok := l.in.take(f.offset, f.body)
	switch {
	case !ok:
		l.wanted = true
	case len(f.body) > 0 && len(fresh) == 0: // it was sent again: the acknowledgement was lost
		l.due = true
	}
	return l.in, p.epoch, fresh
}

// heeded records the new offsets of the peer's control lane. It is accepted at once:
// nothing in it is stored.
func (p *peer) heeded(epoch uint64, in *inbound, d *delivery) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.epoch != epoch {
		return // another process of the bridge runs by now
	}
	c := &p.control
	c.in.received, c.in.parsed, c.in.partial = in.received, in.parsed, in.partial
	c.in.accepted = in.parsed
	if d.urgent {
		c.in.urgent = in.parsed
	}
	p.tellSoon(c)
}

// took records the new offsets of the peer's messages, and ends the delivery.
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
	m := &p.messages.in
	m.received, m.parsed, m.partial = in.received, in.parsed, in.partial
	if d.urgent {
		m.urgent = end
	}
	if end > before {
		a := acceptance{end: end}
		if len(d.outcomes) > 0 {
			a.after = p.ahead().out.end
		}
		m.pending = append(m.pending, a)
	}
	p.mu.Unlock()
	if d.arrival.End(end, func() { p.stored(epoch, end) }) {
		p.stored(epoch, end)
	}
}

// stored notes that the delivery of the peer's messages up to an offset is stored.
func (p *peer) stored(epoch, end uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.epoch != epoch {
		return
	}
	p.messages.in.stored(end)
	p.accept()
}

// tellSoon schedules a frame with the offsets of a lane of the peer, if the peer waits for
// them: for the acceptance of a record, or for room in its window. The caller holds mu.
func (p *peer) tellSoon(l *lane) {
	if l.in.accepted > l.taken && l.in.urgent > l.taken || l.in.received-l.told >= uint64(p.r.o.Window/4) {
		l.due = true
		p.signal()
	}
}
