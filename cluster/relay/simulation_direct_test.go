package relay

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aibridge/aibridge/cluster/direct"
	"github.com/aibridge/aibridge/internal/bubble"
)

// Lines are the connections between the bridges of a world beside its network.
type lines struct {
	w  *world
	mu sync.Mutex
	at map[string]*ear // who listens, by address
	// strands are the connections of a pair of bridges that are not closed.
	strands map[[2]string]map[*strand]bool
	made    int          // connections
	carried atomic.Int64 // bytes
}

func newLines() *lines {
	return &lines{at: make(map[string]*ear), strands: make(map[[2]string]map[*strand]bool)}
}

// An ear listens at an address.
type ear struct {
	lines   *lines
	address string
	comes   chan net.Conn
	closed  chan struct{}
	once    sync.Once
}

func (e *ear) Accept() (net.Conn, error) {
	select {
	case c := <-e.comes:
		return c, nil
	case <-e.closed:
		return nil, net.ErrClosed
	}
}

func (e *ear) Close() error {
	e.once.Do(func() {
		close(e.closed)
		e.lines.mu.Lock()
		delete(e.lines.at, e.address)
		e.lines.mu.Unlock()
	})
	return nil
}

func (e *ear) Addr() net.Addr { return &net.UnixAddr{Name: e.address} }

// A strand is one end of a connection. While its pair is cut nothing gets through,
// as on a network whose packets are lost.
type strand struct {
	net.Conn
	w        *world
	pair     [2]string // from here to there
	closed   chan struct{}
	once     sync.Once
	mu       sync.Mutex
	deadline time.Time
}

func (s *strand) SetWriteDeadline(t time.Time) error {
	s.mu.Lock()
	s.deadline = t
	s.mu.Unlock()
	return s.Conn.SetWriteDeadline(t)
}

func (s *strand) Write(b []byte) (int, error) {
	for s.w.isCut(s.pair) {
		s.mu.Lock()
		late := !s.deadline.IsZero() && time.Now().After(s.deadline)
		s.mu.Unlock()
		if late {
			return 0, os.ErrDeadlineExceeded
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-s.closed:
			return 0, net.ErrClosed
		}
	}
	n, err := s.Conn.Write(b)
	s.w.lines.carried.Add(int64(n))
	return n, err
}

func (s *strand) Close() error {
	s.once.Do(func() {
		close(s.closed)
		s.w.lines.mu.Lock()
		delete(s.w.lines.strands[s.pair], s)
		s.w.lines.mu.Unlock()
	})
	return s.Conn.Close()
}

// lose has so many of a hundred frames lost on the network.
func (w *world) lose(of int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.loss = of
}

func (w *world) isCut(pair [2]string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.cut[pair]
}

// dial connects a bridge with who listens at an address.
func (l *lines) dial(ctx context.Context, from, address string) (net.Conn, error) {
	l.mu.Lock()
	e := l.at[address]
	l.mu.Unlock()
	if e == nil {
		return nil, errors.New("nobody is there")
	}
	here, there := net.Pipe()
	to := address[:1]
	a, b := l.strand(here, from, to), l.strand(there, to, from)
	select {
	case e.comes <- b:
		l.mu.Lock()
		l.made++
		l.mu.Unlock()
		return a, nil
	case <-e.closed:
	case <-ctx.Done():
	}
	_, _ = a.Close(), b.Close()
	return nil, errors.New("nobody takes it")
}

func (l *lines) strand(c net.Conn, from, to string) *strand {
	s := &strand{Conn: c, w: l.w, pair: [2]string{from, to}, closed: make(chan struct{})}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.strands[s.pair] == nil {
		l.strands[s.pair] = make(map[*strand]bool)
	}
	l.strands[s.pair][s] = true
	return s
}

