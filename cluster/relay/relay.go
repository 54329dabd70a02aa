package relay

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/aibridge/aibridge/broker"
	"github.com/aibridge/aibridge/cluster/routes"
	"github.com/aibridge/aibridge/protocol"
)

// A Node is one process of a bridge, from its start to its end.
type Node struct {
	ID    string
	Epoch uint64
}

// A Member is a living node, or a dead one with kept sessions.
type Member struct {
	Node
	Ready bool // it accepts relayed messages
	// Waits reports that the sessions of the bridge are not served yet. Messages for
	// them are kept until they are.
	Waits bool
	// Wire is the version of what the node says to others, 0 if it is not known. From
	// [TwoLanes] on it takes control ahead of messages.
	Wire int
	// Adopted reports that another bridge serves the sessions of this one. They publish
	// nothing, so the subscriptions of other bridges are not announced to them.
	Adopted bool
}

// TwoLanes is the first version of what bridges say to each other with a lane of control.
const TwoLanes = 2

// A Transport carries frames of 64 KiB at most. It may lose, duplicate and reorder
// them. It passes received frames to [Relay.Take], possibly from several goroutines; if
// it knows that it lost some, it calls [Relay.Resume].
type Transport interface {
	// Send carries a frame to a bridge. It may wait a moment, and does not keep
	// the frame.
	Send(to string, frame []byte) error
}

// A Local is the broker of this bridge, see [Of].
type Local interface {
	Arrive(node string, epoch uint64) Arrival
	Marked(node string, epoch uint64) uint64
	Reoffer(encoded []byte, groups []uint64, became broker.Outcome, receipt broker.Answerer)
	AnswerReceipts()
}

// An Arrival is a batch of messages from a bridge, see [broker.Arrival].
type Arrival interface {
	Deliver(encoded []byte, groups []uint64, only bool) (became broker.Outcome, left []uint64, err error)
	End(offset uint64, then func()) (stored bool)
}

// Of is a broker as a relay sees it.
func Of(b *broker.Broker) Local { return local{b} }

type local struct{ *broker.Broker }

func (l local) Arrive(node string, epoch uint64) Arrival { return l.Broker.Arrive(node, epoch) }

// Options are the dependencies and limits of a relay. Self, Key and Transport are
// required.
type Options struct {
	Self      Node
	Key       *routes.Key
	Transport Transport
	Wire      int           // version of what this bridge says to others; [TwoLanes]
	Window    int           // bytes on their way to a bridge; 1 MiB
	Outbox    int           // bytes that a bridge has not accepted, from which on QoS 0 is dropped and publishers wait; 8 MiB
	Gather    time.Duration // least time between two announcements; 10 ms
	Tick      time.Duration // interval of checks for lost frames; 100 ms
	Log       *slog.Logger
	// Registerer receives the metrics; optional.
	Registerer prometheus.Registerer
}

func (o *Options) defaults() {
	set := func(v *int, d int) {
		if *v <= 0 {
			*v = d
		}
	}
	wait := func(v *time.Duration, d time.Duration) {
		if *v <= 0 {
			*v = d
		}
	}
	set(&o.Wire, TwoLanes)
	set(&o.Window, 1<<20)
	set(&o.Outbox, 8<<20)
	wait(&o.Gather, 10*time.Millisecond)
	wait(&o.Tick, 100*time.Millisecond)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
}

// A Relay is the other bridges of a cluster, as a broker sees them: its
// [broker.Peers].
type Relay struct {
	o         Options
	local     Local
	table     *routes.Table
	announcer *routes.Announcer
	metrics   *metrics
	parts     [maxParts]Part
	told      atomic.Bool   // the state of parts has changed since the last round
	epoch     atomic.Uint64 // moves with the bridges
	running   sync.WaitGroup
	closing   chan struct{}

	mu    sync.RWMutex
	peers map[string]*peer
	ends  map[string]uint64 // of the streams to bridges that are gone

	dirtyMu sync.Mutex
	dirty   []*peer

	announcing sync.Mutex
	round      uint64 // of the last announcements
	waiters    []waiter
	wake       chan struct{}
}

