package app

import (
	"context"
	"encoding/json"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/llm/model"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/registry"
)

// An mcpAgent is the agent that answers for the language models. It is in the
// bridge, and registered like any other, as long as there are models.
type mcpAgent struct {
	id     protocol.AgentID
	url    string // of the LLM protocol
	who    *protocol.Principal
	llm    *model.Service
	router *commands.Router
	agents *registry.Service
	wake   chan struct{} // the models have changed

	registered bool
}

// newMCPAgent makes the agent; its models, router and registry come later.
func (a *App) newMCPAgent() {
	id := a.config.LLM.Agent
	a.mcpAgent = &mcpAgent{
		id:   protocol.AgentID(id),
		url:  "http://" + a.addresses.HTTP + "/api/mcp-agent/llm",
		who:  &protocol.Principal{Kind: protocol.KindAgent, ID: id, Space: protocol.DefaultSpace, Roles: []string{protocol.RoleEndAgent}, Method: protocol.MethodBridge},
		wake: make(chan struct{}, 1),
	}
	if a.config.TLS.Only {
		a.mcpAgent.url = "https://" + a.addresses.HTTP + "/api/mcp-agent/llm"
	}
}

// runMCPAgent keeps the agent registered.
func (a *App) runMCPAgent(agents *registry.Service) {
	m := a.mcpAgent
	m.router, m.agents = a.router, agents
	a.run("mcpAgent", func(ctx context.Context) error {
		m.run(ctx, func(what string, err error) { a.log.Warn("the mcpAgent is not "+what, "agent", m.id, "error", err) })
		return nil
	})
}

// changed is told that the models have changed. It does not block.
func (m *mcpAgent) changed() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// models are those on the agent's card.
func (m *mcpAgent) models(space protocol.SpaceID, agent protocol.AgentID) []registry.CardModel {
	if m.llm == nil || agent != m.id || space != m.who.Space {
		return nil
	}
	var list []registry.CardModel
	for _, v := range m.llm.List(space) {
		list = append(list, registry.CardModel{ID: v.ID, Version: v.Version, Aliases: v.Aliases, Default: v.Default})
	}
	return list
}

// is reports whether a registered agent is this one.
func (m *mcpAgent) is(a *registry.Agent) bool {
	return a.ID == m.id && a.Space == m.who.Space && a.Owner.Is(m.who)
}

const mcpHeartbeat = time.Minute // two may be missed

func (m *mcpAgent) run(ctx context.Context, failed func(what string, err error)) {
	heartbeat := time.NewTicker(mcpHeartbeat)
	defer heartbeat.Stop()
	said := ""
	for {
		what, err := m.settle(ctx)
		if err != nil && ctx.Err() == nil && said != err.Error() {
			said = err.Error()
			failed(what, err)
		}
		select {
		case <-ctx.Done():
			return
		case <-m.wake:
			m.agents.CardChanged(m.who.Space, m.id)
		case <-heartbeat.C:
		}
	}
}

// settle registers the agent, keeps it alive, or withdraws it.
func (m *mcpAgent) settle(ctx context.Context) (what string, err error) {
	switch some := len(m.llm.List(m.who.Space)) > 0; {
	case some && m.registered:
		what, err = "alive", m.do(ctx, "agent.heartbeat", map[string]any{"agent_id": m.id})
		m.registered = protocol.CodeOf(err) != protocol.NotFound
	case some:
		what, err = "registered", m.do(ctx, "agent.register", registry.RegisterAgentParams{
			AgentID: m.id, Type: registry.MCPAgent, Name: "Language models", Endpoints: []string{m.url},
		})
		m.registered = err == nil
	default:
		what, err = "withdrawn", m.withdraw(ctx)
	}
	return what, err
}

// withdraw unregisters the agent if it is there, perhaps since an earlier run
// of the bridge.
func (m *mcpAgent) withdraw(ctx context.Context) error {
	facts, known := m.agents.AgentFacts(m.who.Space, m.id)
	m.registered = false
	if !known || !facts.Owner.Is(m.who) {
		return nil
	}
	return m.do(ctx, "agent.unregister", map[string]any{"agent_id": m.id})
}

// do runs a command as the agent.
func (m *mcpAgent) do(ctx context.Context, command string, params any) error {
	raw, err := json.Marshal(params)
	if err != nil {
		return err
	}
	r := protocol.Request{Version: protocol.Version, ID: protocol.NewID(), Command: command, Params: raw}
	answer := m.router.Handle(ctx, commands.Inbound{Principal: m.who, Request: &r, Door: "bridge"})
	if answer.Err != nil {
		return answer.Err
	}
	return nil
}
