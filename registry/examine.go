package registry

import (
	"fmt"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/registry/ask"
	"github.com/aibridge/aibridge/registry/doctor"
	"github.com/aibridge/aibridge/registry/schema"
)

var _ doctor.Agents = (*Service)(nil)

// Examine implements [doctor.Agents].
func (s *Service) Examine(space protocol.SpaceID, id protocol.AgentID) (doctor.Agent, bool) {
	a, _, ok := s.opts.Agents.Get(tableKey(space, id))
	if !ok {
		return doctor.Agent{}, false
	}
	found := doctor.Agent{
		Owner: a.owner(), ClientID: a.ClientID, RegisteredAt: time.UnixMilli(a.RegisteredAt), Heartbeat: s.opts.Heartbeat, Open: s.asking.OpenWith(a.Key()),
	}
	s.board.examine(a.Key(), &found)
	for _, r := range s.index.skillsOf(a.Key()) {
		found.Skills = append(found.Skills, doctor.Skill{ID: r.ID, Warnings: s.doubts(&r.Skill)})
	}
	return found, true
}

// doubts are the faults of the schemas of a skill, or words that are probably misspelt.
func (s *Service) doubts(skill *Skill) (doubts []string) {
	for i := range skill.Capabilities {
		c := &skill.Capabilities[i]
		for _, of := range []struct {
			field string
			text  schema.Source
		}{{"params_schema", c.ParamsSchema}, {"result_schema", c.ResultSchema}} {
			compiled, err := s.schemas.Get(of.text, c.Format.formats())
			if err != nil {
				doubts = append(doubts, fmt.Sprintf("%s of %s: %s", of.field, c.ID, err))
				continue
			}
			for _, m := range compiled.Misspelt() {
				doubts = append(doubts, fmt.Sprintf("%s of %s: %s", of.field, c.ID, m))
			}
		}
	}
	return doubts
}

// NotFound implements [doctor.Agents].
func (s *Service) NotFound(who *protocol.Principal, named protocol.SpaceID, id protocol.AgentID) error {
	if named != "" && named != who.Home() && !everywhere(who) {
		return notFound("agent", id)
	}
	return s.missing(who, named, "agent", string(id), agentOf(id))
}

// Behind implements [doctor.Agents]. A party that is an agent speaks for itself,
// registered or not.
func (s *Service) Behind(party protocol.Party, clientID string) []protocol.AgentID {
	agents := s.board.behind(party, clientID)
	if party.Kind != protocol.KindAgent {
		return agents
	}
	self := protocol.AgentID(party.ID)
	for _, id := range agents {
		if id == self {
			return agents
		}
	}
	return append([]protocol.AgentID{self}, agents...)
}

// behind are the agents of a party that a client of it belongs to, or has
// registered.
func (b *board) behind(party protocol.Party, clientID string) (agents []protocol.AgentID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	seen := make(map[*presence]bool)
	add := func(p *presence) {
		if a := p.agent; !seen[p] && a.Space == party.Space && (a.owner().Includes(party) || a.ID.Party(a.Space) == party) {
			seen[p] = true
			agents = append(agents, a.ID)
		}
	}
	for _, p := range b.registeredBy[clientID] {
		add(p)
	}
	for _, c := range b.clients[clientID] {
		for p := range c.linked {
			add(p)
		}
	}
	return agents
}

// examine returns the board's knowledge of an agent.
func (b *board) examine(key ask.AgentKey, found *doctor.Agent) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.agents[key]
	if p == nil {
		return
	}
	found.Online, found.Suspended, found.LastBeat = p.online, p.suspended, p.lastBeat
	found.Missed = p.heldBy != nil && !p.lease.After(time.Now())
	found.Endpoints, found.Skew, found.SkewKnown = len(p.endpoints), p.skew, p.skewKnown
	for _, l := range p.links {
		switch {
		case l.conn.line != nil:
			found.Line = true
		case l.listening:
			found.Listening = append(found.Listening, l.conn.clientID)
			fallthrough
		default:
			found.Clients = append(found.Clients, l.conn.clientID)
		}
	}
	if _, best := b.away.elsewhere(key); best != nil {
		switch best.Way {
		case byLine:
			found.Line = true
		case byMQTT:
			found.Listening, found.Clients = append(found.Listening, best.Client), append(found.Clients, best.Client)
		}
	}
	if n := len(p.history); n > 0 && !p.online {
		found.Offline = p.history[n-1].Reason
	}
}

// timed notes the time of an agent's clock.
func (b *board) timed(key ask.AgentKey, call *commands.Call) {
	skew, ok := call.Skew()
	if !ok {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if p := b.agents[key]; p != nil {
		p.skew, p.skewKnown = skew, true
	}
}
