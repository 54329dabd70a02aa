package device

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/protocol/grant"
)

// A Router runs commands.
type Router interface {
	Handle(ctx context.Context, in commands.Inbound) *protocol.Response
}

// Agents are the registry, as far as a way to agents needs it.
type Agents interface {
	// AnswerOver takes an answer that came over a line.
	AnswerOver(line commands.Line, who *protocol.Principal, payload []byte) bool
	// HungUp is called when a line has ended.
	HungUp(line commands.Line, reason string)
	// OwnedBy lists the agents that a party registered.
	OwnedBy(owner protocol.Party) []protocol.AgentID
}

// An Announced is a message on a topic that is watched.
type Announced struct {
	Topic   string
	Payload []byte
	From    *grant.Grant
	Newest  func() bool // whether nothing newer has come on the topic by now
}

// Rights check the present rights of a grant's principal to topics. An error is a
// refusal.
type Rights interface {
	MayPublish(g grant.Grant, topic string, retain bool) error
	MaySubscribe(g grant.Grant, topic string) error
}

// Options configure a [Fleet]. All but Watch and what belongs to it are needed.
type Options struct {
	Origin  string // where the devices are described, id of the principal that acts for them
	Space   protocol.SpaceID
	Root    string // of the bridge's own topics
	Router  Router
	Agents  Agents
	Rights  Rights // of the announcers of devices
	Dial    func(who grant.Grant) (net.Conn, error)
	Metrics *Metrics
	Log     *slog.Logger

	// Watch are filters whose messages go to Take, of each topic the newest. From is the publisher
	// of a message, nil if unknown: messages of different parties are taken at the same time. The
	// described devices are complete only after all retained messages were taken: Mark publishes to
	// a topic, with every QoS that messages may wait with, and once that message has come and all
	// before it were taken, agents without a description are withdrawn.
	Watch []string
	From  func(topic string, payload []byte) *grant.Grant
	Take  func(a Announced)
	Mark  func(client string) error
	Taken func() // all that was retained, optional
}

// Principal is the principal that acts for the devices of an origin in a space. No
// credential authenticates as one.
func Principal(origin string, space protocol.SpaceID) *protocol.Principal {
	return &protocol.Principal{Kind: protocol.KindBridge, ID: origin, Space: space, Method: protocol.MethodBridge}
}

// A Fleet are the devices of one origin in one space.
type Fleet struct {
	Options
	who  *protocol.Principal
	wake chan struct{}

	mu      sync.Mutex
	members map[protocol.AgentID]*member
	topics  map[string]readers
	conn    *connection // nil without one
	sweep   bool        // the devices are all that there are, and agents of an earlier run may be there
	swept   bool
	leaving map[protocol.AgentID]*member
	refused map[protocol.AgentID]string // why registrations failed, which was said

	lanes  map[string]*lane  // with something to read, by party
	seq    uint64            // of the newest letter
	newest map[string]uint64 // letter of each watched topic, until it is taken
	unread int               // letters for Take that wait, or are being taken
	marked bool              // all that is retained has come, up to the letter mark
	mark   uint64
	toTake int  // of these letters, those that are not taken yet
	ended  bool // Run has ended: nothing is read any more

	asking  sync.WaitGroup // requests at work
	reading sync.WaitGroup // lanes at work
}

// readers are those that are read from a topic, by the party that described them.
type readers map[string][]*member

// NewFleet returns a fleet without devices.
func NewFleet(o Options) *Fleet {
	return &Fleet{
		Options: o, who: Principal(o.Origin, o.Space), wake: make(chan struct{}, 1),
		members: map[protocol.AgentID]*member{}, topics: map[string]readers{}, lanes: map[string]*lane{}, newest: map[string]uint64{},
		leaving: map[protocol.AgentID]*member{}, refused: map[protocol.AgentID]string{},
	}
}

// Set makes these the devices of the fleet. Those that have not changed go on
// undisturbed. It does not block: the rest is done by [Fleet.Run].
func (f *Fleet) Set(devices []*Device) {
	f.mu.Lock()
	defer f.mu.Unlock()
	there := map[protocol.AgentID]bool{}
	for _, d := range devices {
		there[d.Agent] = true
		f.put(d)
	}
	for id := range f.members {
		if !there[id] {
			f.drop(id)
		}
	}
	f.sweep = !f.swept
	f.changed()
}

// Put adds or replaces one device.
func (f *Fleet) Put(d *Device) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.put(d)
	f.changed()
}

// Remove takes one device out.
func (f *Fleet) Remove(id protocol.AgentID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.drop(id)
	f.changed()
}

// complete notes that all devices are known: other agents of the origin are
// withdrawn.
func (f *Fleet) complete() {
	f.sweep = !f.swept
	f.stir()
	if f.Taken != nil {
		f.reading.Go(f.Taken)
	}
}

func (f *Fleet) put(d *Device) {
	old := f.members[d.Agent]
	if old == nil {
		old = f.leaving[d.Agent]
		delete(f.leaving, d.Agent)
	}
	if old != nil && old.Digest == d.Digest && f.members[d.Agent] == old {
		return
	}
	m := newMember(f, d)
	if old != nil {
		m.inherit(old)
		f.index(old, false)
	}
	f.members[d.Agent] = m
	f.index(m, true)
}

