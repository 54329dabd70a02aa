package shadow

import (
	"context"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

var stateReport = commands.Spec{
	Name:    "state.report",
	Summary: "Say, as an agent, what state one of its skills has.",
	Effect:  commands.Write,
	Action:  "state:report",
	Routine: true,
	Errors: []protocol.Code{
		protocol.NotFound, protocol.PermissionDenied, protocol.PayloadTooLarge, protocol.LimitReached, protocol.RevisionConflict,
	},
	Example: `{"agent_id":"thermostat-1","skill_id":"heating","state":{"celsius":21.5,"battery":87}}`,
}

// Report changes the reported state of a skill. Only the agent itself does so.
func (s *Service) Report(ctx context.Context, call *commands.Call, p SetParams) (SetResult, error) {
	a, err := s.find(call.Principal, p.Space, p.AgentID)
	if err != nil {
		return SetResult{}, err
	}
	if !a.BelongsTo(call.Principal) {
		return SetResult{}, notTheAgent(p.AgentID)
	}
	return s.set(ctx, call, &place{a, p.SkillID, Reported}, &p)
}

func notTheAgent(id protocol.AgentID) *protocol.Error {
	return protocol.Errorf(protocol.PermissionDenied, "only agent %q itself says what its state is", id).With("agent_id", string(id))
}
