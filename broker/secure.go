package broker

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"os"
	"time"
)

// A layer lies between the packets of a connection and the socket that a reader
// reads: TLS, or WebSocket, which may have TLS under it. Its methods are called with conn.mu held.
type layer interface {
	// begin says that a reader has the socket from now on.
	begin()
	// open takes bytes that came from the socket and fills plain with those of
	// packets. Bytes that plain has no room for, and incomplete records, are kept:
	// no more than mostKept, if plain has room for mostKept more than came.
	open(plain, raw []byte) (n int, err error)
	// seal takes bytes of packets, mostSealed at most, for the socket.
	seal(plain []byte) error
	// bye tells the peer that nothing more is sealed.
	bye()
	// unsent are sealed bytes that the socket has not taken yet, those of answers
	// to the peer's layer included.
	unsent() *[]byte
}

const (
	mostSealed = 16 << 10         // of a record of TLS
	mostKept   = mostSealed + 512 // of a record that is not complete
	mostAnswer = 64 << 10         // that a peer may make its layer owe it
)

// ServeTLS is [Broker.Serve] over TLS. Where readers share connections they take
// these over once hands are shaken.
func (b *Broker) ServeTLS(ctx context.Context, name string, l net.Listener, config *tls.Config) error {
	config = config.Clone()
	config.DynamicRecordSizingDisabled = true // messages are whole; a turn's fit few records
	return b.Serve(ctx, name, tlsListener{l, config})
}

// A tlsListener accepts connections over a wire, which a reader can drive.
type tlsListener struct {
	net.Listener
	config *tls.Config
}

func (l tlsListener) Accept() (net.Conn, error) {
	nc, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return TLS(nc, l.config), nil
}

// TLS is the server's side of a TLS connection, which readers can take over once
// hands are shaken: for HTTP servers that have [Broker.WebSocket] among their
// handlers.
func TLS(nc net.Conn, config *tls.Config) *tls.Conn { return tls.Server(&wire{nc: nc}, config) }

// A wire stands between a [tls.Conn] and its network connection. During the
// handshake it passes everything on. Afterwards it is memory between the TLS
// connection and a reader: reading never waits but says errDry, and writing always
// succeeds.
type wire struct {
	nc  net.Conn // nil once a reader has the connection
	in  []byte   // came from the socket
	out []byte   // is for the socket
}

// errDry ends a read that finds nothing. crypto/tls takes up where it was after
// an error that is temporary; all others are for good.
var errDry net.Error = dry{}

type dry struct{}

func (dry) Error() string   { return "nothing has come" }
func (dry) Timeout() bool   { return true }
func (dry) Temporary() bool { return true }

var errGreedy = errors.New("the client asks for more answers of TLS or WebSocket than it reads")

func (w *wire) Read(b []byte) (int, error) {
	if w.nc != nil {
		return w.nc.Read(b)
	}
	if len(w.in) == 0 {
		return 0, errDry
	}
	n := copy(b, w.in)
	w.in = w.in[n:]
	return n, nil
}

func (w *wire) Write(b []byte) (int, error) {
	if w.nc != nil {
		return w.nc.Write(b)
	}
	if err := hold(&w.out, b); err != nil {
		return 0, err
	}
	return len(b), nil
}

// hold adds bytes to those that the socket is to take.
func hold(out *[]byte, b []byte) error {
	have := *out
	switch {
	case len(have) > mostAnswer:
		return errGreedy
	case have == nil:
		have = chunk(len(b))
	case cap(have)-len(have) < len(b):
		have = append(chunk(max(len(have)+len(b), largeChunk)), have...) // the old one is garbage
	}
	*out = append(have, b...)
	return nil
}

func (w *wire) Close() error {
	if w.nc != nil {
		return w.nc.Close()
	}
	return nil
}

// NetConn is the connection below.
func (w *wire) NetConn() net.Conn { return w.nc }

func (w *wire) LocalAddr() net.Addr {
	if w.nc != nil {
		return w.nc.LocalAddr()
	}
	return nil
}

func (w *wire) RemoteAddr() net.Addr {
	if w.nc != nil {
		return w.nc.RemoteAddr()
	}
	return nil
}

func (w *wire) SetDeadline(t time.Time) error      { return w.deadline(net.Conn.SetDeadline, t) }
func (w *wire) SetReadDeadline(t time.Time) error  { return w.deadline(net.Conn.SetReadDeadline, t) }
func (w *wire) SetWriteDeadline(t time.Time) error { return w.deadline(net.Conn.SetWriteDeadline, t) }

func (w *wire) deadline(set func(net.Conn, time.Time) error, t time.Time) error {
	if w.nc != nil {
		return set(w.nc, t)
	}
	return os.ErrNoDeadline // nothing waits
}

// A tlsLayer is a TLS connection that has shaken hands.
type tlsLayer struct {
	wire *wire
	conn *tls.Conn
}

func (l *tlsLayer) begin() { l.wire.nc = nil }

func (l *tlsLayer) open(plain, raw []byte) (n int, err error) {
	l.wire.in = raw
	for n < len(plain) {
		k, err := l.conn.Read(plain[n:])
		n += k
		if err == errDry {
			break
		}
		if err != nil {
			return n, err
		}
	}
	l.wire.in = nil
	return n, nil
}

func (l *tlsLayer) seal(plain []byte) error {
	_, err := l.conn.Write(plain)
	return err
}

func (l *tlsLayer) bye() { _ = l.conn.CloseWrite() }

func (l *tlsLayer) unsent() *[]byte { return &l.wire.out }
