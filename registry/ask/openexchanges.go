package ask

// An exchangeIndex finds open exchanges by their ids. Those whose ids are numbered, as the
// ids of this process are, stand in a ring by their number: no hash is made for them, and
// nothing of the id that an exchange has is read. Others are in a map, as are those whose place
// in the ring another one still has.
type exchangeIndex struct {
	ids    *IDs // nil if no ids are numbered
	ring   [exchangeRing]*exchange
	inRing int
	byID   map[string]*exchange
}

// exchangeRing is a power of two: a call of a thousand open at once finds its place free
// unless it lasts as long as four thousand others take to come.
const exchangeRing = 4096

// put adds an exchange, in place of one with the same id.
func (x *exchangeIndex) put(e *exchange) {
	var room [64]byte
	e.number = 0
	if n, ok := x.ids.number(append(room[:0], e.id...)); ok {
		place := &x.ring[n%exchangeRing]
		if *place == nil {
			x.inRing++
		}
		if *place == nil || (*place).number == n {
			e.number, *place = n, e
			delete(x.byID, e.id)
			return
		}
	}
	x.byID[e.id] = e
}

// get returns the exchange with an id, nil if there is none.
func (x *exchangeIndex) get(id []byte) *exchange {
	if n, ok := x.ids.number(id); ok {
		if e := x.ring[n%exchangeRing]; e != nil && e.number == n {
			return e
		}
	}
	return x.byID[string(id)]
}

// has reports whether an exchange is there.
func (x *exchangeIndex) has(e *exchange) bool {
	if e.number != 0 {
		return x.ring[e.number%exchangeRing] == e
	}
	return x.byID[e.id] == e
}

// remove takes out an exchange that is there.
func (x *exchangeIndex) remove(e *exchange) {
	if e.number == 0 {
		delete(x.byID, e.id)
		return
	}
	x.ring[e.number%exchangeRing] = nil
	x.inRing--
}

func (x *exchangeIndex) len() int { return x.inRing + len(x.byID) }
