package broker

import (
	"net"
	"net/netip"

	"github.com/aibridge/aibridge/broker/packet"
	"github.com/aibridge/aibridge/internal/gate"
	"github.com/aibridge/aibridge/protocol"
)

// enter lets a connection through the gate. It returns false when there is no
// room.
func (b *Broker) enter(remote net.Addr) (visit *gate.Visit, ok bool) {
	if b.options.Gate == nil {
		return nil, true
	}
	return b.options.Gate.Enter(remote)
}

// relieve makes room when descriptors have run out. It reports whether an error
// of accept means that.
func (b *Broker) relieve(err error) bool {
	if !gate.Exhausted(err) {
		return false
	}
	if b.options.Gate != nil {
		b.options.Gate.Relieve()
	}
	return true
}

// settle gives a connection its place among those that are known: that of the
// one it takes the session over from, if there is one.
func (c *conn) settle(who *protocol.Principal, old *conn) *packet.Error {
	if old != nil && c.visit.Succeed(old.visit) {
		return nil
	}
	if err := c.visit.Known(who); err != nil {
		return &packet.Error{Reason: packet.QuotaExceeded, Text: err.Message}
	}
	return nil
}

// Address is the network address the client connected from, the zero Addr if
// it has none.
func (c *Client) Address() netip.Addr { return address(c.Remote) }

func address(remote net.Addr) netip.Addr {
	if remote == nil {
		return netip.Addr{}
	}
	if tcp, ok := remote.(*net.TCPAddr); ok {
		addr, _ := netip.AddrFromSlice(tcp.IP)
		return addr.Unmap()
	}
	if ap, err := netip.ParseAddrPort(remote.String()); err == nil {
		return ap.Addr().Unmap()
	}
	return netip.Addr{}
}
