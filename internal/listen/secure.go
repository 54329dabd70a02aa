package listen

import (
	"crypto/tls"
	"io"
	"net"
)

// Secure serves TLS on a listener: alone, or beside plain connections. The first
// byte shows whether a connection is TLS, which always begins with 22. Connections
// over TLS are made by server, and have not shaken hands yet.
func Secure(l net.Listener, server func(net.Conn) *tls.Conn, only bool) net.Listener {
	if only {
		return &secureListener{l, server}
	}
	return newSettlingListener(l, func(c net.Conn) (net.Conn, error) { return either(c, server) })
}

// A secureListener accepts connections over TLS.
type secureListener struct {
	net.Listener
	server func(net.Conn) *tls.Conn
}

func (l *secureListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return l.server(c), nil
}

// either is a connection over TLS or a plain one.
func either(c net.Conn, server func(net.Conn) *tls.Conn) (net.Conn, error) {
	var first [1]byte
	if _, err := io.ReadFull(c, first[:]); err != nil {
		return nil, err
	}
	begun := &begunConn{Conn: c, first: first[:]}
	if first[0] == tlsHandshake {
		return server(begun), nil
	}
	return begun, nil
}

// tlsHandshake is the type of the record that TLS begins with.
const tlsHandshake = 22
