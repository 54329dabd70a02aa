package listen

import (
	"crypto/tls"
	"io"
	"net"
)

// Secure serves TLS on a listener: alone, or beside plain connections. What a
// connection is shows in its first byte, which for TLS is always 22. Connections
// over TLS are of *tls.Conn and have not shaken hands yet.
func Secure(l net.Listener, config *tls.Config, only bool) net.Listener {
	if only {
		return tls.NewListener(l, config)
	}
	return newSettlingListener(l, func(c net.Conn) (net.Conn, error) { return either(c, config) })
}

// either is a connection over TLS or a plain one.
func either(c net.Conn, config *tls.Config) (net.Conn, error) {
	var first [1]byte
	if _, err := io.ReadFull(c, first[:]); err != nil {
		return nil, err
	}
	begun := &begunConn{Conn: c, first: first[:]}
	if first[0] == tlsHandshake {
		return tls.Server(begun, config), nil
	}
	return begun, nil
}

// tlsHandshake is the type of the record that TLS begins with.
const tlsHandshake = 22
