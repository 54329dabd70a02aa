package relay

import (
	"encoding/binary"
	"errors"
)

// A frame is the unit of transport between two bridges: some bytes of a lane, and the
// offsets received and accepted of its stream in the other direction.
type frame struct {
	hello    bool   // received: where the messages of the other side may begin; nothing else counts
	resend   bool   // the other side is to send again from received
	control  bool   // of the lane of control, otherwise of messages
	ordered  bool   // after counts
	from, to uint64 // epochs of the processes
	start    uint64 // where the stream begins for this receiver
	offset   uint64 // of the body in the stream
	received uint64 // of the other stream, without a gap
	accepted uint64 // of it: need not be kept any more
	after    uint64 // offset in the lane of control that comes before these messages
	body     []byte
}

// Kinds of frames. Those behind kindResend are sent only to a process that knows of the
// lane of control.
const (
	kindHello byte = iota + 1
	kindData
	kindResend
	kindControl
	kindControlResend
	kindOrdered
	kindOrderedResend
)

const (
	frameVersion = 1
	headerBytes  = 2 + 6*8
	afterBytes   = 8
	mostFrame    = 64 << 10
	// maxBody is the part of a stream that a frame carries.
	maxBody = mostFrame - headerBytes - afterBytes
)

var errFrame = errors.New("relay: a frame is malformed")

// kind is the byte of the frame's kind.
func (f *frame) kind() byte {
	kind := kindData
	switch {
	case f.hello:
		return kindHello
	case f.control:
		kind = kindControl
	case f.ordered:
		kind = kindOrdered
	}
	if f.resend {
		kind++
	}
	return kind
}

// append encodes the frame.
func (f *frame) append(dst []byte) []byte {
	dst = append(dst, frameVersion, f.kind())
	for _, v := range [...]uint64{f.from, f.to, f.start, f.offset, f.received, f.accepted} {
		dst = binary.LittleEndian.AppendUint64(dst, v)
	}
	if f.ordered {
		dst = binary.LittleEndian.AppendUint64(dst, f.after)
	}
	return append(dst, f.body...)
}

// decode parses a frame. The body refers to b.
func (f *frame) decode(b []byte) error {
	if len(b) < headerBytes || len(b) > mostFrame || b[0] != frameVersion || b[1] < kindHello || b[1] > kindOrderedResend {
		return errFrame
	}
	kind := b[1]
	f.hello = kind == kindHello
	f.resend = kind == kindResend || kind == kindControlResend || kind == kindOrderedResend
	f.control = kind == kindControl || kind == kindControlResend
	f.ordered = kind >= kindOrdered
	for i, v := range [...]*uint64{&f.from, &f.to, &f.start, &f.offset, &f.received, &f.accepted} {
		*v = binary.LittleEndian.Uint64(b[2+8*i:])
	}
	f.body = b[headerBytes:]
	if f.ordered {
		if len(f.body) < afterBytes {
			return errFrame
		}
		f.after, f.body = binary.LittleEndian.Uint64(f.body), f.body[afterBytes:]
	}
	if f.offset+uint64(len(f.body)) < f.offset || f.accepted > f.received || f.hello && len(f.body) > 0 {
		return errFrame
	}
	return nil
}
