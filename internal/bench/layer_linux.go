package bench

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// A layer lies between the packets of a connection and its socket.
type layer interface {
	// open appends the plain text of the bytes to plain.
	open(plain, raw []byte) ([]byte, error)
	// seal appends packets, sealed, to out.
	seal(out, packets []byte) ([]byte, error)
}

// layered shakes hands on a socket that blocks.
func layered(over Over, fd int) (layer, error) {
	switch over {
	case OverTCP:
		return nil, nil
	case OverTLS:
		w := &tlsWire{fd: fd}
		l := &tlsLayer{w, tls.Client(w, clientTLS())}
		if err := l.conn.Handshake(); err != nil {
			return nil, err
		}
		w.memory = true
		return l, nil
	case OverWebSocket:
		return new(webSocketLayer), upgrade(fdStream(fd))
	}
	return nil, fmt.Errorf("no transport %q", over)
}

// An fdStream reads and writes a socket that blocks.
type fdStream int

func (fd fdStream) Read(b []byte) (int, error) {
	n, err := unix.Read(int(fd), b)
	if n == 0 && err == nil {
		err = io.EOF
	}
	return max(n, 0), err
}

func (fd fdStream) Write(b []byte) (n int, err error) {
	for n < len(b) && err == nil {
		var k int
		k, err = unix.Write(int(fd), b[n:])
		n += max(k, 0)
	}
	return n, err
}

// A tlsWire is the network of a TLS connection: the socket during the handshake,
// then memory.
type tlsWire struct {
	fd      int
	memory  bool
	in, out []byte
}

var errDry net.Error = dry{}

// dry is a temporary error, after which crypto/tls can continue.
type dry struct{}

func (dry) Error() string   { return "nothing has come" }
func (dry) Timeout() bool   { return true }
func (dry) Temporary() bool { return true }

func (w *tlsWire) Read(b []byte) (int, error) {
	if !w.memory {
		return fdStream(w.fd).Read(b)
	}
	if len(w.in) == 0 {
		return 0, errDry
	}
	n := copy(b, w.in)
	w.in = w.in[n:]
	return n, nil
}

func (w *tlsWire) Write(b []byte) (int, error) {
	if !w.memory {
		return fdStream(w.fd).Write(b)
	}
	w.out = append(w.out, b...)
	return len(b), nil
}

func (*tlsWire) Close() error                     { return nil }
func (*tlsWire) LocalAddr() net.Addr              { return nil }
func (*tlsWire) RemoteAddr() net.Addr             { return nil }
func (*tlsWire) SetDeadline(time.Time) error      { return os.ErrNoDeadline }
func (*tlsWire) SetReadDeadline(time.Time) error  { return os.ErrNoDeadline }
func (*tlsWire) SetWriteDeadline(time.Time) error { return os.ErrNoDeadline }

type tlsLayer struct {
	wire *tlsWire
	conn *tls.Conn
}

func (l *tlsLayer) open(plain, raw []byte) ([]byte, error) {
	l.wire.in = raw
	for {
		if len(plain) == cap(plain) {
			return plain, errors.New("the broker sends packets larger than this program takes")
		}
		n, err := l.conn.Read(plain[len(plain):cap(plain)])
		plain = plain[:len(plain)+n]
		if err == errDry {
			return plain, nil
		}
		if err != nil {
			return plain, err
		}
	}
}

func (l *tlsLayer) seal(out, packets []byte) ([]byte, error) {
	l.wire.out = out
	_, err := l.conn.Write(packets)
	return l.wire.out, err
}

// A webSocketLayer is the client's side of RFC 6455 as far as brokers use it.
type webSocketLayer struct {
	partial []byte // of a frame's header
	left    uint64 // of the frame in hand
}

// upgrade asks for MQTT over WebSocket.
func upgrade(s io.ReadWriter) error {
	const request = "GET /mqtt HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" +
		"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: mqtt\r\n\r\n"
	if _, err := io.WriteString(s, request); err != nil {
		return err
	}
	var answer []byte
	for b := make([]byte, 1); !bytes.HasSuffix(answer, []byte("\r\n\r\n")) && len(answer) < 8<<10; answer = append(answer, b...) {
		if _, err := io.ReadFull(s, b); err != nil {
			return err
		}
	}
	if first, _, _ := strings.Cut(string(answer), "\r\n"); !strings.Contains(first, " 101 ") {
		return fmt.Errorf("the broker answered the upgrade by %q", first)
	}
	return nil
}

const binaryFrame = 0x82 // the last of its message

func (l *webSocketLayer) seal(out, packets []byte) ([]byte, error) {
	out = append(out, binaryFrame)
	switch n := len(packets); {
	case n < 126:
		out = append(out, 0x80|byte(n))
	case n < 1<<16:
		out = binary.BigEndian.AppendUint16(append(out, 0x80|126), uint16(n))
	default:
		out = binary.BigEndian.AppendUint64(append(out, 0x80|127), uint64(n))
	}
	out = append(out, 0, 0, 0, 0) // a mask of zeros, which brokers must apply all the same
	return append(out, packets...), nil
}

func (l *webSocketLayer) open(plain, raw []byte) ([]byte, error) {
	if len(l.partial) > 0 {
		raw = append(l.partial, raw...)
		l.partial = nil
	}
	for len(raw) > 0 {
		if l.left == 0 {
			size, length := webSocketHeader(raw)
			if size == 0 {
				l.partial = append([]byte(nil), raw...)
				break
			}
			if op := raw[0] & 0x0F; op > 2 {
				return plain, fmt.Errorf("the broker sent a frame of kind %d", op)
			}
			l.left, raw = length, raw[size:]
		}
		n := int(min(l.left, uint64(len(raw))))
		plain = append(plain, raw[:n]...)
		l.left, raw = l.left-uint64(n), raw[n:]
	}
	return plain, nil
}

// webSocketHeader is the size of the header of a server's frame, 0 if it is not
// whole, and the length of its payload.
func webSocketHeader(b []byte) (size int, length uint64) {
	if len(b) < 2 {
		return 0, 0
	}
	switch n := b[1] & 0x7F; {
	case n < 126:
		return 2, uint64(n)
	case n == 126 && len(b) >= 4:
		return 4, uint64(binary.BigEndian.Uint16(b[2:]))
	case n == 127 && len(b) >= 10:
		return 10, binary.BigEndian.Uint64(b[2:])
	}
	return 0, 0
}
