package registry

import (
	"slices"
	"time"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/registry/ask"
)

// A sign is the message of a bridge to the others about an agent: that it is alive there, and the
// way by which it is called. Signs are sent when that changes, not with every heartbeat, and end
// with the process of the bridge (docs/decisions/0018).
type sign struct {
	Space  protocol.SpaceID `json:"space"`
	ID     protocol.AgentID `json:"id"`
	Alive  bool             `json:"alive,omitempty"`
	Way    wayKind          `json:"way,omitempty"`
	Client string           `json:"client,omitempty"` // of MQTT that listens
	Since  int64            `json:"since"`            // when Way changed last, Unix milliseconds
	Reason string           `json:"reason,omitempty"` // of the change
}

// A wayKind is the kind of way by which an agent is called.
type wayKind string

// The ways, but for none.
const (
	byMQTT     wayKind = "mqtt"
	byLine     wayKind = "line"     // its WebSocket connection
	byEndpoint wayKind = "endpoint" // any bridge can call
)

func (s *sign) key() ask.AgentKey { return ask.AgentKey{Space: s.Space, ID: s.ID} }

// connected reports whether the agent is asked over a connection with the bridge.
func (s *sign) connected() bool { return s.Way == byMQTT || s.Way == byLine }

// same reports whether two signs are equal for other bridges.
func (s *sign) same(o *sign) bool {
	return s.Alive == o.Alive && s.Way == o.Way && s.Client == o.Client
}

// A sightingAway is the sign of an agent at another bridge.
type sightingAway struct {
	sign
	at    ask.Bridge
	round uint64 // of telling everything
}

// away are the agents that are there for other bridges.
type away struct {
	agents map[ask.AgentKey][]sightingAway // one for each bridge at most
	rounds map[ask.Bridge]uint64
}

func newAway() away {
	return away{agents: make(map[ask.AgentKey][]sightingAway), rounds: make(map[ask.Bridge]uint64)}
}

// set takes up a sign, and returns the one before.
func (a *away) set(from ask.Bridge, s sign) (before sign) {
	key := s.key()
	list := a.agents[key]
	i := slices.IndexFunc(list, func(o sightingAway) bool { return o.at == from })
	if i >= 0 {
		before = list[i].sign
		list = slices.Delete(list, i, i+1)
	}
	if s.Alive || s.Way != "" {
		list = append(list, sightingAway{s, from, a.rounds[from]})
	}
	if len(list) == 0 {
		delete(a.agents, key)
	} else {
		a.agents[key] = list
	}
	return before
}

// of lists the agents of a bridge whose signs are of earlier rounds only.
func (a *away) of(from ask.Bridge, before uint64) (keys []ask.AgentKey) {
	for key, list := range a.agents {
		for i := range list {
			if list[i].at == from && list[i].round < before {
				keys = append(keys, key)
			}
		}
	}
	return keys
}

// elsewhere is the presence of an agent at other bridges: whether it is alive there, and
// the sign of the one where it was connected last, or else of one where it can be asked.
func (a *away) elsewhere(key ask.AgentKey) (alive bool, best *sightingAway) {
	list := a.agents[key]
	for i := range list {
		s := &list[i]
		alive = alive || s.Alive
		if s.Way == "" {
			continue
		}
		if best == nil || s.connected() && (!best.connected() || s.Since > best.Since) {
			best = s
		}
	}
	return alive, best
}

// told takes a bridge's sign of an agent.
func (b *board) told(from ask.Bridge, s sign) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.takeUp(from, s, time.UnixMilli(s.Since))
}

// takeUp notes another bridge's sign of an agent, with the mutex held. at is the
// time of the change.
func (b *board) takeUp(from ask.Bridge, s sign, at time.Time) {
	before := b.away.set(from, s)
	p := b.agents[s.key()]
	if p == nil {
		return // it is not known here yet, or not any more
	}
	if before.connected() && !s.connected() {
		b.left(p.agent, from, s.Reason)
	}
	b.judgeAt(p, s.Reason, at)
}

// tellsAll begins a round in which a bridge sends all its signs.
func (b *board) tellsAll(from ask.Bridge) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.away.rounds[from]++
}

// toldAll ends such a round: signs that were not sent in it are withdrawn.
func (b *board) toldAll(from ask.Bridge) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.loses(from, b.away.rounds[from], "gone")
}

// bridgeEnded forgets the signs of a bridge.
func (b *board) bridgeEnded(from ask.Bridge) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.loses(from, b.away.rounds[from]+1, "its bridge has ended")
	delete(b.away.rounds, from)
}

func (b *board) loses(from ask.Bridge, before uint64, reason string) {
	now := time.Now()
	for _, key := range b.away.of(from, before) {
		b.takeUp(from, sign{Space: key.Space, ID: key.ID, Since: now.UnixMilli(), Reason: reason}, now)
	}
}

// signs calls tell with every sign of this bridge.
func (b *board) signs(tell func(sign)) {
	b.mu.Look()
	defer b.mu.Unlock()
	for _, p := range b.agents {
		if p.sign.Alive {
			tell(p.sign)
		}
	}
}

// signAs sends the sign of an agent to the other bridges, if it has changed.
func (b *board) signAs(p *presence, alive bool, reason string, now time.Time) {
	if b.tell == nil || b.inside(p.agent) {
		return
	}
	s := sign{Space: p.agent.Space, ID: p.agent.ID, Alive: alive, Since: now.UnixMilli(), Reason: reason}
	if alive {
		s.Way, s.Client = p.kind()
	}
	if !s.same(&p.sign) {
		p.sign = s
		b.tell(s)
	}
}

// kind is by which way an agent that is alive is asked here, and the MQTT client.
func (p *presence) kind() (kind wayKind, client string) {
	for i := range p.links {
		switch l := &p.links[i]; {
		case !l.listening:
		case l.conn.line == nil:
			return byMQTT, l.conn.clientID
		default:
			kind = byLine
		}
	}
	if kind == "" && len(p.endpoints) > 0 {
		kind = byEndpoint
	}
	return kind, ""
}
