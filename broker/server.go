package broker

import (
	"context"
	"errors"
	"io"
	"iter"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aibridge/aibridge/broker/packet"
	"github.com/aibridge/aibridge/broker/topic"
	"github.com/aibridge/aibridge/internal/clock"
	"github.com/aibridge/aibridge/protocol"
)

// errClosed answers calls on a closed broker.
var errClosed = errors.New("broker is closed")

// A Broker is the MQTT server.
type Broker struct {
	options  Options
	log      *slog.Logger
	clock    *clock.Clock
	ctx      context.Context // ends when the broker closes
	cancel   context.CancelFunc
	closing  chan struct{}
	index    index
	retained retained
	timers   *timers
	journal  *scribe // nil without a journal
	flusher  *flusher
	receipts receipts
	shared   *sharedRetained // nil for a bridge that is alone
	earlier  []earlierRetained
	stats    stats
	traces   traces
	readers  readers
	refusals refusals
	kept     tally // sessions that outlive their connections

	shareTurns     atomic.Uint32 // of groups with members at peers
	published      atomic.Uint64 // number of the last publication that peers may get
	numbering      numbering     // of publishes of QoS 2
	origins        *origins
	publishing     sync.RWMutex // held for reading while a message is given to all; see [Broker.Quiesce]
	authenticating chan struct{}
	connected      atomic.Int64
	bequests       atomic.Int64 // Wills on their way, and what an adopter has taken and not stored
	publishesWills atomic.Bool  // see [Broker.PublishWills]
	gaveUpWills    atomic.Bool  // see [Broker.GiveUpWills]
	stopped        atomic.Bool  // closed, for those who do not hold mu
	afterHandlers  []func()
	beforeWrite    atomic.Pointer[func()]

	mu        sync.Mutex
	closed    bool
	draining  bool // see [Broker.Drain]
	sessions  map[SessionID]*session
	adopted   []*Broker // replaced, never changed
	listeners map[io.Closer]struct{}

	connMu sync.Mutex
	conns  []*conn

	turns sync.Pool // of *turn, for goroutines other than readers

	serving sync.WaitGroup // accept loops and connections
	working sync.WaitGroup // the broker's own goroutines
}

// New returns a broker that serves nothing yet. With a journal it has loaded
// what is kept there.
func New(options Options) (*Broker, error) {
	options, err := options.check()
	if err != nil {
		return nil, err
	}
	b := &Broker{
		options: options, log: options.Log, clock: options.Clock, closing: make(chan struct{}),
		sessions: make(map[SessionID]*session), listeners: make(map[io.Closer]struct{}),
		authenticating: make(chan struct{}, options.Limits.Authentications),
	}
	nothing := func() {}
	b.beforeWrite.Store(&nothing)
	b.index.peers = options.Peers
	b.published.Store(rand.Uint64())
	b.origins = newOrigins()
	b.ctx, b.cancel = context.WithCancel(context.Background())
	b.stats.init(b)
	b.timers = newTimers(b)
	b.flusher = newFlusher(b)
	if options.Retained != nil {
		b.shared = newSharedRetained(b, options.Retained)
	}
	if options.Journal != nil {
		b.journal = newScribe(b, options.Journal)
		if err := b.restore(b.ctx); err != nil {
			return nil, err
		}
		go b.journal.run()
	}
	if err := b.readers.start(b, options.Readers); err != nil {
		return nil, err
	}
	if b.shared != nil {
		b.working.Go(func() { b.shared.run(b.closing) })
		b.working.Go(func() {
			b.shared.takeIn(b, b.earlier)
			b.shared.follow()
		})
	}
	b.working.Go(func() { b.timers.run(b.closing) })
	b.working.Go(func() { b.flusher.run(b.closing) })
	if options.SysInterval > 0 {
		b.working.Go(func() { b.publishSys(b.closing) })
	}
	return b, nil
}

// Handle lets fn see every publication of a client whose topic the filter
// covers, wills included, after it was permitted and before it is routed to
// subscribers. Call it before [Broker.Serve]. The function is called by the
// reader of the client's connection, in the client's order, and must not
// block. Messages of the bridge itself are not seen.
func (b *Broker) Handle(filter string, fn func(*Publication)) { b.index.handle(filter, fn) }

