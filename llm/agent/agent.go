// Package agent is the mcpAgent: the agent that answers for the language models
// of a bridge. It is in the bridge, and registered like any other, as long as
// there are models.
package agent

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/llm/model"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/registry"
)

// heartbeatEvery is short enough that two heartbeats may be missed.
const heartbeatEvery = time.Minute

// An Agent is the registered agent of the bridge's models. It is created before the
// models and before the registry.
type Agent struct {
	id   protocol.AgentID
	url  string // of the LLM protocol
	who  *protocol.Principal
	wake chan struct{} // the models have changed
}

// New returns the agent with an id. The URL of the LLM protocol is its endpoint.
func New(id protocol.AgentID, url string) *Agent {
	return &Agent{
		id: id, url: url, wake: make(chan struct{}, 1),
		who: &protocol.Principal{
			Kind: protocol.KindAgent, ID: string(id), Space: protocol.DefaultSpace, Roles: []string{protocol.RoleEndAgent}, Method: protocol.MethodBridge,
		},
	}
}

// Changed has the agent renew its card after a change of the models. It does not block.
func (a *Agent) Changed() {
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// Is reports whether a registered agent is this one.
func (a *Agent) Is(registered *registry.Agent) bool {
	return registered.ID == a.id && registered.Space == a.who.Space && registered.Owner.Is(a.who)
}

// Card lists the models for the card of an agent; other agents have none.
func (a *Agent) Card(models *model.Service, space protocol.SpaceID, agent protocol.AgentID) []registry.CardModel {
	if agent != a.id || space != a.who.Space {
		return nil
	}
	var list []registry.CardModel
	for _, v := range models.List(space) {
		list = append(list, registry.CardModel{ID: v.ID, Version: v.Version, Aliases: v.Aliases, Default: v.Default})
	}
	return list
}

// Parts are the dependencies of [Agent.Run]. All are required.
type Parts struct {
	Models *model.Service
	Router *commands.Router
	Agents *registry.Service
	Log    *slog.Logger
	// Elected is closed once this bridge is the oldest of its cluster. The endpoint of
	// the agent is that of the oldest bridge, since an ended one answers no requests.
	Elected <-chan struct{}
}

// Run keeps the agent registered until ctx ends, as long as there are models.
func (a *Agent) Run(ctx context.Context, with Parts) error {
	heartbeat := time.NewTicker(heartbeatEvery)
	defer heartbeat.Stop()
	r := registration{Agent: a, Parts: with}
	told, elected := "", with.Elected
	for {
		what, err := r.settle(ctx)
		if err != nil && ctx.Err() == nil && told != err.Error() {
			told = err.Error()
			with.Log.Warn("the mcpAgent is not "+what, "agent", a.id, "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-elected:
			elected = nil
		case <-a.wake:
			with.Agents.CardChanged(a.who.Space, a.id)
		case <-heartbeat.C:
		}
	}
}

// A registration is the state of one [Agent.Run].
type registration struct {
	*Agent
	Parts
	registered bool
}

// settle registers the agent, keeps it alive, or withdraws it.
func (r *registration) settle(ctx context.Context) (what string, err error) {
	switch some := len(r.Models.List(r.who.Space)) > 0; {
	case some && r.placed():
		what, err = "alive", r.do(ctx, "agent.heartbeat", map[string]any{"agent_id": r.id})
		r.registered = protocol.CodeOf(err) != protocol.NotFound
	case some:
		what, err = "registered", r.do(ctx, "agent.register", registry.RegisterAgentParams{
			AgentID: r.id, Type: registry.MCPAgent, Name: "Language models", Endpoints: []string{r.url},
		})
		r.registered = err == nil
	default:
		what, err = "withdrawn", r.withdraw(ctx)
	}
	return what, err
}

// placed reports whether the agent is registered as it should be: by this process and
// with its endpoint where this bridge is the oldest, by any bridge elsewhere.
func (r *registration) placed() bool {
	facts, known := r.Agents.AgentFacts(r.who.Space, r.id)
	if r.oldest() {
		return known && r.registered && slices.Equal(facts.Endpoints, []string{r.url})
	}
	return known && facts.Owner.Is(r.who)
}

func (r *registration) oldest() bool {
	select {
	case <-r.Elected:
		return true
	default:
		return false
	}
}

// withdraw unregisters the agent if it is registered, perhaps by an earlier run of the
// bridge, and this bridge is the oldest.
func (r *registration) withdraw(ctx context.Context) error {
	facts, known := r.Agents.AgentFacts(r.who.Space, r.id)
	r.registered = false
	if !known || !facts.Owner.Is(r.who) || !r.oldest() {
		return nil
	}
	return r.do(ctx, "agent.unregister", map[string]any{"agent_id": r.id})
}

// do runs a command as the agent.
func (r *registration) do(ctx context.Context, command string, params any) error {
	raw, err := json.Marshal(params)
	if err != nil {
		return err
	}
	request := protocol.Request{Version: protocol.Version, ID: protocol.NewID(), Command: command, Params: raw}
	answer := r.Router.Handle(ctx, commands.Inbound{Principal: r.who, Request: &request, Door: "bridge"})
	if answer.Err != nil {
		return answer.Err
	}
	return nil
}
