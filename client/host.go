package client

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/protocol/selector"
)

// A HostedAgent is one of several agents that a client answers for over its one
// connection, as a gateway does for devices behind it.
type HostedAgent struct{ server *server }

// Host makes the client answer for one more agent, which is offline until
// [HostedAgent.ServeSkills]. Its presence is that of the client: no heartbeats are
// sent for it. The bridge must let the client's principal register agents of other
// ids than its own.
func (c *Client) Host(agent Agent) (*HostedAgent, error) {
	if reason := agent.ID.Rule().Check(string(agent.ID)); reason != "" {
		return nil, protocol.InvalidParam("agent id", reason)
	}
	agent.Type = cmp.Or(agent.Type, EndAgent)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.hosted[agent.ID] != nil || c.server != nil && c.server.agent.ID == agent.ID {
		return nil, protocol.Errorf(protocol.AlreadyExists, "the client answers for agent %q already", agent.ID)
	}
	s := newServer(c, agent)
	s.guest = true
	if c.hosted == nil {
		c.hosted = make(map[protocol.AgentID]*server)
	}
	c.hosted[agent.ID] = s
	return &HostedAgent{s}, nil
}

// ID is the agent's id.
func (h *HostedAgent) ID() protocol.AgentID { return h.server.agent.ID }

// ServeSkills is [Client.ServeSkills] for this agent: with it the agent is online.
func (h *HostedAgent) ServeSkills(ctx context.Context, skills ...Skill) ([]*ServedSkill, error) {
	served := make([]*ServedSkill, len(skills))
	for i := range skills {
		if err := skills[i].check(); err != nil {
			return nil, err
		}
		served[i] = &ServedSkill{server: h.server, skill: skills[i]}
	}
	return served, h.server.serve(ctx, served)
}

// Describe gives the agent another name and other tags. The registration changes at
// once if the agent is online, otherwise with the next [HostedAgent.ServeSkills].
func (h *HostedAgent) Describe(ctx context.Context, name string, tags selector.Tags) error {
	s := h.server
	s.registering.Lock()
	defer s.registering.Unlock()
	s.agent.Name, s.agent.Tags = name, maps.Clone(tags)
	if !s.started() {
		return nil
	}
	return s.registerAgent(ctx)
}

// Rest has the agent be offline until [HostedAgent.ServeSkills]: it gets no
// requests. Earlier ones are finished and answered.
func (h *HostedAgent) Rest(ctx context.Context) error {
	s := h.server
	s.registering.Lock()
	defer s.registering.Unlock()
	if !s.started() {
		return nil
	}
	s.start(false)
	if s.client.current() == nil {
		return nil // no later connection subscribes to it
	}
	return s.client.unsubscribe(ctx, s.client.Topics().AgentRequest(s.agent.ID))
}

// Remove unregisters the agent. Its running invocations are cancelled.
func (h *HostedAgent) Remove(ctx context.Context) error {
	if err := h.Rest(ctx); err != nil {
		return err
	}
	s := h.server
	s.jobs.close(closeTimeout)
	_, err := Call[struct{}](ctx, s.client, "agent.unregister", s.about(map[string]any{}))
	if err != nil && protocol.CodeOf(err) != protocol.NotFound {
		return err
	}
	s.client.mu.Lock()
	defer s.client.mu.Unlock()
	delete(s.client.hosted, s.agent.ID)
	return nil
}

// servers are all that the client answers for, its own agent first.
func (c *Client) servers() []*server {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make([]*server, 0, len(c.hosted)+1)
	for _, s := range c.hosted {
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b *server) int { return strings.Compare(string(a.agent.ID), string(b.agent.ID)) })
	if c.server != nil {
		all = slices.Insert(all, 0, c.server)
	}
	return all
}

// serving are those that can be asked.
func (c *Client) serving() []*server {
	return slices.DeleteFunc(c.servers(), func(s *server) bool { return !s.started() })
}

// serverOf is the server of the agent whose request topic it is, nil without one.
func (c *Client) serverOf(topic string) *server {
	id, leaf, ok := c.Topics().Agent(topic)
	switch {
	case !ok || leaf != "request":
		return nil
	case c.server != nil && c.server.agent.ID == id:
		return c.server
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.hosted[id]
}

// closeServers cancels the invocations of all agents, and waits until their answers
// are sent.
func (c *Client) closeServers() {
	var closing sync.WaitGroup
	for _, s := range c.servers() {
		closing.Go(s.close)
	}
	closing.Wait()
}