// AfterHandlers has fn called when the handlers have seen what has come for
// them for now: at the end of every turn of a reader that called any, before
// what was published in it is written. So handlers may put off what is cheaper
// done for many publications at once. Call it before [Broker.Serve]. The
// function must not block.
func (b *Broker) AfterHandlers(fn func()) { b.afterHandlers = append(b.afterHandlers, fn) }

// BeforeWrite has fn called before anything is written to a connection or to
// the journal. So what must be on record before a message leaves need not be
// when the message is published: it is put there for many at once. The function
// is called often, with locks of the broker held: with nothing to do it must
// cost nothing, and it must not call the broker. Call it before [Broker.Serve]; the journal may be
// written before.
func (b *Broker) BeforeWrite(fn func()) { b.beforeWrite.Store(&fn) }

// Publish sends a message from the bridge to those of the recipients who
// subscribed to its topic, without permission check. Receivers counts the
// connected sessions it was written to or queued for. The message is copied.
func (b *Broker) Publish(to protocol.Recipients, m protocol.Message) (receivers int, err error) {
	if to.Nobody() {
		return 0, protocol.Errorf(protocol.Internal, "a message on %q is for nobody", m.Topic)
	}
	if _, few := to.Parties(); few && m.Retain {
		return 0, protocol.Errorf(protocol.Internal, "a message on %q is retained, for some alone", m.Topic)
	}
	if m.QoS > 2 {
		return 0, protocol.Errorf(protocol.InvalidParameter, "invalid QoS %d", m.QoS)
	}
	if b.stopped.Load() {
		return 0, errClosed
	}
	t := b.getTurn()
	r, err := t.ownRoute(m.Topic)
	if err != nil {
		b.putTurn(t)
		return 0, err
	}
	t.now = b.flusher.now()
	t.own = true // written by the flusher, later
	t.loadOwn(&to, &m)
	receivers = t.publishOwn(r)
	b.flusher.take(t)
	b.putTurn(t)
	return receivers, nil
}

// ownRoute is the route of a message of the bridge's own. Its topic is checked with the
// first message to it.
func (t *turn) ownRoute(name string) (*route, error) {
	if r := t.fitRoute(name); r != nil {
		return r, nil
	}
	if !topic.ValidName(name) || !packet.ValidString(bytesOf(name)) {
		return nil, protocol.Errorf(protocol.InvalidParameter, "invalid topic %q", name)
	}
	if most := t.b.options.Limits.TopicLevels; topic.DeeperThan(most, name) {
		return nil, protocol.Errorf(protocol.InvalidParameter, "topic %.64q… has more than %d levels", name, most)
	}
	r := t.routeOf(name)
	r.fit = true
	return r, nil
}

// Disconnect ends the connection of a client with an MQTT 5 reason code. It
// reports whether the client was connected.
func (b *Broker) Disconnect(id SessionID, reason byte, text string) bool {
	s := b.session(id)
	if s == nil {
		return false
	}
	t := b.getTurn().begin()
	defer b.putTurn(t)
	why := text
	if why == "" {
		why = packet.Reason(reason).String()
	}
	s.mu.Lock()
	c := s.conn.Load()
	if c == nil {
		s.mu.Unlock()
		return false
	}
	t.detachLocked(s, why)
	s.mu.Unlock()
	b.stats.disconnected(packet.Reason(reason))
	c.end(packet.Reason(reason), text, t.now)
	b.ended(c.client, packet.Reason(reason), why)
	return true
}

// End ends the connection of one client, unless another has its session by now. It
// reports whether it was connected.
func (b *Broker) End(client *Client, reason byte, text string) bool {
	s := b.session(client.Session())
	if s == nil {
		return false
	}
	t := b.getTurn().begin()
	defer b.putTurn(t)
	s.mu.Lock()
	c := s.conn.Load()
	if c == nil || c.client != client {
		s.mu.Unlock()
		return false
	}
	t.detachLocked(s, text)
	s.mu.Unlock()
	b.stats.disconnected(packet.Reason(reason))
	c.end(packet.Reason(reason), text, t.now)
	b.ended(client, packet.Reason(reason), text)
	return true
}

// Clients yields the connected clients.
func (b *Broker) Clients() iter.Seq[*Client] {
	return func(yield func(*Client) bool) {
		for _, s := range b.allSessions() {
			if c := s.conn.Load(); c != nil && !yield(c.client) {
				return
			}
		}
	}
}

