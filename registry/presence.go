package registry

import (
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/registry/ask"
)

// A board knows which agents are online. The rule:
//
// An agent is online while it is alive and there is a way to it.
//
// It is alive while a connection that belongs to it stands and, without one,
// while its lease holds, which registrations and heartbeats renew for three
// heartbeat intervals. An MQTT client belongs to an agent if it is of the same
// principal and either subscribes to the agent's request topic or registered
// the agent; a WebSocket connection, if the agent was registered or sent a
// heartbeat over it, and over no other since. An agent that sends heartbeats
// over its connection is held to them: when three are missed it is offline
// although the connection stands. With the last connection of an agent ends its
// lease too, unless it has endpoints. An agent whose certificate has ended is
// suspended, and offline in any case.
//
// The way to it is, in this order, a client of its that subscribes to its
// request topic, its WebSocket connection, or one of its endpoints, see
// [Service.callable]. An agent that was registered over MQTT is not called at
// endpoints. In a cluster all of this counts at every bridge: an agent that is
// online at one of them is online, and those where it is not connected pass
// requests for it on to one where it is.
//
// A filter counts as a subscription to a request topic only if it names the
// agent: an operator that subscribes to everything is no agent.
type board struct {
	topics  protocol.Topics
	lease   time.Duration
	changed func(a *Agent, online bool, reason string) // must neither block nor call the board
	stirred func(a *Agent)                             // the same for agents that come or go, callable or not

	left func(a *Agent, at ask.Bridge, reason string) // must neither block nor call the board: requests sent there get no answer
	// tell sends a sign of an agent to the other bridges; nil without others.
	tell func(sign)
	// displaced ends a connection whose agent another client has registered.
	displaced func(conn any, reason string)

	// certified fails if the certificate an agent was registered with is no longer
	// valid.
	certified func(a *Agent) error
	// callable lists the endpoints of an agent that may be called.
	callable func(a *Agent) []string
	// inside reports whether an agent is a part of the bridge, to which no way is
	// needed.
	inside func(a *Agent) bool

	mu           boardMutex
	agents       map[ask.AgentKey]*presence
	byID         map[protocol.AgentID][]*presence // in several spaces there may be one of the same id
	registeredBy map[string][]*presence           // by MQTT client id
	conns        map[any]*conn
	clients      map[string][]*conn           // by client id: two for a moment when one takes over
	listeners    map[protocol.AgentID][]*conn // once for every filter
	away         away
	wheel        *wheel
	online       int
}

// A presence is the state of one agent's connections, lease and heartbeats.
type presence struct {
	agent     *Agent
	topics    ask.Topics
	endpoints []string // that it may be called at
	links     []link   // the connections that belong to it
	servers   []*conn  // WebSocket connections that it may have been asked over

	lease    time.Time // when it ends, zero without one
	heldBy   *conn     // the connection that sends heartbeats
	lastBeat time.Time // zero before the first

	there     bool      // alive when it was judged last
	here      bool      // and could be asked by this bridge itself
	hereSince time.Time // when here last changed
	sign      sign      // as sent to other bridges
	online    bool
	since     time.Time // when online last changed, zero before that
	scheduled bool      // in the wheel
	suspended bool      // the certificate it was registered with has ended

	history []Change // of online, the oldest first, bounded

	skew      time.Duration // the lead of its clock over the bridge's, when last known
	skewKnown bool

	complaints complaints
}

// A Change is an agent's coming or going.
type Change struct {
	At     int64  `json:"at" doc:"time, Unix milliseconds"`
	Status Status `json:"status" doc:"presence from then on: online or offline"`
	Reason string `json:"reason,omitempty" doc:"reason, in a few words"`
}

// maxHistory bounds the changes that are remembered of one agent.
const maxHistory = 32

// A link is a connection that belongs to an agent.
type link struct {
	conn      *conn
	listening bool // it subscribes to the agent's request topic
}

// way is the way to an agent that is alive; ok is whether there is one.
func (p *presence) way() (w ask.Way, ok bool) {
	for i := range p.links {
		switch l := &p.links[i]; {
		case !l.listening:
		case l.conn.line == nil:
			return ask.Way{Topics: p.topics}, true
		default:
			w.Line = l.conn.line
		}
	}
	if w.Line == nil {
		w.Endpoints = p.endpoints
	}
	return w, w.Line != nil || len(w.Endpoints) > 0
}

// alive reports whether the agent is there, whether or not there is a way to it.
func (p *presence) alive(now time.Time) bool {
	return !p.suspended && (p.lease.After(now) || len(p.links) > 0 && p.heldBy == nil)
}

// missedHeartbeats is the number of heartbeats that an agent may miss.
const missedHeartbeats = 3

