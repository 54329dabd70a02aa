package registry

import (
	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

// HungUp notes that a line has ended, and with it what was asked over it.
func (s *Service) HungUp(line commands.Line, reason string) {
	agents := s.board.servedBy(line)
	s.board.disconnected(line, reason)
	for _, key := range agents { // that are still there, by another way
		s.exchanges.endOver(line, key, outcome{kind: gone, reason: reason})
	}
}

// AnswerOver takes what came over a line that is attended to. It reports false
// for what is neither an answer nor an event: a request of the agent's own, or
// nothing that can be read. It does not block and keeps nothing of the payload.
func (s *Service) AnswerOver(line commands.Line, who *protocol.Principal, payload []byte) bool {
	message, err := protocol.ViewReply(payload, s.opts.Limits)
	e := s.exchanges.find(message.ID())
	switch {
	case e == nil && message.Request != nil:
		return false
	case e == nil && err != nil:
		s.drop(dropMalformed, "", err.Error())
		s.complainOver(line, err)
		return false // which has the sender told what is wrong
	case e == nil:
		s.drop(dropUnknown, "", message.ID())
	case e.agent == nil || !e.agent.belongsTo(who) || e.line != line && !s.board.serves(line, e.agent.key()):
		s.drop(dropForeign, "", e.id)
	default:
		s.hear(e, message, err)
	}
	return true
}

// complainOver complains about the agents that belong to a line, as it cannot be
// told which of them has sent what cannot be read.
func (s *Service) complainOver(line commands.Line, err error) {
	for _, key := range s.board.servedBy(line) {
		if a, _, ok := s.opts.Agents.Get(tableKey(key.space, key.id)); ok {
			s.complain(a, "it does not tell what it answers: "+err.Error())
		}
	}
}

// serve makes a line the one that an agent is asked over. One that served it
// before does so no longer, unless only a heartbeat came over the new one.
func (b *board) serve(key agentKey, line commands.Line, who *protocol.Principal, heartbeat bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.agents[key]
	if p == nil || !p.agent.belongsTo(who) {
		return
	}
	before := p.server()
	if before != nil && (heartbeat || before.id == line) {
		return
	}
	c := b.conns[line]
	if c == nil {
		if !line.Attend() {
			return
		}
		c = &conn{id: line, line: line, principal: who, serves: make(map[*presence]bool, 1)}
		b.conns[line] = c
	}
	c.serves[p] = true
	b.relate(p, c, "listening")
	if before != nil {
		delete(before.serves, p)
		b.relate(p, before, "served by another connection")
	}
}

// server is the connection that the agent is asked over without MQTT, nil if
// there is none.
func (p *presence) server() *conn {
	for i := range p.links {
		if c := p.links[i].conn; c.serves[p] {
			return c
		}
	}
	return nil
}

// serves reports whether an agent is asked over a line.
func (b *board) serves(line commands.Line, key agentKey) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	c, p := b.conns[line], b.agents[key]
	return c != nil && p != nil && c.serves[p]
}

// servedBy lists the agents that belong to a line.
func (b *board) servedBy(line commands.Line) []agentKey {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.conns[line]
	if c == nil {
		return nil
	}
	keys := make([]agentKey, 0, len(c.linked))
	for p := range c.linked {
		keys = append(keys, p.agent.key())
	}
	return keys
}
