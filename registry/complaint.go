package registry

import (
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// complainEvery is how often the operator of an agent is told that its answers
// cannot be read.
const complainEvery = time.Minute

// Complaints count the answers of an agent that could not be read.
type complaints struct {
	told   time.Time // when the operator was told last, zero before that
	untold int
}

// complain counts an answer that could not be read, and tells those who run the
// agent: in the log and on the operators' topic, once in a while.
func (s *Service) complain(a *Agent, reason string) {
	s.metrics.unreadable.Inc()
	if a == nil { // a skill that is called without an agent
		return
	}
	times := s.board.complain(a.key(), time.Now())
	if times == 0 {
		return
	}
	reason = plain(reason)
	s.log.Warn("answers of an agent cannot be read", "agent", a.ID, "space", a.Space, "times", times, "last", reason)
	s.event("agent", "agent.unreadable", agentEvent{a.ID, a.Space, a.Type, statusOf(s.board.isOnline(a.key())), reason})
}

// complain is how many complaints about an agent are to be told now, 0 if its
// operator was told not long ago.
func (b *board) complain(key agentKey, now time.Time) (times int) {
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

// speaker is the agent of an id that somebody speaks for, nil if there is none.
func (b *board) speaker(id protocol.AgentID, who *protocol.Principal) *Agent {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range b.byID[id] {
		if p.agent.belongsTo(who) {
			return p.agent
		}
	}
	return nil
}