func newBoard(topics protocol.Topics, heartbeat time.Duration, changed func(*Agent, bool, string)) *board {
	return &board{
		topics:       topics,
		lease:        missedHeartbeats * heartbeat,
		changed:      changed,
		certified:    func(*Agent) error { return nil },
		stirred:      func(*Agent) {},
		left:         func(*Agent, ask.Bridge, string) {},
		displaced:    func(any, string) {},
		callable:     func(*Agent) []string { return nil },
		inside:       func(*Agent) bool { return false },
		agents:       make(map[ask.AgentKey]*presence),
		byID:         make(map[protocol.AgentID][]*presence),
		registeredBy: make(map[string][]*presence),
		conns:        make(map[any]*conn),
		clients:      make(map[string][]*conn),
		listeners:    make(map[protocol.AgentID][]*conn),
		away:         newAway(),
		wheel:        newWheel(tickOf(heartbeat), time.Now()),
	}
}

// tickOf is the precision with which the leases of a heartbeat interval are watched.
func tickOf(heartbeat time.Duration) time.Duration {
	return max(heartbeat/30, 10*time.Millisecond)
}

// agentChanged follows the table of agents.
func (b *board) agentChanged(_ string, old, new *Agent) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if new == nil {
		if old != nil {
			b.forget(old.Key())
		}
		return
	}
	p := b.agents[new.Key()]
	if p == nil {
		p = &presence{topics: ask.TopicsOf(b.topics, new.ID)}
		b.agents[new.Key()] = p
		b.byID[new.ID] = append(b.byID[new.ID], p)
	} else if p.agent.ClientID != "" {
		take(b.registeredBy, p.agent.ClientID, p)
	}
	b.displace(p, new)
	p.agent, p.suspended, p.endpoints = new, b.certified(new) != nil, b.callable(new)
	if new.ClientID != "" {
		b.registeredBy[new.ClientID] = append(b.registeredBy[new.ClientID], p)
	}
	lease := p.lease
	for _, l := range append([]link(nil), p.links...) {
		b.relate(p, l.conn, "registered by another")
	}
	for _, c := range b.listeners[new.ID] {
		b.relate(p, c, "registered")
	}
	for _, c := range b.clients[new.ClientID] {
		b.relate(p, c, "registered")
	}
	if len(p.links) > 0 { // others took the place of its last connection
		p.lease = lease
	}
	b.judge(p, "registered")
}

// forget drops an agent that is no longer registered. That it is not online
// any more goes without saying.
func (b *board) forget(key ask.AgentKey) {
	p := b.agents[key]
	if p == nil {
		return
	}
	delete(b.agents, key)
	take(b.byID, key.ID, p)
	take(b.registeredBy, p.agent.ClientID, p)
	for _, l := range p.links {
		delete(l.conn.linked, p)
		delete(l.conn.serves, p)
	}
	for _, c := range p.servers {
		delete(c.asked, p)
	}
	p.links, p.servers, p.lease = nil, nil, time.Time{}
	b.signAs(p, false, "unregistered", time.Now())
	if p.online {
		p.online = false
		b.online--
	}
}

// renew begins or continues the lease of an agent. clientID is the MQTT
// client that brought the heartbeat, or line the WebSocket connection; "" and
// nil if it came another way.
func (b *board) renew(key ask.AgentKey, clientID string, line commands.Line, who *protocol.Principal) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.agents[key]
	if p == nil {
		return
	}
	p.lastBeat = time.Now()
	p.lease = p.lastBeat.Add(b.lease)
	for _, l := range p.links {
		over := clientID != "" && l.conn.clientID == clientID || line != nil && l.conn.line == line
		if over && l.conn.principal.Same(who) {
			p.heldBy = l.conn
		}
	}
	b.wheel.schedule(p)
	b.judge(p, "heartbeat")
}

// expire judges the agents whose lease has ended.
func (b *board) expire(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.wheel.advance(now, func(p *presence) { b.judge(p, "heartbeats missed") })
}

// judge applies the rule and reports changes.
func (b *board) judge(p *presence, reason string) { b.judgeAt(p, reason, time.Now()) }

// judgeAt is judge of a change at a time.
func (b *board) judgeAt(p *presence, reason string, at time.Time) {
	now := time.Now()
	alive := p.alive(now)
	here := alive
	if here && !b.inside(p.agent) {
		_, here = p.way()
	}
	b.signAs(p, alive, reason, now)
	there, best := b.away.elsewhere(p.agent.Key())
	if there = alive || there && !p.suspended; there != p.there {
		p.there = there
		b.stirred(p.agent)
	}
	online := here || best != nil && !p.suspended
	if here != p.here {
		p.here, p.hereSince = here, now
		if !here && best != nil {
			b.left(p.agent, ask.Bridge{}, reason)
		}
	}
	if online == p.online {
		return
	}
	if online && !here {
		at = time.UnixMilli(best.Since)
	}
	b.turn(p, online, at, reason)
}

