package registry

import (
	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/registry/ask"
)

// HungUp notes that a line has ended, and fails the requests sent over it.
func (s *Service) HungUp(line commands.Line, reason string) {
	agents := s.board.askedOver(line)
	s.board.disconnected(line, reason)
	for _, key := range agents { // that are still there, by another way
		s.asking.HungUp(line, key, reason)
	}
}

// serve makes a line the one that an agent is asked over. One that served it
// before does so no longer, unless only a heartbeat came over the new one.
func (b *board) serve(key ask.AgentKey, line commands.Line, who *protocol.Principal, heartbeat bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.agents[key]
	if p == nil || !p.agent.BelongsTo(who) {
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
		c = &conn{id: line, line: line, principal: who, serves: make(map[*presence]bool, 1), asked: make(map[*presence]bool, 1)}
		b.conns[line] = c
	}
	c.serves[p] = true
	if !c.asked[p] {
		c.asked[p], p.servers = true, append(p.servers, c)
	}
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
func (b *board) serves(line commands.Line, key ask.AgentKey) bool {
	b.mu.Look()
	defer b.mu.Unlock()
	c, p := b.conns[line], b.agents[key]
	return c != nil && p != nil && c.serves[p]
}

// askedOver lists the agents that may have been asked over a line, some of which
// may be served by another connection by now.
func (b *board) askedOver(line commands.Line) []ask.AgentKey {
	b.mu.Look()
	defer b.mu.Unlock()
	c := b.conns[line]
	if c == nil {
		return nil
	}
	return keysOf(c.asked)
}

// servedBy lists the agents that belong to a line.
func (b *board) servedBy(line commands.Line) []ask.AgentKey {
	b.mu.Look()
	defer b.mu.Unlock()
	c := b.conns[line]
	if c == nil {
		return nil
	}
	return keysOf(c.linked)
}

func keysOf(agents map[*presence]bool) []ask.AgentKey {
	keys := make([]ask.AgentKey, 0, len(agents))
	for p := range agents {
		keys = append(keys, p.agent.Key())
	}
	return keys
}
