// Package gate bounds the connections of a node, at all doors together. A
// connection without a credential so far is a stranger: there may be few of them,
// few of one address, and the one that has been silent for longest makes room for
// the next. A known client has a place in fair shares, with some kept for
// administrators. So neither idle sockets nor a principal with many connections
// shut out others.
package gate

import (
	"container/list"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/aibridge/aibridge/internal/clock"
	"github.com/aibridge/aibridge/internal/fair"
	"github.com/aibridge/aibridge/protocol"
)

// Limits say how many connections there may be.
type Limits struct {
	Connections int // in all
	Strangers   int // of these, without a credential so far
	PerAddress  int // of the strangers, from one address; an IPv6 /64 is one
	// AllPerAddress is for all connections from one address, 0 for no such limit.
	AllPerAddress int
}

// patience is the time for which a stranger has its place for itself. One that
// needs longer to show a credential gives way to a new one when there is no other
// room.
const patience = 2 * time.Second

// relief is the number of strangers that go at once when descriptors have run out.
const relief = 32

// A Gate counts connections. Its methods may be called from several goroutines.
type Gate struct {
	limits Limits
	clock  *clock.Clock
	log    *slog.Logger
	places *fair.Semaphore // of the known connections
	counters

	mu        sync.Mutex
	strangers list.List                   // of *Visit, the longest there first
	from      map[netip.Prefix]*list.List // the same by address
	open      map[netip.Prefix]int        // connections by address, if they are limited
	complaint int64                       // steady time of the last one in the log
}

// New makes a gate. log may be nil.
func New(l Limits, c *clock.Clock, log *slog.Logger) *Gate {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Gate{
		limits: l, clock: c, log: log,
		places: fair.New(fair.Options{What: "connections", Capacity: int64(l.Connections - l.Strangers)}),
		from:   make(map[netip.Prefix]*list.List),
		open:   make(map[netip.Prefix]int),
	}
}

// A Visit is one connection. A nil Visit is of a connection that is not counted.
type Visit struct {
	gate   *Gate
	origin netip.Prefix
	at     int64 // steady time since when it is a stranger

	// Guarded by gate.mu.
	cut        func()
	all, local *list.Element // while it is a stranger
	known      bool
	left       bool
	who        fair.Party
}

// Enter counts a connection as a stranger's. It returns false when there is no
// room: then the connection is to be closed.
func (g *Gate) Enter(remote net.Addr) (*Visit, bool) {
	v := &Visit{gate: g, origin: origin(remote)}
	g.mu.Lock()
	cut, ok := g.makeRoom(v.origin)
	if ok {
		g.stranger(v)
		g.count(v.origin, +1)
	}
	g.mu.Unlock()
	if cut != nil {
		cut()
	}
	if !ok {
		g.turnedAway.Add(1)
		g.complain()
		return nil, false
	}
	return v, true
}

// makeRoom finds a place for a stranger, if need be that of another one, whose
// connection cut then ends. g.mu is held.
func (g *Gate) makeRoom(origin netip.Prefix) (cut func(), ok bool) {
	if most := g.limits.AllPerAddress; most > 0 && g.open[origin] >= most {
		return nil, false
	}
	var oldest *list.Element
	switch local := g.from[origin]; {
	case local != nil && local.Len() >= g.limits.PerAddress:
		oldest = local.Front()
	case g.strangers.Len() >= g.limits.Strangers:
		oldest = g.strangers.Front()
	default:
		return nil, true
	}
	if oldest == nil {
		return nil, false
	}
	v := oldest.Value.(*Visit)
	if v.cut == nil || g.clock.Steady()-v.at < int64(patience) {
		return nil, false
	}
	g.forget(v)
	g.cutOff.Add(1)
	return v.cut, true
}

// count notes that connections of an address have come or gone; g.mu is held.
func (g *Gate) count(origin netip.Prefix, more int) {
	if g.limits.AllPerAddress == 0 {
		return
	}
	if g.open[origin] += more; g.open[origin] == 0 {
		delete(g.open, origin)
	}
}