func (f *Fleet) drop(id protocol.AgentID) {
	if m := f.members[id]; m != nil {
		m.retire()
		f.index(m, false)
		delete(f.members, id)
		f.leaving[id] = m
	}
}

// index notes that a member is read from its topics, or is not any more.
func (f *Fleet) index(m *member, add bool) {
	party := partyOf(m.By)
	for _, topic := range m.Topics() {
		by := f.topics[topic]
		if by == nil {
			by = readers{}
			f.topics[topic] = by
		}
		by[party] = slices.DeleteFunc(by[party], func(o *member) bool { return o == m })
		if add {
			by[party] = append(by[party], m)
		}
		if len(by[party]) == 0 {
			delete(by, party)
		}
		if len(by) == 0 {
			delete(f.topics, topic)
		}
	}
}

// changed has Run look at the devices, which are others by now.
func (f *Fleet) changed() {
	f.Metrics.devices(f.Origin, f.Space, len(f.members))
	f.stir()
}

// stir has Run look for work. It does not block.
func (f *Fleet) stir() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// Lifetimes of the loop of [Fleet.Run].
const (
	beatEvery  = 15 * time.Second // between heartbeats, and between attempts
	reconnects = time.Second      // before a connection that has ended is made anew
)

// Run keeps the devices registered, and asks and hears them, until ctx ends.
func (f *Fleet) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		err := f.serve(ctx)
		if ctx.Err() == nil {
			f.Log.Warn("the connection for plain devices has ended, and is made anew", "origin", f.Origin, "space", f.Space, "error", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(reconnects):
		}
	}
	f.mu.Lock()
	members := slices.Collect(maps.Values(f.members))
	f.ended = true
	f.mu.Unlock()
	for _, m := range members {
		m.hangUp("the bridge stops")
		f.mu.Lock()
		m.retire()
		f.mu.Unlock()
	}
	f.asking.Wait()
	f.reading.Wait()
	return nil
}

// serve works with one connection until that ends.
func (f *Fleet) serve(ctx context.Context) error {
	id := "aibridge-" + f.Origin + "-" + protocol.NewID()
	marks := 0
	conn, err := connect(ctx, func() (net.Conn, error) { return f.Dial(grant.Of(f.who)) }, id, func(r received) {
		if r.topic == protocol.NewTopics(f.Root).ClientResponse(id) {
			if marks++; marks == marksSent {
				f.allCame()
			}
			return
		}
		f.take(r)
	})
	if err != nil {
		return err
	}
	f.use(conn)
	defer conn.close()
	defer f.use(nil)
	if err := f.listen(ctx, conn, id); err != nil {
		return err
	}
	beat := time.NewTicker(beatEvery)
	defer beat.Stop()
	subscribed := map[string]bool{}
	for {
		if err := f.settle(ctx, conn, subscribed); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-conn.ended:
			return net.ErrClosed
		case <-f.wake:
		case <-beat.C:
			f.beat()
		}
	}
}

// marksSent is the number of messages [Options].Mark publishes: that one with each QoS
// that retained messages are sent with.
const marksSent = 2

// listen subscribes to the filters of Watch, and notes when all retained messages
// have come.
func (f *Fleet) listen(ctx context.Context, conn *connection, id string) error {
	if len(f.Watch) == 0 {
		return nil
	}
	filters := append([]string{protocol.NewTopics(f.Root).ClientResponse(id)}, f.Watch...)
	if refused, err := conn.subscribe(ctx, filters); err != nil || len(refused) > 0 {
		return cmp.Or(err, fmt.Errorf("the broker refuses %v", refused))
	}
	return f.Mark(id)
}

func (f *Fleet) use(c *connection) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.conn = c
}

// take has one message read. It does not block.
func (f *Fleet) take(r received) {
	watched := f.Take != nil && slices.ContainsFunc(f.Watch, func(filter string) bool { return protocol.Overlap(filter, r.topic) })
	var from *grant.Grant
	if watched {
		from = f.From(r.topic, r.payload)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seq++
	switch {
	case watched:
		f.newest[r.topic] = f.seq
		f.post(partyOf(from), &letter{received: r, seq: f.seq, since: f.seq, watched: true, from: from})
	case len(r.payload) > maxPayload:
		f.Metrics.unreadable(f.Origin)
	default:
		for party := range f.topics[r.topic] {
			f.post(party, &letter{received: r, seq: f.seq})
		}
	}
}

// Again has the last message of a watched topic taken once more, since its
// publisher is known by now. It does nothing if a newer one has come. It does not
// block.
func (f *Fleet) Again(topic string, payload []byte, from *grant.Grant) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, newer := f.newest[topic]; newer || f.ended {
		return
	}
	f.seq++
	f.newest[topic] = f.seq
	f.post(partyOf(from), &letter{received: received{topic: topic, payload: payload, retain: true, at: time.Now()}, seq: f.seq, since: f.seq, watched: true, from: from})
}

// allCame notes that all that is retained has come.
func (f *Fleet) allCame() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.marked, f.mark, f.toTake = true, f.seq, f.unread
	if f.toTake == 0 {
		f.complete()
	}
}