// Close takes no more packets, acknowledges those that it took, disconnects every
// client with reason 0x8B, publishes their Wills, writes what the journal still has to,
// and returns when all is done or the context ends.
func (b *Broker) Close(ctx context.Context) error {
	if !b.shut() {
		return nil
	}
	b.closeAdopted(ctx)
	defer b.leaveFamily()
	b.flusher.idle(ctx)
	b.dismiss(ctx)
	b.drainConns(ctx)
	b.publishLastWills(ctx)
	close(b.closing)
	b.cancel()
	b.readers.stop()
	b.working.Wait()
	if b.journal != nil {
		b.journal.close(ctx)
	}
	done := make(chan struct{})
	go func() { b.serving.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// drainConns gives connections a moment to take their last bytes.
func (b *Broker) drainConns(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	for len(b.allConns()) > 0 && ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-time.After(2 * time.Millisecond):
		}
	}
	for _, c := range b.allConns() {
		c.abort()
	}
}

func (b *Broker) shut() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return false
	}
	b.closed = true
	b.stopped.Store(true)
	for l := range b.listeners {
		_ = l.Close()
	}
	return true
}

func (b *Broker) isClosed() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.closed
}

func (b *Broker) newSession(id string, principal *protocol.Principal) *session {
	s := &session{id: id, owner: principal.Party()}
	s.sender.recorded = b.leastNumber()
	s.sender.last = s.sender.recorded
	s.is(principal)
	s.events.presence = b.options.Presence
	if b.options.Waiting != nil {
		s.room = b.options.Waiting(s.key())
		s.upgrades = s.room != nil && s.room.Upgrade
	}
	return s
}

// sessionFor returns the session of a principal's client, and whether it is new; nil
// when the broker is closed.
func (b *Broker) sessionFor(id string, principal *protocol.Principal) (s *session, fresh bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed || b.draining {
		return nil, false
	}
	key := SessionID{principal.Home(), id}
	if s = b.sessions[key]; s != nil {
		return s, false
	}
	s = b.newSession(id, principal)
	b.sessions[key] = s
	return s, true
}

// session returns a session, or nil.
func (b *Broker) session(id SessionID) *session {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.sessions[id]
}

// turnOf calls f in a turn of its own for a session, if it is there. The session's mu
// is held.
func (b *Broker) turnOf(id SessionID, f func(t *turn, s *session)) {
	s := b.session(id)
	if s == nil {
		return
	}
	t := b.getTurn().begin()
	defer b.putTurn(t)
	s.mu.Lock()
	defer s.mu.Unlock()
	f(t, s)
}

func (b *Broker) removeSession(s *session) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.sessions[s.key()] == s {
		delete(b.sessions, s.key())
	}
}

func (b *Broker) allSessions() []*session {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := make([]*session, 0, len(b.sessions))
	for _, s := range b.sessions {
		all = append(all, s)
	}
	return all
}

func (b *Broker) addConn(c *conn) {
	b.connMu.Lock()
	defer b.connMu.Unlock()
	c.at = len(b.conns)
	b.conns = append(b.conns, c)
}

func (b *Broker) removeConn(c *conn) {
	b.connMu.Lock()
	defer b.connMu.Unlock()
	last := len(b.conns) - 1
	b.conns[c.at] = b.conns[last]
	b.conns[c.at].at = c.at
	b.conns[last] = nil
	b.conns = b.conns[:last]
	c.visit.Leave()
	c.door.open.Add(-1)
}

func (b *Broker) allConns() []*conn {
	b.connMu.Lock()
	defer b.connMu.Unlock()
	return append([]*conn(nil), b.conns...)
}

// getTurn lends a turn to a goroutine that has none; putTurn ends it.
func (b *Broker) getTurn() *turn {
	if t, ok := b.turns.Get().(*turn); ok {
		return t
	}
	return newTurn(b)
}

func (b *Broker) putTurn(t *turn) {
	if t.quiet() {
		b.stats.add(&t.count)
	} else {
		t.end()
	}
	t.own = false
	t.fresh()
	t.msg.payload, t.msg.props = nil, nil
	b.turns.Put(t)
}
