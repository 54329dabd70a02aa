package relay

import (
	"encoding/binary"
	"slices"
	"time"
)

// A Part is a component of a bridge that exchanges messages with its counterparts on
// the other bridges: state published to all of them, and messages to one. The messages
// travel in the lane of control between two processes, in order and exactly once, but for
// those of [Voice.SayBehind]; those on their way are lost when one of the processes ends.
type Part interface {
	// Everything calls tell with the whole state that the part publishes, while it does
	// not change.
	Everything(tell func(body []byte))
	// Told receives a piece of the state of the part on another bridge. It must neither
	// block nor publish, and must not retain the body.
	Told(from Node, body []byte)
	// Began and Ended enclose the whole state of the part on another bridge: earlier
	// pieces that are missing in it are no longer valid.
	Began(from Node)
	Ended(from Node)
	// Said receives a message of the part on another bridge to this one. It must not
	// block for long, and must not retain the body.
	Said(from Node, body []byte)
	// Gone reports the end of a process, and with it of all the state that it
	// published.
	Gone(from Node)
}

// A Voice sends the messages of a [Part].
type Voice struct {
	r      *Relay
	number byte
}

// Join adds a part to this bridge. All bridges have the same parts under the same
// numbers. It must be called before [Relay.Start].
func (r *Relay) Join(number byte, p Part) *Voice {
	r.parts[number] = p
	return &Voice{r, number}
}

// Marks of the messages of parts.
const (
	partBegan = 1 << iota // start of the whole state
	partEnded             // end of the whole state
	partSaid              // a message to this bridge alone
)

// maxParts is the number of parts that a bridge can have.
const maxParts = 8

// Tell publishes a change of the state of [Part.Everything] to all bridges. A
// subscription made afterwards is acknowledged only when they know the change.
func (v *Voice) Tell(body []byte) {
	r := v.r
	for _, p := range r.all() {
		p.tell(v.number, body)
	}
	r.told.Store(true)
	r.announceSoon()
}

// tell sends a piece of state to the peer, unless the peer gets the whole state anyway.
func (p *peer) tell(number byte, body []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.state != open || !p.informed:
	case p.ahead().out.held() > 4*p.r.o.Outbox: // bounds the memory that a stalled bridge takes
		p.informed, p.outdated = false, true
	default:
		p.speak(p.ahead(), number, 0, body)
		p.signal()
	}
}

// Say sends a message to one process, ahead of the publications that wait for it. It
// reports false if there is no stream to it or that stream is full.
func (v *Voice) Say(to Node, body []byte) bool { return v.say(to, (*peer).ahead, body) }

// SayBehind is Say behind all publications relayed to the process until now. Messages
// sent by Say may overtake it.
func (v *Voice) SayBehind(to Node, body []byte) bool {
	return v.say(to, func(p *peer) *lane { return &p.messages }, body)
}

func (v *Voice) say(to Node, by func(*peer) *lane, body []byte) bool {
	p := v.r.peer(to.ID)
	if p == nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	l := by(p)
	if p.state != open || p.epoch != to.Epoch || l.out.held() > 8*p.r.o.Outbox {
		return false
	}
	p.speak(l, v.number, partSaid, binary.LittleEndian.AppendUint64(make([]byte, 0, 8+len(body)), to.Epoch), body)
	p.signal()
	return true
}

// speak adds a message of a part to a lane. The caller holds mu.
func (p *peer) speak(by *lane, number, marks byte, body ...[]byte) {
	size := 2
	for _, b := range body {
		size += len(b)
	}
	var before [16]byte
	by.out.append(append(appendRecord(before[:0], recPart, size), number, marks))
	for _, b := range body {
		by.out.append(b)
	}
	if by == p.ahead() {
		by.out.await(awaited{since: time.Now()})
	}
}

// inform sends the whole state of all parts to an outdated peer, if there is room.
func (p *peer) inform() {
	if !p.beginAnew() {
		return
	}
	for i, part := range p.r.parts {
		if part == nil {
			continue
		}
		number := byte(i)
		p.enclose(number, partBegan)
		part.Everything(func(body []byte) { p.enclose(number, 0, body) })
		p.enclose(number, partEnded)
	}
}

// beginAnew reports whether the peer is to get the whole state of the parts, and
// enables [Voice.Tell] for it. Later changes are sent in between, so that the peer may
// receive them twice.
func (p *peer) beginAnew() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state != open || !p.outdated || p.adopted || p.ahead().out.held() > p.r.o.Outbox {
		return false
	}
	p.informed = true
	return true
}

func (p *peer) enclose(number, marks byte, body ...[]byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.speak(p.ahead(), number, marks, body...)
}

// A saying is a message of a part to this bridge alone.
type saying struct {
	part Part
	body []byte
}

// heard passes on a message of a part of the peer. Messages to this bridge alone are
// held until the broker is free to publish.
func (d *delivery) heard(body []byte) error {
	if len(body) < 2 || body[0] >= maxParts {
		return errFrame
	}
	part, marks, body := d.p.r.parts[body[0]], body[1], body[2:]
	switch {
	case part == nil: // of a later version
	case marks&partSaid != 0:
		if len(body) < 8 {
			return errFrame
		}
		if binary.LittleEndian.Uint64(body) == d.p.r.o.Self.Epoch { // otherwise it was for the previous process
			d.said = append(d.said, saying{part, slices.Clone(body[8:])})
		}
	case marks&partBegan != 0:
		part.Began(d.from)
	case marks&partEnded != 0:
		part.Ended(d.from)
	default:
		part.Told(d.from, body)
	}
	d.urgent = d.urgent || marks&partSaid == 0
	return nil
}

// sayTo passes the held messages on to the parts here.
func (d *delivery) sayTo() {
	for _, s := range d.said {
		s.part.Said(d.from, s.body)
	}
}

// goneTo reports the end of a process of the peer to the parts, after all its messages.
func (p *peer) goneTo(process Node) {
	p.taking.Lock()
	defer p.taking.Unlock()
	for _, part := range p.r.parts {
		if part != nil {
			part.Gone(process)
		}
	}
}
