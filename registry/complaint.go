package registry

import (
	"time"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/registry/ask"
)

// complainEvery is the interval at which operators are notified that an agent's
// answers cannot be read.
const complainEvery = time.Minute

// Complaints count the answers of an agent that could not be read.
type complaints struct {
	told   time.Time // the last notification, zero before the first
	untold int
}

// Complain implements [ask.Directory]: it passes a mistake on, counts a message
// that could not be read, and reports that once in a while, in the log and on the
// operators' topic. Over a line the sender may be any of its agents.
func (d directory) Complain(from ask.Sender, what ask.Mistake, reason string) {
	agents := d.agentsBehind(from)
	for _, key := range agents {
		d.opts.Mistaken(key, what, reason)
		if what == ask.Unreadable {
			d.complain(key, reason)
		}
	}
	if len(agents) == 0 && what == ask.Unreadable && from.Who == nil && from.Line == nil { // a skill that is called without an agent
		d.metrics.unreadable.Inc()
	}
}

// agentsBehind are the agents that may have sent a message.
func (d directory) agentsBehind(from ask.Sender) []ask.AgentKey {
	switch {
	case from.Line != nil:
		return d.board.servedBy(from.Line)
	case from.Who != nil:
		if a := d.board.speaker(from.ID, from.Who); a != nil {
			return []ask.AgentKey{a.Key()}
		}
	case from.Agent != nil:
		return []ask.AgentKey{from.Agent.Key()}
	}
	return nil
}

func (s *Service) complain(key ask.AgentKey, reason string) {
	s.metrics.unreadable.Inc()
	times := s.board.complain(key, time.Now())
	a, _, ok := s.opts.Agents.Get(tableKey(key.Space, key.ID))
	if times == 0 || !ok {
		return
	}
	s.log.Warn("answers of an agent cannot be read", "agent", a.ID, "space", a.Space, "times", times, "last", reason)
	s.event("agent", "agent.unreadable", agentEvent{a.ID, a.Space, a.Type, statusOf(s.board.isOnline(key)), reason})
}

// complain is the number of complaints about an agent to be reported now, 0 if some
// were reported not long ago.
func (b *board) complain(key ask.AgentKey, now time.Time) (times int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.agents[key]
	if p == nil {
		return 0
	}
	c := &p.complaints
	c.untold++
	if !c.told.IsZero() && now.Sub(c.told) < complainEvery {
		return 0
	}
	times = c.untold
	c.told, c.untold = now, 0
	return times
}

// speaker is the agent of an id that a principal speaks for, nil if there is none.
func (b *board) speaker(id protocol.AgentID, who *protocol.Principal) *Agent {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range b.byID[id] {
		if p.agent.BelongsTo(who) {
			return p.agent
		}
	}
	return nil
}