// snap breaks what connections two bridges have.
func (w *world) snap(one, other string) {
	if w.lines == nil {
		return
	}
	w.lines.mu.Lock()
	var all []*strand
	for s := range w.lines.strands[[2]string{one, other}] {
		all = append(all, s)
	}
	w.lines.mu.Unlock()
	for _, s := range all {
		_ = s.Close()
	}
}

// transport is the carrier of the frames of a process: the network, and the lines, if
// there are any.
func (w *world) transport(p *process) Transport {
	network := wire{w, p.h.id}
	if w.lines == nil || p.h.adopted {
		return network
	}
	var err error
	p.direct, err = direct.New(direct.Options{
		Self: direct.Node{ID: p.h.id, Epoch: p.epoch}, Secret: testKey[:], Fallback: network,
		Changed: func(bridge string) { p.relay.Resume(bridge) },
		Dial:    func(ctx context.Context, address string) (net.Conn, error) { return w.lines.dial(ctx, p.h.id, address) },
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return p.direct
}

func (p *process) address() string { return fmt.Sprint(p.h.id, p.epoch) }

// listen has a process have lines.
func (w *world) listen(p *process) {
	if p.direct == nil {
		return
	}
	e := &ear{lines: w.lines, address: p.address(), comes: make(chan net.Conn), closed: make(chan struct{})}
	w.lines.mu.Lock()
	w.lines.at[e.address] = e
	w.lines.mu.Unlock()
	p.direct.Start(e, p.relay.Take)
}

// connect tells a process who has lines.
func (w *world) connect(p *process) {
	if p.direct == nil {
		return
	}
	var peers []direct.Peer
	for _, other := range w.running() {
		if other.direct != nil {
			peers = append(peers, direct.Peer{Node: direct.Node{ID: other.h.id, Epoch: other.epoch}, Address: other.address()})
		}
	}
	p.direct.Reconcile(peers)
}

// hangUp ends the lines of a process.
func (w *world) hangUp(p *process) {
	if p.direct != nil {
		p.direct.Close()
	}
}

// TestEveryMessageIsThereOnceWhicheverWayItGoes is the same with lines between the
// bridges, which break and stand still now and then.
func TestEveryMessageIsThereOnceWhicheverWayItGoes(t *testing.T) {
	var all []*lines
	acceptedAndThereOnce(t, func() *lines {
		all = append(all, newLines())
		return all[len(all)-1]
	})
	for i, l := range all {
		if l.made < 4 || l.carried.Load() < 20<<10 {
			t.Errorf("in world %d, %d connections carried %d bytes: the lines were hardly used", i, l.made, l.carried.Load())
		}
	}
}

// TestAllKnowWhicheverWayTheyAreTold is the same with lines between the bridges.
func TestAllKnowWhicheverWayTheyAreTold(t *testing.T) { toldWhenAllKnow(t, newLines) }

// TestBridgesUseTheirLinesAndGoOnWithoutThem cuts the network, then the lines.
func TestBridgesUseTheirLinesAndGoOnWithoutThem(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := worldOf(newLines, t, 1, "a", "b")
		time.Sleep(time.Second)
		var promises []*promise
		number := uint64(0)
		send := func(why string) {
			t.Helper()
			for range 50 {
				number++
				promises = append(promises, w.send("a", "b", number), w.send("b", "a", 1<<32|number))
			}
			time.Sleep(20 * time.Second)
			for _, m := range promises {
				if m.answer.outcome() == nil {
					t.Fatalf("%s: message %d from %s was not answered for", why, m.number, m.from)
				}
			}
		}
		w.lose(100)
		send("the network is away")
		for _, p := range w.running() {
			if s := p.direct.Status(); len(s) != 1 || !s[0].Direct {
				t.Errorf("%s has %+v", p.h.id, s)
			}
		}
		w.lose(0)
		for _, p := range w.running() {
			p.direct.Reconcile(nil)
		}
		send("the lines are away")
		w.agree()
		time.Sleep(time.Second)
		w.lose(100)
		send("the lines are back")
		w.verify(promises)
		w.close()
	})
}
