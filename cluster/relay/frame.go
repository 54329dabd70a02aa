package relay

import (
	"encoding/binary"
	"errors"
)

// A frame is the unit of transport between two bridges: some bytes of a stream, and the
// offsets received and accepted of the stream in the other direction.
type frame struct {
	kind     byte
	from, to uint64 // epochs of the processes
	start    uint64 // where the stream begins for this receiver
	offset   uint64 // of the body in the stream
	received uint64 // of the other stream, without a gap
	accepted uint64 // of it: need not be kept any more
	body     []byte
}

// Kinds of frames.
const (
	hello  byte = iota + 1 // received: where the other stream may begin; nothing else counts
	data                   // some bytes of the stream, or none
	resend                 // the same, with a request to send the other stream again from received
)

const (
	frameVersion = 1
	headerBytes  = 2 + 6*8
	// maxBody is the part of a stream that a frame carries, so that it has 64 KiB at
	// most.
	maxBody = 64<<10 - headerBytes
)

var errFrame = errors.New("relay: a frame is malformed")

// append encodes the frame.
func (f *frame) append(dst []byte) []byte {
	dst = append(dst, frameVersion, f.kind)
	for _, v := range [...]uint64{f.from, f.to, f.start, f.offset, f.received, f.accepted} {
		dst = binary.LittleEndian.AppendUint64(dst, v)
	}
	return append(dst, f.body...)
}

// decode parses a frame. The body refers to b.
func (f *frame) decode(b []byte) error {
	if len(b) < headerBytes || len(b) > headerBytes+maxBody || b[0] != frameVersion || b[1] < hello || b[1] > resend {
		return errFrame
	}
	f.kind = b[1]
	for i, v := range [...]*uint64{&f.from, &f.to, &f.start, &f.offset, &f.received, &f.accepted} {
		*v = binary.LittleEndian.Uint64(b[2+8*i:])
	}
	f.body = b[headerBytes:]
	if f.offset+uint64(len(f.body)) < f.offset || f.accepted > f.received || f.kind == hello && len(f.body) > 0 {
		return errFrame
	}
	return nil
}
