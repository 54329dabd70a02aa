package broker

import (
	"encoding/binary"
	"fmt"
	"io"
	"unicode/utf8"
)

// Opcodes and status codes of WebSocket, RFC 6455 §5.2 and §7.4.1.
const (
	wsContinuation = 0x0
	wsText         = 0x1
	wsBinary       = 0x2
	wsClose        = 0x8
	wsPing         = 0x9
	wsPong         = 0xA

	wsFinal  = 0x80 // of the first byte
	wsMasked = 0x80 // of the second byte

	wsNormal      = 1000
	wsGoingAway   = 1001
	wsBreach      = 1002
	wsUnsupported = 1003
	wsNotText     = 1007
	wsPolicy      = 1008
	wsTryLater    = 1013
)

const (
	mostFrameHeader = 14  // bytes
	mostControl     = 125 // bytes of a control frame
)

// A wsReader takes the frames of a client apart, in whatever pieces they come.
// Messages have no meaning to MQTT: packets lie anywhere in the frames
// [MQTT-6.0.0-2].
type wsReader struct {
	header  [mostFrameHeader]byte // the beginning of one
	have    int                   // bytes of it
	in      bool                  // a frame's payload is next
	opcode  byte
	within  bool   // a message: the next frame of data continues it
	left    uint64 // bytes of the payload
	mask    [4]byte
	at      int    // in the mask
	control []byte // payload of a control frame, as far as it has come
}

// A breachError is a frame that a client must not send.
type breachError struct {
	status uint16
	text   string
}

func (e *breachError) Error() string { return "WebSocket: " + e.text }

func breach(format string, args ...any) error {
	return &breachError{wsBreach, fmt.Sprintf(format, args...)}
}

// take moves the payload of data in b to its front, and returns its length. Frames
// for the client, in answer to its pings and its close, go to answer. The error is
// io.EOF after a close frame; what followed it is dropped.
func (r *wsReader) take(b []byte, answer func(opcode byte, payload []byte) error) (n int, err error) {
	for rest := b; len(rest) > 0; {
		if !r.in {
			k, err := r.begin(rest)
			if err != nil {
				return n, err
			}
			rest = rest[k:]
			if !r.in {
				return n, nil // the header is not complete
			}
		}
		k := int(min(uint64(len(rest)), r.left))
		if r.opcode < wsClose {
			r.unmask(b[n:n+k], rest[:k])
			n += k
		} else {
			r.control = append(r.control, rest[:k]...)
		}
		rest = rest[k:]
		if r.left -= uint64(k); r.left > 0 {
			continue
		}
		r.in = false
		if r.opcode >= wsClose {
			if err := r.obey(answer); err != nil {
				return n, err
			}
		}
	}
	return n, nil
}

// begin takes bytes of a header, and returns how many.
func (r *wsReader) begin(b []byte) (int, error) {
	taken := 0
	for {
		want := headerLength(r.header[:r.have])
		if r.have == want {
			break
		}
		k := copy(r.header[r.have:want], b[taken:])
		if k == 0 {
			return taken, nil
		}
		r.have += k
		taken += k
	}
	r.have = 0
	return taken, r.parse()
}

// headerLength is the length of a header as far as its beginning tells.
func headerLength(h []byte) int {
	if len(h) < 2 {
		return 2
	}
	length := 2
	switch h[1] &^ wsMasked {
	case 126:
		length += 2
	case 127:
		length += 8
	}
	if h[1]&wsMasked != 0 {
		length += 4
	}
	return length
}

// parse reads a header that is complete.
func (r *wsReader) parse() error {
	h := r.header[:]
	final, opcode := h[0]&wsFinal != 0, h[0]&0xF
	if h[0]&0x70 != 0 {
		return breach("a reserved bit is set")
	}
	if h[1]&wsMasked == 0 {
		return breach("a frame is not masked")
	}
	r.left = uint64(h[1] &^ wsMasked)
	h = h[2:]
	switch r.left {
	case 126:
		r.left, h = uint64(binary.BigEndian.Uint16(h)), h[2:]
		if r.left < 126 {
			return breach("a length is longer than needed")
		}
	case 127:
		r.left, h = binary.BigEndian.Uint64(h), h[8:]
		if r.left < 1<<16 || r.left >= 1<<63 {
			return breach("a length is longer than needed, or than allowed")
		}
	}
	copy(r.mask[:], h)
	r.in, r.at, r.opcode = true, 0, opcode
	switch opcode {
	case wsClose, wsPing, wsPong:
		if !final || r.left > mostControl {
			return breach("a control frame is fragmented or longer than %d bytes", mostControl)
		}
		return nil
	case wsContinuation:
		if !r.within {
			return breach("a continuation of nothing")
		}
	case wsBinary:
		if r.within {
			return breach("a message begins within another")
		}
	case wsText:
		return &breachError{wsUnsupported, "frames of MQTT are binary"} // [MQTT-6.0.0-1]
	default:
		return breach("opcode %#x is reserved", opcode)
	}
	r.within = !final
	return nil
}

// unmask writes payload without its mask to dst, which begins at payload or before it
// in the same buffer.
func (r *wsReader) unmask(dst, payload []byte) {
	for r.at != 0 && len(payload) > 0 {
		dst[0] = payload[0] ^ r.mask[r.at]
		dst, payload = dst[1:], payload[1:]
		r.at = (r.at + 1) & 3
	}
	key := binary.LittleEndian.Uint32(r.mask[:])
	for wide := uint64(key)<<32 | uint64(key); len(payload) >= 8; dst, payload = dst[8:], payload[8:] {
		binary.LittleEndian.PutUint64(dst, binary.LittleEndian.Uint64(payload)^wide)
	}
	for i := range payload {
		dst[i] = payload[i] ^ r.mask[r.at]
		r.at = (r.at + 1) & 3
	}
}

// obey does what a complete control frame asks for.
func (r *wsReader) obey(answer func(byte, []byte) error) error {
	payload := r.control
	r.control = nil
	r.unmask(payload, payload)
	switch r.opcode {
	case wsPing:
		return answer(wsPong, payload)
	case wsClose:
		if err := closeIsValid(payload); err != nil {
			return err
		}
		if err := answer(wsClose, payload[:min(len(payload), 2)]); err != nil {
			return err
		}
		return io.EOF
	}
	return nil
}

// closeIsValid judges the payload of a close frame.
func closeIsValid(payload []byte) error {
	if len(payload) == 0 {
		return nil
	}
	if len(payload) == 1 {
		return breach("a status of one byte")
	}
	switch status := binary.BigEndian.Uint16(payload); {
	case status >= 1000 && status <= 1014 && (status < 1004 || status > 1006), status >= 3000 && status < 5000:
	default:
		return breach("nobody closes with status %d", status)
	}
	if !utf8.Valid(payload[2:]) {
		return &breachError{wsNotText, "the reason for closing is not UTF-8"}
	}
	return nil
}

// appendFrameHeader appends the header of a final frame from a server.
func appendFrameHeader(b []byte, opcode byte, length int) []byte {
	b = append(b, wsFinal|opcode)
	switch {
	case length < 126:
		return append(b, byte(length))
	case length < 1<<16:
		return binary.BigEndian.AppendUint16(append(b, 126), uint16(length))
	}
	return binary.BigEndian.AppendUint64(append(b, 127), uint64(length))
}

// closing is the payload of a close frame.
func closing(status uint16, text string) []byte {
	return append(binary.BigEndian.AppendUint16(nil, status), text...)
}
