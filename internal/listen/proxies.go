package listen

import (
	"bufio"
	"io"
	"net"
	"net/netip"
	"slices"

	"github.com/pires/go-proxyproto"
)

// Proxies are load balancers in front of the bridge that pass the address of a
// connection's client on by the PROXY protocol.
type Proxies struct {
	Listeners []string `yaml:"listeners" doc:"listeners behind a proxy that speaks the PROXY protocol, version 2 or 1: mqtt, mqtts, http, ws"`
	Trusted   []string `yaml:"trusted" doc:"addresses and networks of these proxies, such as 10.0.0.5 or 10.1.0.0/16; connections from elsewhere are taken as they come"`
}

// Check passes the faults of the settings to fail.
func (p *Proxies) Check(fail func(format string, args ...any)) {
	for _, name := range p.Listeners {
		if !slices.Contains([]string{"mqtt", "mqtts", "http", "ws"}, name) {
			fail("proxy_protocol.listeners: %q is none of mqtt, mqtts, http and ws", name)
		}
	}
	for _, text := range p.Trusted {
		if _, err := network(text); err != nil {
			fail("proxy_protocol.trusted: %q is neither an address nor a network such as 10.1.0.0/16", text)
		}
	}
	if (len(p.Listeners) == 0) != (len(p.Trusted) == 0) {
		fail("proxy_protocol: listeners and trusted go together: nobody is believed whose address is not said")
	}
}

// For are the networks of the proxies before a listener, none if there are none.
func (p *Proxies) For(listener string) []netip.Prefix {
	if !slices.Contains(p.Listeners, listener) {
		return nil
	}
	var all []netip.Prefix
	for _, text := range p.Trusted {
		if n, err := network(text); err == nil { // else Check has said so
			all = append(all, n)
		}
	}
	return all
}

// network reads an address or a network.
func network(text string) (netip.Prefix, error) {
	if addr, err := netip.ParseAddr(text); err == nil {
		return addr.Unmap().Prefix(addr.Unmap().BitLen())
	}
	n, err := netip.ParsePrefix(text)
	return n.Masked(), err
}

// behind accepts connections of proxies as those of the clients that they name. A
// proxy that names none is not served: else its clients would pass for it.
func behind(proxies []netip.Prefix, l net.Listener) net.Listener {
	if len(proxies) == 0 {
		return l
	}
	return newSettlingListener(l, func(c net.Conn) (net.Conn, error) {
		if !slices.ContainsFunc(proxies, func(n netip.Prefix) bool { return n.Contains(addressOf(c)) }) {
			return c, nil
		}
		return introduced(c)
	})
}

func addressOf(c net.Conn) netip.Addr {
	tcp, ok := c.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	return tcp.AddrPort().Addr().Unmap()
}

// introduced reads the PROXY header of a connection.
func introduced(c net.Conn) (net.Conn, error) {
	r := bufio.NewReaderSize(c, 512)
	header, err := proxyproto.Read(r)
	if err != nil {
		return nil, err
	}
	begun := &begunConn{Conn: c, first: make([]byte, r.Buffered())}
	if _, err := io.ReadFull(r, begun.first); err != nil {
		return nil, err
	}
	from, _, tcp := header.TCPAddrs()
	if header.Command.IsLocal() || !tcp { // the proxy itself asks, whether the bridge is well
		return begun, nil
	}
	return &addressedConn{begun, from}, nil
}

// An addressedConn comes from another address than it seems.
type addressedConn struct {
	net.Conn
	from net.Addr
}

// RemoteAddr is the address of the client.
func (c *addressedConn) RemoteAddr() net.Addr { return c.from }

// NetConn is the connection below.
func (c *addressedConn) NetConn() net.Conn { return c.Conn }

// ReadFrom lets files be sent without copying, as the connection itself does.
func (c *addressedConn) ReadFrom(r io.Reader) (int64, error) { return io.Copy(c.Conn, r) }