// turn makes an agent online or offline.
func (b *board) turn(p *presence, online bool, at time.Time, reason string) {
	p.online, p.since = online, at
	if p.history = append(p.history, Change{p.since.UnixMilli(), statusOf(online), reason}); len(p.history) > maxHistory {
		p.history = append(p.history[:0], p.history[1:]...)
	}
	if online {
		b.online++
	} else {
		b.online--
	}
	b.changed(p.agent, online, reason)
}

// A sighting is the presence of an agent at a moment.
type sighting struct {
	online    bool
	suspended bool // the certificate it was registered with has ended
	connected bool // it has connections, or was registered over MQTT
	since     time.Time
	lastBeat  time.Time
}

// see looks an agent up. One that is not registered is offline.
func (b *board) see(key ask.AgentKey) sighting {
	b.mu.Look()
	defer b.mu.Unlock()
	p := b.agents[key]
	if p == nil {
		return sighting{}
	}
	s := sighting{
		online:    p.online,
		suspended: p.suspended,
		connected: len(p.links) > 0 || p.agent.ClientID != "" || b.connectedAway(key),
		since:     p.since,
		lastBeat:  p.lastBeat,
	}
	return s
}

// reachable returns the agent with the key and the way to it if it is online and
// there is one, else nil.
func (b *board) reachable(key ask.AgentKey) (*Agent, ask.Way) {
	b.mu.Look()
	defer b.mu.Unlock()
	if p := b.agents[key]; p != nil && p.online {
		if w, ok := b.wayTo(p); ok {
			return p.agent, w
		}
	}
	return nil, ask.Way{}
}

// wayTo is the way to an agent that is online: over its latest connection, here or
// at another bridge, or to its endpoints.
func (b *board) wayTo(p *presence) (w ask.Way, ok bool) {
	if p.here {
		w, ok = p.way()
	}
	if len(b.away.agents) == 0 {
		return w, ok
	}
	_, best := b.away.elsewhere(p.agent.Key())
	switch {
	case best == nil:
	case best.connected() && (!ok || len(w.Endpoints) > 0 || best.Since > p.hereSince.UnixMilli()):
		return ask.Way{Bridge: best.at}, true
	case !ok && len(p.endpoints) > 0:
		return ask.Way{Endpoints: p.endpoints}, true
	}
	return w, ok
}

// wayHere is the way from this bridge itself to an agent that is connected to it.
func (b *board) wayHere(key ask.AgentKey) (w ask.Way, ok bool) {
	b.mu.Look()
	defer b.mu.Unlock()
	if p := b.agents[key]; p != nil && p.here {
		w, ok = p.way()
	}
	return w, ok
}

// connectedAway reports whether an agent is connected to another bridge.
func (b *board) connectedAway(key ask.AgentKey) bool {
	_, best := b.away.elsewhere(key)
	return best != nil && best.connected()
}

// isAlive reports whether an agent is there, whether or not it can be asked.
func (b *board) isAlive(key ask.AgentKey) bool {
	b.mu.Look()
	defer b.mu.Unlock()
	p := b.agents[key]
	if p == nil {
		return false
	}
	elsewhere, _ := b.away.elsewhere(key)
	return p.alive(time.Now()) || elsewhere && !p.suspended
}

// changes lists when an agent came and went, the oldest first, as far as it is
// remembered.
func (b *board) changes(key ask.AgentKey) []Change {
	b.mu.Look()
	defer b.mu.Unlock()
	if p := b.agents[key]; p != nil {
		return append([]Change{}, p.history...)
	}
	return []Change{}
}

// isOnline is [board.see] without the details.
func (b *board) isOnline(key ask.AgentKey) bool {
	b.mu.Look()
	defer b.mu.Unlock()
	p := b.agents[key]
	return p != nil && p.online
}

// onlineCount is the number of agents that are online.
func (b *board) onlineCount() int {
	b.mu.Look()
	defer b.mu.Unlock()
	return b.online
}

// displace ends the connections that serve an agent, and have registered it, when
// a client of another id registers it: here or at another bridge.
func (b *board) displace(p *presence, by *Agent) {
	if p.agent == nil || by.ClientID == "" || p.agent.ClientID == by.ClientID {
		return
	}
	for _, l := range p.links {
		if l.listening && l.conn.clientID == p.agent.ClientID {
			b.displaced(l.conn.id, "agent registered by another client")
		}
	}
}
