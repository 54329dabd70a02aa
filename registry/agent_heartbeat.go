package registry

import (
	"context"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

var agentHeartbeat = commands.Spec{
	Name:    "agent.heartbeat",
	Summary: "Say that an agent is alive.",
	Effect:  commands.Write,
	Action:  "agent:heartbeat",
	Routine: true,
	Errors:  []protocol.Code{protocol.NotFound, protocol.PermissionDenied},
	Example: `{"agent_id":"lamp-1"}`,
}

// HeartbeatResult is the result of agent.heartbeat.
type HeartbeatResult struct {
	AgentID           protocol.AgentID `json:"agent_id" doc:"id of the agent"`
	Status            Status           `json:"status" doc:"online; offline only while the agent is suspended because its certificate has ended"`
	HeartbeatInterval float64          `json:"heartbeat_interval" doc:"seconds between two heartbeats; after three missed ones the agent is offline"`
}

// Heartbeat renews an agent's lease. An agent that sends heartbeats over its
// MQTT connection is held to them as long as the connection stands.
func (s *Service) Heartbeat(_ context.Context, call *commands.Call, p AgentParams) (HeartbeatResult, error) {
	agent, err := s.ownAgent(call, p.Space, p.AgentID)
	if err != nil {
		return HeartbeatResult{}, err
	}
	if call.Line != nil {
		s.board.serve(agent.Key(), call.Line, call.Principal, true)
	}
	s.board.renew(agent.Key(), clientOf(call), call.Line, call.Principal)
	s.board.timed(agent.Key(), call)
	return HeartbeatResult{
		AgentID:           p.AgentID,
		Status:            statusOf(s.board.isOnline(agent.Key())),
		HeartbeatInterval: s.opts.Heartbeat.Seconds(),
	}, nil
}
