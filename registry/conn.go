package registry

import (
	"slices"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

// A conn is one MQTT or WebSocket connection, as the board sees it.
type conn struct {
	id        any
	principal *protocol.Principal
	linked    map[*presence]bool // the agents it belongs to

	clientID string
	filters  map[string]protocol.AgentID // subscriptions to an agent's request topic

	line   commands.Line      // of a WebSocket, nil over MQTT
	serves map[*presence]bool // the agents that were registered over it last
	asked  map[*presence]bool // the agents it has served, though others may by now
}

// connected notes a new connection. id tells connections apart.
func (b *board) connected(id any, clientID string, who *protocol.Principal) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.conns[id] != nil {
		return
	}
	c := &conn{id: id, clientID: clientID, principal: who}
	b.conns[id] = c
	b.clients[clientID] = append(b.clients[clientID], c)
	for _, p := range b.registeredBy[clientID] {
		b.relate(p, c, "connected")
	}
}

// disconnected forgets a connection with all its subscriptions.
func (b *board) disconnected(id any, reason string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.conns[id]
	if c == nil {
		return
	}
	delete(b.conns, id)
	take(b.clients, c.clientID, c)
	for _, agent := range c.filters {
		take(b.listeners, agent, c)
	}
	clear(c.serves)
	for p := range c.asked {
		p.servers = slices.DeleteFunc(p.servers, func(o *conn) bool { return o == c })
	}
	for p := range c.linked {
		b.unlink(p, c)
		b.judge(p, reason)
	}
}

// subscribed notes a subscription, if it is to the request topic of an agent
// it names.
func (b *board) subscribed(id any, filter string) {
	agent, ok := b.requestOf(filter)
	if !ok {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.conns[id]
	if c == nil {
		return
	}
	if _, again := c.filters[filter]; again {
		return
	}
	if c.filters == nil {
		c.filters = make(map[string]protocol.AgentID, 1)
	}
	c.filters[filter] = agent
	b.listeners[agent] = append(b.listeners[agent], c)
	for _, p := range b.byID[agent] {
		b.relate(p, c, "listening")
	}
}

// unsubscribed notes the end of a subscription.
func (b *board) unsubscribed(id any, filter string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.conns[id]
	if c == nil {
		return
	}
	agent, ok := c.filters[filter]
	if !ok {
		return
	}
	delete(c.filters, filter)
	take(b.listeners, agent, c)
	for _, p := range b.byID[agent] {
		b.relate(p, c, "not listening")
	}
}

// requestOf is the agent whose request topic a filter covers, if it names one.
func (b *board) requestOf(filter string) (protocol.AgentID, bool) {
	if _, inner, shared := protocol.SplitShare(filter); shared {
		filter = inner
	}
	id, leaf, ok := b.topics.Agent(filter)
	if !ok || id == "+" || leaf != "request" && leaf != "+" && leaf != "#" {
		return "", false
	}
	return id, true
}

// relate links or unlinks an agent and a connection, as the rule has it.
func (b *board) relate(p *presence, c *conn, reason string) {
	listening := c.serves[p] || slices.Contains(b.listeners[p.agent.ID], c)
	registered := p.agent.ClientID != "" && p.agent.ClientID == c.clientID
	if (listening || registered) && p.agent.BelongsTo(c.principal) {
		b.link(p, c, listening)
	} else {
		delete(c.serves, p)
		if c.linked[p] {
			b.unlink(p, c)
		}
	}
	b.judge(p, reason)
}

func (b *board) link(p *presence, c *conn, listening bool) {
	for i := range p.links {
		if p.links[i].conn == c {
			p.links[i].listening = listening
			return
		}
	}
	p.links = append(p.links, link{c, listening})
	if c.linked == nil {
		c.linked = make(map[*presence]bool, 1)
	}
	c.linked[p] = true
}

func (b *board) unlink(p *presence, c *conn) {
	delete(c.linked, p)
	p.links = slices.DeleteFunc(p.links, func(l link) bool { return l.conn == c })
	if p.heldBy == c {
		p.heldBy = nil
	}
	if len(p.links) == 0 && len(p.endpoints) == 0 {
		p.lease = time.Time{}
	}
}

// take removes one v from the list at key.
func take[K comparable, V comparable](m map[K][]V, key K, v V) {
	list := m[key]
	i := slices.Index(list, v)
	if i < 0 {
		return
	}
	if list = slices.Delete(list, i, i+1); len(list) == 0 {
		delete(m, key)
	} else {
		m[key] = list
	}
}
