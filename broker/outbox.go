package broker

import (
	"sync"
	"unsafe"
)

// An outbox holds encoded packets on their way to one connection. Bytes are
// either the outbox's own, in pooled chunks, or shared: they lie in a buffer
// of the turn that put them here and must be gone, written or copied, when
// that turn ends. While the outbox is blocked everything in it is its own.
type outbox struct {
	segs    []seg
	off     int // bytes of segs[0] already written
	head    int // bytes at the start of segs[0] that finish a packet written in part
	size    int // bytes queued
	blocked bool
}

// A seg holds whole packets, but for the first head bytes of the first.
type seg struct {
	b   []byte
	own bool
}

// Chunk sizes of what outboxes own: small for acknowledgements, larger the
// more is waiting.
const (
	smallChunk = 2 << 10
	largeChunk = 32 << 10
)

var (
	smallChunks = sync.Pool{New: func() any { return new([smallChunk]byte) }}
	largeChunks = sync.Pool{New: func() any { return new([largeChunk]byte) }}
)

// chunk returns an empty buffer with room for n bytes.
func chunk(n int) []byte {
	switch {
	case n <= smallChunk:
		return smallChunks.Get().(*[smallChunk]byte)[:0]
	case n <= largeChunk:
		return largeChunks.Get().(*[largeChunk]byte)[:0]
	}
	return make([]byte, 0, n)
}

// recycle takes back what chunk gave.
func recycle(b []byte) {
	switch cap(b) {
	case smallChunk:
		smallChunks.Put((*[smallChunk]byte)(b[:smallChunk]))
	case largeChunk:
		largeChunks.Put((*[largeChunk]byte)(b[:largeChunk]))
	}
}

// room returns a buffer with n bytes of spare capacity to append one packet to.
func (o *outbox) room(n int) *[]byte {
	o.size += n
	if last := len(o.segs) - 1; last >= 0 {
		if s := &o.segs[last]; s.own && cap(s.b)-len(s.b) >= n {
			return &s.b
		}
		if o.segs[last].own {
			n = max(n, largeChunk)
		}
	}
	o.segs = append(o.segs, seg{chunk(n), true})
	return &o.segs[len(o.segs)-1].b
}

// add copies whole packets into the outbox.
func (o *outbox) add(b []byte) {
	p := o.room(len(b))
	*p = append(*p, b...)
}

// share puts a whole packet into the outbox that lies in a buffer of the
// current turn. Packets that lie one after the other stay one segment.
func (o *outbox) share(b []byte) {
	o.size += len(b)
	if last := len(o.segs) - 1; last >= 0 {
		s := &o.segs[last]
		if !s.own && cap(s.b)-len(s.b) >= len(b) &&
			unsafe.Pointer(unsafe.SliceData(b)) == unsafe.Add(unsafe.Pointer(unsafe.SliceData(s.b)), len(s.b)) {
			s.b = s.b[:len(s.b)+len(b)]
			return
		}
	}
	o.segs = append(o.segs, seg{b, false})
}

// wrote records that the first n bytes are written and lets go of them.
func (o *outbox) wrote(n int) {
	o.size -= n
	n += o.off
	done := 0
	for done < len(o.segs) && n >= len(o.segs[done].b) {
		n -= len(o.segs[done].b)
		if o.segs[done].own {
			recycle(o.segs[done].b)
		}
		o.head = 0
		done++
	}
	o.off = n
	switch {
	case done == len(o.segs):
		o.reset()
	case done > 0:
		o.segs = append(o.segs[:0], o.segs[done:]...)
	}
}

// reset empties the segments and keeps a little of their memory.
func (o *outbox) reset() {
	clear(o.segs)
	o.segs = o.segs[:0]
	if cap(o.segs) > 8 {
		o.segs = nil
	}
	o.off, o.head, o.size = 0, 0, 0
}

// lasts reports whether the outbox refers to nothing of the present turn.
func (o *outbox) lasts() bool {
	for i := range o.segs {
		if !o.segs[i].own {
			return false
		}
	}
	return true
}

// drop empties the outbox.
func (o *outbox) drop() {
	for _, s := range o.segs {
		if s.own {
			recycle(s.b)
		}
	}
	o.reset()
}

// settle makes everything the outbox's own, for after the turn.
func (o *outbox) settle() {
	if len(o.segs) == 0 {
		return
	}
	boundary := o.boundary()
	old, off, size := o.segs, o.off, o.size
	o.segs, o.off, o.head, o.size = nil, 0, boundary-off, 0
	for i, s := range old {
		if s.own && (i > 0 || off == 0) {
			o.segs = append(o.segs, s)
			continue
		}
		b := s.b
		if i == 0 {
			b = b[off:]
			p := o.room(len(b)) // may start within a packet: a segment of its own
			*p = append(*p, b...)
		} else {
			o.addPackets(b)
		}
		if s.own {
			recycle(s.b)
		}
	}
	o.size = size
}

// addPackets copies packets, splitting between them where a chunk is full.
func (o *outbox) addPackets(b []byte) {
	for len(b) > 0 {
		n := 0
		for n < len(b) {
			next := n + packetLen(b[n:])
			if n > 0 && next > largeChunk {
				break
			}
			n = next
		}
		o.add(b[:n])
		b = b[n:]
	}
}

// boundary is the offset in the first segment of the first packet of which
// nothing is written.
func (o *outbox) boundary() int {
	b, at := o.segs[0].b, o.head
	for at < o.off {
		at += packetLen(b[at:])
	}
	return at
}

// cut drops every packet of which nothing is written.
func (o *outbox) cut() {
	if len(o.segs) == 0 {
		return
	}
	at := o.boundary()
	for _, s := range o.segs[1:] {
		if s.own {
			recycle(s.b)
		}
	}
	clear(o.segs[1:])
	o.segs = o.segs[:1]
	o.segs[0].b = o.segs[0].b[:at]
	o.size = at - o.off
	if o.size == 0 {
		o.drop()
	}
}

// packetLen is the length of the packet at the start of b, which we encoded.
func packetLen(b []byte) int {
	n, shift := 0, 0
	for i := 1; ; i++ {
		n |= int(b[i]&0x7F) << shift
		if b[i] < 0x80 {
			return n + i + 1
		}
		shift += 7
	}
}