// New returns a relay, which works once it is started.
func New(o Options) *Relay {
	o.defaults()
	r := &Relay{
		o: o, table: routes.NewTable(o.Key), announcer: routes.NewAnnouncer(o.Key, o.Self.Epoch),
		peers: make(map[string]*peer), ends: make(map[string]uint64), wake: make(chan struct{}, 1), closing: make(chan struct{}),
	}
	r.metrics = newMetrics(r)
	return r
}

// Start begins to work for a broker.
func (r *Relay) Start(l Local) {
	r.local = l
	r.running.Go(r.announce)
}

// Close ends the relay. Messages not accepted by then are not acknowledged any more.
func (r *Relay) Close() {
	close(r.closing)
	for _, p := range r.all() {
		close(p.gone)
	}
	r.running.Wait()
}

// Reconcile sets the members of the cluster. Bridges missing in it are gone for good:
// messages to them are given up.
func (r *Relay) Reconcile(members []Member) {
	is := make(map[string]Member, len(members))
	for _, m := range members {
		if m.ID != r.o.Self.ID {
			is[m.ID] = m
		}
	}
	r.mu.Lock()
	var gone []*peer
	var left []leftover
	processes := make(map[*peer]Node) // that have ended
	for id, p := range r.peers {
		if _, ok := is[id]; !ok {
			gone = append(gone, p)
			delete(r.peers, id)
			processes[p] = p.process()
			r.ends[id], left = p.lost(left)
		}
	}
	for id, m := range is {
		p := r.peers[id]
		if p == nil {
			p = &peer{r: r, id: id, messages: lane{out: streamFrom(r.ends[id])}, control: controlLane(), wake: make(chan struct{}, 1), gone: make(chan struct{})}
			r.peers[id] = p
			r.running.Go(p.run)
		}
		if before, ended := p.is(m); ended {
			processes[p] = before
		}
	}
	r.mu.Unlock()
	r.epoch.Add(1)
	for _, p := range gone {
		r.table.Forget(p.id)
	}
	for p, ended := range processes {
		p.goneTo(ended)
	}
	for _, l := range left {
		r.local.Reoffer(l.encoded, l.groups, l.became, l.receipt)
	}
	r.roundsMoved()
	r.local.AnswerReceipts()
}

// process is the process of the bridge that runs, as far as is known.
func (p *peer) process() Node {
	p.mu.Lock()
	defer p.mu.Unlock()
	return Node{p.id, p.epoch}
}

// is sets the running process of the bridge. It returns the previous one, and whether
// that has ended.
func (p *peer) is(m Member) (before Node, ended bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before = Node{p.id, p.epoch}
	if m.Epoch != p.epoch {
		ended = p.epoch != 0 && !p.waits
		p.epoch, p.state, p.known, p.asked = m.Epoch, absent, false, false
		p.messages.in = inbound{marked: p.r.local.Marked(p.id, m.Epoch)}
		p.control = controlLane()
	} else if m.Waits && !p.waits {
		ended = p.epoch != 0
		p.state, p.known = absent, false
	}
	p.waits, p.adopted = m.Waits, m.Adopted
	if p.state == absent && m.Ready {
		p.state, p.called, p.split = calling, time.Now(), m.Wire >= TwoLanes && p.r.o.Wire >= TwoLanes
		p.signal()
	}
	return before, ended
}

// lost ends the work for a bridge that is gone, and returns the end of the stream to
// it. Messages that it has not accepted are lost there; those for groups are offered to
// members elsewhere, except with QoS 2, because a member there may have had them
// [MQTT-4.8.2-5].
func (p *peer) lost(left []leftover) (end uint64, _ []leftover) {
	close(p.gone)
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := p.messages.out.from; i < len(p.messages.out.waiting); i++ {
		if w := p.messages.out.waiting[i]; w.size > 0 && w.qos == 1 {
			record, _ := p.messages.out.takeBack(w.end)
			_, groups, encoded, _ := parseMessage(record, nil)
			left = append(left, leftover{encoded, groups, broker.Missed, w.receipt})
		}
	}
	for _, w := range p.messages.out.giveUp() {
		if w.receipt != nil {
			w.receipt.Answer(broker.Missed)
		}
	}
	p.state, p.epoch = absent, 0
	p.makeRoom()
	return p.messages.out.end, left
}

