package broker

// A window holds the publishes a client has not acknowledged, in the order
// they were sent. A packet identifier is the position of its slot, so every
// step takes constant time and memory grows no further than the client's
// Receive Maximum.
type window struct {
	slots       []slot // slots[id-1]; 0 in the links means none
	first, last uint16 // oldest and newest in use
	free, freed uint16 // oldest and newest free slot: ids rest before they are used again
	used        int
	unsent      uint16 // oldest that this connection has not been sent
}

// States of a slot.
type slotState byte

const (
	slotFree     slotState = iota
	awaitPuback            // QoS 1
	awaitPubrec            // QoS 2
	awaitPubcomp           // QoS 2, PUBREC came
)

type slot struct {
	next, prev uint16
	state      slotState
	sent       bool // on this connection
	dup        bool // sent on an earlier one
	counted    bool // takes from the client's Receive Maximum
	pending         // what to send again; msg is nil where the session ends with its connection
}

// add takes an identifier for p; it must not hold 65 535 already.
func (w *window) add(p *pending, state slotState) (id uint16, s *slot) {
	if w.free == 0 {
		w.slots = append(w.slots, slot{})
		id = uint16(len(w.slots))
	} else {
		id = w.free
		w.unfree(id)
	}
	s = &w.slots[id-1]
	*s = slot{}
	s.prev, s.state, s.pending = w.last, state, *p
	w.link(id)
	return id, s
}

func (w *window) link(id uint16) {
	if w.last != 0 {
		w.slots[w.last-1].next = id
	} else {
		w.first = id
	}
	w.last = id
	w.used++
}

// restore puts p back under the identifier it had.
func (w *window) restore(id uint16, p pending, state slotState) {
	for len(w.slots) < int(id) {
		w.slots = append(w.slots, slot{})
		w.release(uint16(len(w.slots)))
	}
	if w.slots[id-1].state == slotFree {
		w.unfree(id)
	}
	w.slots[id-1] = slot{prev: w.last, state: state, pending: p, dup: true}
	w.link(id)
}

// unfree takes a free identifier out of the list of these.
func (w *window) unfree(id uint16) {
	s := &w.slots[id-1]
	if s.prev != 0 {
		w.slots[s.prev-1].next = s.next
	} else {
		w.free = s.next
	}
	if s.next != 0 {
		w.slots[s.next-1].prev = s.prev
	} else {
		w.freed = s.prev
	}
}

// get returns the slot of an identifier in use, or nil.
func (w *window) get(id uint16) *slot {
	if id == 0 || int(id) > len(w.slots) || w.slots[id-1].state == slotFree {
		return nil
	}
	return &w.slots[id-1]
}

// remove gives an identifier in use back.
func (w *window) remove(id uint16) {
	s := &w.slots[id-1]
	if s.prev != 0 {
		w.slots[s.prev-1].next = s.next
	} else {
		w.first = s.next
	}
	if s.next != 0 {
		w.slots[s.next-1].prev = s.prev
	} else {
		w.last = s.prev
	}
	if w.unsent == id {
		w.unsent = s.next
	}
	w.used--
	if w.used == 0 && len(w.slots) > 64 {
		*w = window{} // a burst is over
		return
	}
	w.release(id)
}

func (w *window) release(id uint16) {
	w.slots[id-1] = slot{prev: w.freed}
	if w.freed != 0 {
		w.slots[w.freed-1].next = id
	} else {
		w.free = id
	}
	w.freed = id
}

// rewind marks everything as not sent, for a new connection.
func (w *window) rewind() {
	for id := w.first; id != 0; id = w.slots[id-1].next {
		s := &w.slots[id-1]
		s.dup = s.dup || s.sent
		s.sent, s.counted = false, false
	}
	w.unsent = w.first
}
