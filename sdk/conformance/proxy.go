package conformance

import (
	"context"
	"io"
	"net"
	"sync"
)

// A fault is what happens to a connection to the bridge.
type fault int

const (
	none         fault = iota
	closeAtOnce        // before the device says a word
	closeConnect       // after its first packet, which is never answered
)

// A proxy stands between the device and the broker, and cuts connections.
type proxy struct {
	listener net.Listener
	broker   string
	wait     sync.WaitGroup

	mu     sync.Mutex
	closed bool
	conns  map[net.Conn]bool
	lost   map[string]bool // addresses of connections to the broker that were cut
	faults []fault         // of the connections to come
	denied bool            // all connections are closed at once
	seen   int             // connections that came
}

func newProxy(broker string) (*proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &proxy{listener: l, broker: broker, conns: make(map[net.Conn]bool), lost: make(map[string]bool)}
	p.wait.Go(p.accept)
	return p, nil
}

func (p *proxy) address() string { return p.listener.Addr().String() }

func (p *proxy) accept() {
	for {
		conn, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.wait.Go(func() { p.serve(conn) })
	}
}

func (p *proxy) serve(device net.Conn) {
	defer device.Close()
	switch p.next() {
	case closeAtOnce:
		return
	case closeConnect:
		if p.keep(device) {
			_, _ = device.Read(make([]byte, 4096))
			p.drop(device)
		}
		return
	}
	bridge, err := new(net.Dialer).DialContext(context.Background(), "tcp", p.broker)
	if err != nil {
		return
	}
	defer bridge.Close()
	if !p.keep(device, bridge) {
		return
	}
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{device, bridge}, {bridge, device}} {
		both.Go(func() {
			_, _ = io.Copy(way[0], way[1])
			_ = device.Close()
			_ = bridge.Close()
		})
	}
	both.Wait()
	p.drop(device, bridge)
}

// next takes the fault of a new connection.
func (p *proxy) next() fault {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen++
	if p.denied {
		return closeAtOnce
	}
	if len(p.faults) == 0 {
		return none
	}
	f := p.faults[0]
	p.faults = p.faults[1:]
	return f
}

// keep notes connections to cut, unless the proxy is closed.
func (p *proxy) keep(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		p.conns[c] = true
		delete(p.lost, c.LocalAddr().String()) // a port comes round again
	}
	return !p.closed
}

func (p *proxy) drop(conns ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		delete(p.conns, c)
	}
}

// cut ends all connections without a word. The next ones have the faults.
func (p *proxy) cut(next ...fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = next
	for c := range p.conns {
		p.lost[c.LocalAddr().String()] = true
		_ = c.Close()
	}
}

// hasCut says whether the connection that the broker has from an address was cut.
// The broker may learn it later, and still read what came before.
func (p *proxy) hasCut(remote net.Addr) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lost[remote.String()]
}

// deny closes all connections to come at once, or lets them in again.
func (p *proxy) deny(denied bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.denied = denied
}

// attempts is the number of connections that came so far.
func (p *proxy) attempts() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seen
}

func (p *proxy) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	_ = p.listener.Close()
	p.cut()
	p.wait.Wait()
}
