package broker

import (
	"net"
	"net/netip"
	"sync"
	"time"
)

// A gate limits connections, all together and per address.
type gate struct {
	limits *Limits

	mu    sync.Mutex
	total int
	open  map[netip.Addr]*visitor
}

// A visitor is one address. Its allowance refills with time.
type visitor struct {
	open      int
	allowance float64
	at        time.Time
}

// enter counts a connection, or refuses it.
func (g *gate) enter(remote net.Addr) bool {
	l := g.limits
	if l.Connections <= 0 && l.PerAddress <= 0 && l.RatePerAddress <= 0 {
		return true
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if l.Connections > 0 && g.total >= l.Connections {
		return false
	}
	v := g.visitor(address(remote), time.Now())
	if l.PerAddress > 0 && v.open >= l.PerAddress || l.RatePerAddress > 0 && v.allowance < 1 {
		return false
	}
	v.allowance--
	v.open++
	g.total++
	return true
}

func (g *gate) visitor(addr netip.Addr, now time.Time) *visitor {
	rate := float64(g.limits.RatePerAddress)
	v := g.open[addr]
	if v == nil {
		if len(g.open) > 10_000 {
			g.forget(now)
		}
		if g.open == nil {
			g.open = make(map[netip.Addr]*visitor)
		}
		v = &visitor{allowance: rate, at: now}
		g.open[addr] = v
	}
	v.allowance = min(rate, v.allowance+rate*now.Sub(v.at).Seconds())
	v.at = now
	return v
}

// forget drops addresses that have nothing open and a full allowance.
func (g *gate) forget(now time.Time) {
	for addr, v := range g.open {
		if v.open == 0 && now.Sub(v.at) > time.Second {
			delete(g.open, addr)
		}
	}
}

func (g *gate) leave(remote net.Addr) {
	l := g.limits
	if l.Connections <= 0 && l.PerAddress <= 0 && l.RatePerAddress <= 0 {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.total--
	addr := address(remote)
	if v := g.open[addr]; v != nil {
		if v.open--; v.open <= 0 && l.RatePerAddress <= 0 {
			delete(g.open, addr)
		}
	}
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