// stranger notes a visit as a stranger's; g.mu is held.
func (g *Gate) stranger(v *Visit) {
	v.at = g.clock.Steady()
	v.all = g.strangers.PushBack(v)
	local := g.from[v.origin]
	if local == nil {
		local = list.New()
		g.from[v.origin] = local
	}
	v.local = local.PushBack(v)
}

// forget counts a visit as a stranger's no longer; g.mu is held.
func (g *Gate) forget(v *Visit) {
	if v.all == nil {
		return
	}
	g.strangers.Remove(v.all)
	local := g.from[v.origin]
	local.Remove(v.local)
	if local.Len() == 0 {
		delete(g.from, v.origin)
	}
	v.all, v.local = nil, nil
}

// CutBy sets the function that ends the connection when it has to make room. It may
// be called by any goroutine, once at most, and must not block.
func (v *Visit) CutBy(cut func()) {
	if v == nil {
		return
	}
	v.gate.mu.Lock()
	v.cut = cut
	v.gate.mu.Unlock()
}

// Known names the party that has connected: from then on the connection takes a
// place of a principal's. It fails with 4008 when there is none for it. A name
// given before stays.
func (v *Visit) Known(who *protocol.Principal) *protocol.Error {
	if v == nil {
		return nil
	}
	g, party := v.gate, fair.Of(who)
	g.mu.Lock()
	defer g.mu.Unlock()
	if v.known || v.all == nil { // or it was cut off
		return nil
	}
	if err := g.places.TryAcquire(party, 1); err != nil {
		return err
	}
	g.forget(v)
	v.known, v.who = true, party
	return nil
}

// Succeed takes the place of an earlier connection of the same party, which is
// on its way out and counts as a stranger's until it is gone. It returns false
// if that one had no place.
func (v *Visit) Succeed(old *Visit) bool {
	if v == nil || old == nil {
		return false
	}
	g := v.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	if !old.known || v.known || v.all == nil {
		return false
	}
	g.forget(v)
	v.known, v.who = true, old.who
	old.known = false
	g.stranger(old)
	return true
}

// Leave ends the visit, once or more.
func (v *Visit) Leave() {
	if v == nil {
		return
	}
	g := v.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	g.forget(v)
	if !v.left {
		v.left = true
		g.count(v.origin, -1)
	}
	if v.known {
		v.known = false
		g.places.Release(v.who, 1)
	}
}

// Relieve ends the oldest connections of strangers, because the system has no
// descriptors left.
func (g *Gate) Relieve() {
	var cuts []func()
	g.mu.Lock()
	for e := g.strangers.Front(); e != nil && len(cuts) < relief; {
		v := e.Value.(*Visit)
		e = e.Next()
		if v.cut != nil {
			g.forget(v)
			cuts = append(cuts, v.cut)
		}
	}
	g.mu.Unlock()
	g.cutOff.Add(uint64(len(cuts)))
	for _, cut := range cuts {
		cut()
	}
	g.complain()
}

// complainEvery keeps refusals from filling the log.
const complainEvery = time.Minute

func (g *Gate) complain() {
	g.mu.Lock()
	now, strangers := g.clock.Steady(), g.strangers.Len()
	due := g.complaint == 0 || now-g.complaint > int64(complainEvery)
	if due {
		g.complaint = now
	}
	g.mu.Unlock()
	if due {
		g.log.Warn("connections are turned away: too many are open that have shown no credential",
			"open", strangers, "most", g.limits.Strangers, "most_per_address", g.limits.PerAddress,
			"turned_away", g.turnedAway.Load(), "cut_off", g.cutOff.Load())
	}
}

// origin is the unit of addresses for limits.
func origin(remote net.Addr) netip.Prefix {
	var addr netip.Addr
	if tcp, ok := remote.(*net.TCPAddr); ok {
		addr, _ = netip.AddrFromSlice(tcp.IP)
	} else if remote != nil {
		from, _ := netip.ParseAddrPort(remote.String())
		addr = from.Addr()
	}
	addr = addr.Unmap()
	bits := addr.BitLen()
	if addr.Is6() {
		bits = 64
	}
	p, _ := addr.WithZone("").Prefix(bits)
	return p
}
