package relay

import (
	"encoding/binary"
	"slices"
)

// A Part is something of a bridge that speaks with the same part of the others:
// tells all of them what is so, and says things to one. What it says travels in
// the stream between two processes, in its order and once; what is on its way
// when one of them ends is lost.
type Part interface {
	// Everything calls tell with all that the part tells the others, while none of
	// it changes.
	Everything(tell func(body []byte))
	// Told takes what the part of a bridge tells. It must neither block nor
	// publish, and keeps nothing of the body.
	Told(from Node, body []byte)
	// Began and Ended enclose all that the part of a bridge tells: what it told
	// before, and does not now, is so no more.
	Began(from Node)
	Ended(from Node)
	// Said takes what the part of a bridge says to this one. It must not wait for
	// long, and keeps nothing of the body.
	Said(from Node, body []byte)
	// Gone says that a process is no more, and with it all that it told.
	Gone(from Node)
}

// A Voice is a part's, to speak with.
type Voice struct {
	r      *Relay
	number byte
}

// Join makes a part one of this bridge. Its number is the same at all bridges,
// which have the same parts. It is called before [Relay.Start].
func (r *Relay) Join(number byte, p Part) *Voice {
	r.parts[number] = p
	return &Voice{r, number}
}

// Marks of what parts say.
const (
	partBegan = 1 << iota // all that it tells follows
	partEnded             // that was all
	partSaid              // to this bridge alone
)

// maxParts bounds the numbers of parts.
const maxParts = 8

// Tell tells all bridges something that [Part.Everything] tells from now on, or no
// more. A subscription that is made later is acknowledged when they know.
func (v *Voice) Tell(body []byte) {
	r := v.r
	for _, p := range r.all() {
		p.tell(v.number, body)
	}
	r.told.Store(true)
	r.announceSoon()
}

// tell tells the peer something, unless it is to be told everything.
func (p *peer) tell(number byte, body []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.state != open || !p.informed:
	case p.out.held() > 4*p.r.o.Outbox: // or a bridge that stands still would take all memory
		p.informed, p.outdated = false, true
	default:
		p.speak(number, 0, body)
		p.signal()
	}
}

// Say says something to one process. It reports false if that is not there.
func (v *Voice) Say(to Node, body []byte) bool {
	p := v.r.peer(to.ID)
	if p == nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state != open || p.epoch != to.Epoch || p.out.held() > 8*p.r.o.Outbox {
		return false
	}
	p.speak(v.number, partSaid, binary.LittleEndian.AppendUint64(make([]byte, 0, 8+len(body)), to.Epoch), body)
	p.signal()
	return true
}

// speak adds to the stream what a part says. mu is held.
func (p *peer) speak(number, marks byte, body ...[]byte) {
	size := 2
	for _, b := range body {
		size += len(b)
	}
	var before [16]byte
	p.out.append(append(appendRecord(before[:0], recPart, size), number, marks))
	for _, b := range body {
		p.out.append(b)
	}
}

// inform tells the peer everything that the parts tell, if it is to be told all
// anew and there is room.
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

// beginAnew reports whether the peer is to be told everything. What parts tell
// from now on comes in between, and is told twice at most.
func (p *peer) beginAnew() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state != open || !p.outdated || p.adopted || p.out.held() > p.r.o.Outbox {
		return false
	}
	p.informed = true
	return true
}

func (p *peer) enclose(number, marks byte, body ...[]byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.speak(number, marks, body...)
}

// A saying is what a part says to this bridge alone.
type saying struct {
	part Part
	body []byte
}

// heard takes what a part of the peer says. What it says to this bridge alone is
// kept until the broker is free to publish.
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
		if binary.LittleEndian.Uint64(body) == d.p.r.o.Self.Epoch { // or it was said to the process before
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

// sayTo has the parts here hear what was said to them.
func (d *delivery) sayTo() {
	for _, s := range d.said {
		s.part.Said(d.from, s.body)
	}
}

// goneTo tells the parts that a process of the peer is no more. What it has said is
// heard before.
func (p *peer) goneTo(process Node) {
	p.taking.Lock()
	defer p.taking.Unlock()
	for _, part := range p.r.parts {
		if part != nil {
			part.Gone(process)
		}
	}
}
