package a2a

import (
	"context"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

var agentRemove = commands.Spec{
	Name:    "a2a.agent.remove",
	Summary: "Forget an agent elsewhere, with its credential, and use it no more.",
	Effect:  commands.Write,
	Action:  "a2a:agent.remove",
	Errors:  []protocol.Code{protocol.NotFound},
	Example: `{"agent_id":"travel"}`,
}

// RemoveResult is the result of a2a.agent.remove.
type RemoveResult struct {
	ID protocol.AgentID `json:"agent_id" doc:"the agent that is removed"`
}

// Remove forgets an agent.
func (s *Service) Remove(ctx context.Context, call *commands.Call, p Named) (RemoveResult, error) {
	a, err := s.find(call, p)
	if err != nil {
		return RemoveResult{}, err
	}
	if err := s.opts.Table.Delete(ctx, key(a.Space, a.ID), 0); err != nil {
		return RemoveResult{}, err
	}
	return RemoveResult{a.ID}, s.unregister(ctx, a.Space, a.ID)
}

// unregister takes an agent out of the registry.
func (s *Service) unregister(ctx context.Context, space protocol.SpaceID, id protocol.AgentID) error {
	if owner, there := s.opts.Owned(space, id); !there || owner != principal(space).Party() {
		return nil
	}
	err := s.do(ctx, space, "agent.unregister", map[string]any{"agent_id": id}, nil)
	if protocol.CodeOf(err) == protocol.NotFound {
		return nil
	}
	return err
}
