package relay

import (
	"cmp"
	"slices"
	"time"

	"github.com/aibridge/aibridge/broker"
)

// An outbound is the stream to a peer: the bytes not accepted yet, and the records with
// work due on acceptance.
type outbound struct {
	base     uint64 // the peer has accepted all before
	received uint64 // and received all before this
	sent     uint64 // offset of the next byte to send
	end      uint64
	first    uint64 // offset of the first chunk
	chunks   [][]byte

	waiting []awaited // in the order of offsets
	from    int       // of these: the first that still waits
}

// An awaited is a record with work due on its acceptance: an answer to a publisher, or
// to a waiter of a round.
type awaited struct {
	end     uint64 // of the record
	size    int    // of a message for groups, which may be returned to be offered to other members; 0 for other records
	qos     byte
	receipt broker.Answerer
	outcome broker.Outcome
	// announced marks the last announcement of a round.
	announced bool
	round     uint64
	since     time.Time // it is an announcement or a message of a part; else zero
}

const chunkBytes = maxBody

// append adds bytes to the stream.
func (o *outbound) append(b []byte) {
	o.end += uint64(len(b))
	for len(b) > 0 {
		last := len(o.chunks) - 1
		if last < 0 || len(o.chunks[last]) == chunkBytes {
			o.chunks = append(o.chunks, make([]byte, 0, chunkBytes))
			last++
		}
		n := min(len(b), chunkBytes-len(o.chunks[last]))
		o.chunks[last] = append(o.chunks[last], b[:n]...)
		b = b[n:]
	}
}

// await adds work to be done when the peer has accepted the stream up to its present
// end.
func (o *outbound) await(w awaited) {
	if o.from > 1024 && o.from > len(o.waiting)/2 {
		n := copy(o.waiting, o.waiting[o.from:])
		clear(o.waiting[n:])
		o.waiting, o.from = o.waiting[:n], 0
	}
	w.end = o.end
	o.waiting = append(o.waiting, w)
}

// unheard is the time of the oldest announcement, or message of a part, that the peer has
// not accepted; zero if there is none.
func (o *outbound) unheard() time.Time {
	for i := o.from; i < len(o.waiting); i++ {
		if w := &o.waiting[i]; !w.since.IsZero() {
			return w.since
		}
	}
	return time.Time{}
}

// held is the number of bytes that the peer has not accepted.
func (o *outbound) held() int { return int(o.end - o.base) }

// next returns bytes to send: from one chunk, and no further than a window ahead of the
// offset that the peer has received.
func (o *outbound) next(window int) []byte {
	limit := min(o.end, o.received+uint64(window))
	if o.sent >= limit {
		return nil
	}
	at := int(o.sent - o.first)
	chunk := o.chunks[at/chunkBytes]
	part := chunk[at%chunkBytes:]
	return part[:min(uint64(len(part)), limit-o.sent)]
}

// rewind makes all bytes due again that the peer has not received.
func (o *outbound) rewind() { o.sent = max(o.received, o.base) }

// acknowledged notes the offsets that the peer has received and accepted, and returns
// the records accepted by that. The result is valid until the next call.
func (o *outbound) acknowledged(received, accepted uint64) []awaited {
	if received > o.end || accepted > received || received < o.base {
		return nil // outdated, or beyond the stream
	}
	o.received = max(o.received, received)
	o.sent = max(o.sent, o.received)
	if accepted <= o.base {
		return nil
	}
	o.base = accepted
	o.trim()
	done := o.from
	for o.from < len(o.waiting) && o.waiting[o.from].end <= accepted {
		o.from++
	}
	ready := o.waiting[done:o.from]
	if o.from == len(o.waiting) {
		o.waiting, o.from = o.waiting[:0], 0
		if cap(o.waiting) > 4096 {
			o.waiting = nil
		}
	}
	return ready
}

// trim lets go of the chunks that the peer has accepted. One is kept, to be
// filled again.
func (o *outbound) trim() {
	n := int(o.base-o.first) / chunkBytes
	n = min(n, len(o.chunks))
	if n == 0 {
		if o.base == o.end && len(o.chunks) == 1 && o.sent == o.end {
			o.chunks[0], o.first = o.chunks[0][:0], o.end
		}
		return
	}
	clear(o.chunks[:n])
	o.chunks = append(o.chunks[:0], o.chunks[n:]...)
	o.first += uint64(n) * chunkBytes
}

// told notes the outcome of the message that ends at an offset.
func (o *outbound) told(end uint64, outcome broker.Outcome) {
	waiting := o.waiting[o.from:]
	i, found := slices.BinarySearchFunc(waiting, end, func(w awaited, end uint64) int { return cmp.Compare(w.end, end) })
	if found {
		waiting[i].outcome = outcome
	}
}

// takeBack returns the message that ends at an offset, to be offered to other members
// of its groups, and takes over the duty to answer its publisher.
func (o *outbound) takeBack(end uint64) (m []byte, w awaited) {
	waiting := o.waiting[o.from:]
	i, found := slices.BinarySearchFunc(waiting, end, func(w awaited, end uint64) int { return cmp.Compare(w.end, end) })
	if !found || waiting[i].size == 0 {
		return nil, awaited{}
	}
	w = waiting[i]
	waiting[i].receipt, waiting[i].size = nil, 0
	return o.bytes(end-uint64(w.size), end), w
}

// bytes returns a copy of the stream between two offsets.
func (o *outbound) bytes(from, to uint64) []byte {
	b := make([]byte, 0, to-from)
	for from < to {
		at := int(from - o.first)
		part := o.chunks[at/chunkBytes][at%chunkBytes:]
		part = part[:min(uint64(len(part)), to-from)]
		b = append(b, part...)
		from += uint64(len(part))
	}
	return b
}

// begin starts the stream to a process of the peer that has accepted it up to an
// offset, and returns the records accepted by that.
func (o *outbound) begin(marked uint64) []awaited {
	o.received = o.base
	if marked > o.end {
		marked = o.base
	}
	ready := o.acknowledged(max(marked, o.base), max(marked, o.base))
	o.received, o.sent = o.base, o.base
	return ready
}

// giveUp returns all waiting records, and drops everything but the offset of the end:
// the peer may have stored offsets of this stream.
func (o *outbound) giveUp() []awaited {
	all := o.waiting[o.from:]
	*o = streamFrom(o.end)
	return all
}

// streamFrom is a stream of which nothing before an offset is sent.
func streamFrom(at uint64) outbound {
	return outbound{base: at, received: at, sent: at, end: at, first: at}
}