// Resume sends all bytes again at once that a bridge has not acknowledged as received.
// The transport calls it when frames on their way may be lost.
func (r *Relay) Resume(bridge string) {
	if p := r.peer(bridge); p != nil {
		p.resume()
	}
}

// send carries a frame to a bridge. A frame that is lost is sent again.
func (r *Relay) send(p *peer, frame []byte) {
	if err := r.o.Transport.Send(p.id, frame); err != nil {
		r.metrics.failed.Inc()
		r.o.Log.Debug("a frame was not sent", "bridge", p.id, "error", err)
		return
	}
	r.metrics.frames.Inc()
	r.metrics.bytes.Add(float64(len(frame)))
}

// Take receives a frame of another bridge. It does not retain it, and returns when it
// is delivered.
func (r *Relay) Take(from string, encoded []byte) {
	var f frame
	if err := f.decode(encoded); err != nil {
		r.o.Log.Warn("a frame was dropped", "bridge", from, "error", err)
		return
	}
	p := r.peer(from)
	if p == nil || !p.knows(&f) {
		return // of a process that is gone, or of which nothing is known yet
	}
	if f.hello {
		if p.greeted(&f) {
			r.announceSoon()
		}
		return
	}
	if p.acknowledged(&f) {
		p.take(&f)
	}
	r.roundsMoved()
	r.local.AnswerReceipts()
	p.signal()
}

// knows reports whether a frame belongs to the running processes of both bridges.
func (p *peer) knows(f *frame) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return f.to == p.r.o.Self.Epoch && f.from == p.epoch && p.state != absent
}

func (r *Relay) peer(id string) *peer {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.peers[id]
}

// all lists the bridges.
func (r *Relay) all() []*peer {
	r.mu.RLock()
	defer r.mu.RUnlock()
	all := make([]*peer, 0, len(r.peers))
	for _, p := range r.peers {
		all = append(all, p)
	}
	return all
}

// flush marks the peer as having bytes to send. The caller holds p.mu.
func (r *Relay) flush(p *peer) {
	r.dirtyMu.Lock()
	defer r.dirtyMu.Unlock()
	if n := len(r.dirty); n == 0 || r.dirty[n-1] != p {
		r.dirty = append(r.dirty, p)
	}
}

// Flush implements [broker.Peers].
func (r *Relay) Flush() {
	r.dirtyMu.Lock()
	defer r.dirtyMu.Unlock()
	for i, p := range r.dirty {
		p.signal()
		r.dirty[i] = nil
	}
	r.dirty = r.dirty[:0]
}

// Self implements [broker.Peers].
func (r *Relay) Self() broker.Process { return broker.Process(r.o.Self) }

// Epoch implements [broker.Peers].
func (r *Relay) Epoch() uint64 { return r.epoch.Load() + r.table.Epoch() }

// Group implements [broker.Peers].
func (r *Relay) Group(space protocol.SpaceID, name, filter string) uint64 {
	return r.table.Group(space, name, filter)
}

// found are used again.
var found = sync.Pool{New: func() any { return new(routes.Found) }}

// All implements [broker.Peers].
func (r *Relay) All() []broker.Peer {
	peers := r.all()
	all := make([]broker.Peer, len(peers))
	for i, p := range peers {
		all[i] = p
	}
	return all
}

// Away implements [broker.Peers].
func (r *Relay) Away(topic string, every bool, spaces ...protocol.SpaceID) *broker.Away {
	f := found.Get().(*routes.Found)
	defer found.Put(f)
	if every {
		spaces = append(spaces, routes.EverySpace)
	}
	if r.table.Find(topic, f, spaces...); len(f.Nodes)+len(f.Groups) == 0 {
		return nil
	}
	away := new(broker.Away)
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, node := range f.Nodes {
		if p := r.peers[node]; p != nil {
			away.Peers = append(away.Peers, p)
		}
	}
	for _, m := range f.Groups {
		p := r.peers[m.Node]
		if p == nil {
			continue
		}
		if n := len(away.Groups); n == 0 || away.Groups[n-1].ID != m.Group {
			away.Groups = append(away.Groups, broker.AwayGroup{ID: m.Group})
		}
		away.Groups[len(away.Groups)-1].Add(broker.AwayMembers{Peer: p, Count: m.Count})
	}
	return away
}
