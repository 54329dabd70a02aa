package relay

// An inbound is the stream from a peer.
type inbound struct {
	synced   bool   // it is known where the stream begins
	received uint64 // without a gap
	parsed   uint64 // to the end of the last whole record
	accepted uint64
	urgent   uint64 // up to here the peer waits for acceptance
	marked   uint64 // offset up to which an earlier process of this bridge has stored it
	partial  []byte // the start of a record
	pending  []acceptance
}

// An acceptance is a part of the stream that is delivered.
type acceptance struct {
	end    uint64
	stored bool
	// after is the offset that the peer must have received of the stream to it before
	// the acceptance: the outcomes of the messages are sent before it.
	after uint64
}

// take returns the new ones of the bytes at an offset; ok is false if bytes before them
// are missing.
func (in *inbound) take(offset uint64, body []byte) (fresh []byte, ok bool) {
	if offset > in.received {
		return nil, false
	}
	if skip := in.received - offset; skip < uint64(len(body)) {
		return body[skip:], true
	}
	return nil, true
}

// mostRecord is the greatest size of a record, in bytes.
const mostRecord = 300 << 20

// records calls take with every whole record in the stream once some bytes are
// added, and the offset of its end. It keeps the rest.
func (in *inbound) records(fresh []byte, take func(kind byte, body []byte, end uint64) error) error {
	in.received += uint64(len(fresh))
	b := fresh
	if len(in.partial) > 0 {
		in.partial = append(in.partial, fresh...)
		b = in.partial
	}
	for len(b) > 0 {
		head, size := recordSize(b)
		if size > mostRecord || size > 0 && size == head {
			return errFrame
		}
		if size == 0 && len(b) >= 10 {
			return errFrame
		}
		if size == 0 || size > len(b) {
			break
		}
		in.parsed += uint64(size)
		if err := take(b[head], b[head+1:size], in.parsed); err != nil {
			return err
		}
		b = b[size:]
	}
	in.keep(b)
	return nil
}

// keep keeps the start of a record.
func (in *inbound) keep(b []byte) {
	if len(b) == 0 {
		in.partial = nil
		return
	}
	if _, size := recordSize(b); size > cap(in.partial) && size <= mostRecord {
		in.partial = append(make([]byte, 0, min(size, 1<<20)), b...)
		return
	}
	in.partial = append(in.partial[:0], b...) // b may be a later part of it, which moves to the front
}

// begin is the place where the stream of another process of the peer begins.
func (in *inbound) begin(at uint64) {
	*in = inbound{synced: true, received: at, parsed: at, accepted: at, marked: in.marked}
}

// accept advances the accepted offset as far as deliveries are stored and their
// outcomes received.
func (in *inbound) accept(peerReceived uint64) {
	done := 0
	for done < len(in.pending) && in.pending[done].stored && peerReceived >= in.pending[done].after {
		in.accepted = in.pending[done].end
		done++
	}
	if in.pending = append(in.pending[:0], in.pending[done:]...); len(in.pending) == 0 && cap(in.pending) > 256 {
		in.pending = nil
	}
}

// stored notes that the delivery that ends at an offset is stored.
func (in *inbound) stored(end uint64) {
	for i := range in.pending {
		if in.pending[i].end == end {
			in.pending[i].stored = true
		}
	}
}
