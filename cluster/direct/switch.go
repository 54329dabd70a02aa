package direct

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/aibridge/aibridge/internal/membercert"
)

// A Transport carries frames to bridges. It does not keep them.
type Transport interface {
	Send(to string, frame []byte) error
}

// A Node is one process of a bridge, from its start to its end.
type Node struct {
	ID    string
	Epoch uint64
}

// A Peer is another bridge with which a line is wanted.
type Peer struct {
	Node
	Address string // host:port where it listens
}

// Options are the identity, the secret and the transports of a [Switch]. Self, Secret
// and Fallback are required.
type Options struct {
	Self     Node
	Secret   []byte    // shared by the bridges of the cluster only
	Fallback Transport // for bridges without a line
	// Changed is called when the line with a bridge is opened or closed: frames on
	// their way may be lost or overtaken. Optional.
	Changed func(bridge string)
	// Dial connects to an address; by TCP by default.
	Dial       func(ctx context.Context, address string) (net.Conn, error)
	Log        *slog.Logger
	Registerer prometheus.Registerer // of the metrics; optional
}

func (o *Options) defaults() {
	if o.Changed == nil {
		o.Changed = func(string) {}
	}
	if o.Dial == nil {
		var d net.Dialer
		o.Dial = func(ctx context.Context, address string) (net.Conn, error) { return d.DialContext(ctx, "tcp", address) }
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
}

// A Switch is the transport of frames to all bridges: over the line with a bridge, or
// over the fallback if there is none.
type Switch struct {
	o       Options
	tls     *tls.Config
	metrics *metrics
	take    func(from string, frame []byte)
	ctx     context.Context
	stop    context.CancelFunc
	running sync.WaitGroup
	greets  chan struct{} // holds a token for each connection that is not a line yet
	warned  atomic.Int64  // time of the last warning of a refusal, Unix seconds

	mu       sync.RWMutex
	closed   bool
	listener net.Listener
	peers    map[string]*peer
}

// A peer is a bridge with which a line is wanted, as long as it has one epoch.
type peer struct {
	Peer
	s    *Switch
	line atomic.Pointer[line]
	ctx  context.Context // ends when no line is wanted any more
	end  context.CancelFunc

	mu  sync.Mutex
	why string // there is no line
}

// New returns a switch that uses the fallback for all until it is started.
func New(o Options) (*Switch, error) {
	o.defaults()
	secure, err := membercert.TLS(o.Secret, "direct lines", certified(o.Self.ID))
	if err != nil {
		return nil, err
	}
	secure.DynamicRecordSizingDisabled = true
	s := &Switch{o: o, tls: secure, greets: make(chan struct{}, mostGreeted), peers: make(map[string]*peer)}
	s.ctx, s.stop = context.WithCancel(context.Background())
	s.metrics = newMetrics(s)
	return s, nil
}

// Start has lines made from now on, by dialling and on a listener, which is closed
// with the switch. Take is called with every frame that comes on them, also by several
// goroutines; the frame is valid until it returns.
func (s *Switch) Start(listener net.Listener, take func(from string, frame []byte)) {
	s.mu.Lock()
	s.listener, s.take = listener, take
	s.mu.Unlock()
	s.running.Go(s.accept)
}

// Close ends all lines. Frames go by the fallback from then on.
func (s *Switch) Close() {
	s.Reconcile(nil)
	s.mu.Lock()
	s.closed = true
	listener := s.listener
	s.mu.Unlock()
	s.stop()
	if listener != nil {
		_ = listener.Close()
	}
	s.running.Wait()
}

// Reconcile sets the processes with which lines are wanted. Lines with others are
// closed.
func (s *Switch) Reconcile(wanted []Peer) {
	is := make(map[string]Peer, len(wanted))
	for _, p := range wanted {
		if p.ID != s.o.Self.ID {
			is[p.ID] = p
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.listener == nil {
		return
	}
	for id, p := range s.peers {
		if is[id] != p.Peer {
			delete(s.peers, id)
			p.leave()
		}
	}
	for id, w := range is {
		if s.peers[id] != nil {
			continue
		}
		p := &peer{Peer: w, s: s, why: "it was not reached yet"}
		p.ctx, p.end = context.WithCancel(s.ctx)
		s.peers[id] = p
		s.running.Go(p.run)
	}
}

// peer returns the bridge of an id if a line with it is wanted, nil otherwise.
func (s *Switch) peer(id string) *peer {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.peers[id]
}

// Send carries a frame to a bridge: over the line, and where there is none, or it
// breaks, by the fallback.
func (s *Switch) Send(to string, frame []byte) error {
	if p := s.peer(to); p != nil {
		if l := p.line.Load(); l != nil && l.write(frame) == nil {
			s.metrics.frames.Inc()
			s.metrics.bytes.Add(float64(len(frame)))
			return nil
		}
	}
	return s.o.Fallback.Send(to, frame)
}

// A Status is the state of the transport to one bridge.
type Status struct {
	Bridge  string
	Address string
	Direct  bool // over a line
	Dialed  bool // by this bridge
	Since   time.Time
	Why     string // there is no line
}

// Status returns the state of all bridges with which a line is wanted, sorted by id.
func (s *Switch) Status() []Status {
	s.mu.RLock()
	peers := make([]*peer, 0, len(s.peers))
	for _, p := range s.peers {
		peers = append(peers, p)
	}
	s.mu.RUnlock()
	all := make([]Status, 0, len(peers))
	for _, p := range peers {
		st := Status{Bridge: p.ID, Address: p.Address}
		if l := p.line.Load(); l != nil {
			st.Direct, st.Dialed, st.Since = true, l.dialed, l.since
		} else {
			st.Why = p.reason()
		}
		all = append(all, st)
	}
	slices.SortFunc(all, func(a, b Status) int { return cmp.Compare(a.Bridge, b.Bridge) })
	return all
}

func (p *peer) reason() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.why
}

// failed records the reason why there is no line, and logs it if it has changed.
func (p *peer) failed(why string) {
	p.mu.Lock()
	told := p.why == why
	p.why = why
	p.mu.Unlock()
	if !told {
		p.s.o.Log.Info("there is no direct line with a bridge", "bridge", p.ID, "address", p.Address, "why", why)
	}
}

// leave closes the line with a bridge and stops dialling it.
func (p *peer) leave() {
	p.end()
	if l := p.line.Load(); l != nil {
		l.close(errors.New("no line with that process of the bridge is wanted any more"))
	}
}
