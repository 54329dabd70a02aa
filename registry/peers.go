package registry

import (
	"encoding/json"
	"slices"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/registry/ask"
)

// onlyHTTP reports whether a skill has no agent with a connection and, if it has
// agents at all, one of them is alive.
func (s *Service) onlyHTTP(skill *SkillRecord) bool {
	return len(skill.Providers) == 0 || !slices.ContainsFunc(skill.Providers, func(p Provider) bool {
		return s.board.see(ask.AgentKey{Space: skill.Space, ID: p.AgentID}).connected
	}) && slices.ContainsFunc(skill.Providers, func(p Provider) bool {
		return s.board.isAlive(ask.AgentKey{Space: skill.Space, ID: p.AgentID})
	})
}

// isOnline reports whether a skill can be expected to answer: one of its agents
// is online, or it has endpoints of its own, whose state is not known before a
// call.
func (s *Service) isOnline(skill *SkillRecord) bool {
	if _, online := s.provider(skill); online {
		return true
	}
	return len(s.mayCall(skill.Endpoints)) > 0 && s.onlyHTTP(skill)
}

// provider is the first of a skill's agents that is online, or else its first.
func (s *Service) provider(skill *SkillRecord) (id protocol.AgentID, online bool) {
	for _, p := range skill.Providers {
		if s.board.isOnline(ask.AgentKey{Space: skill.Space, ID: p.AgentID}) {
			return p.AgentID, true
		}
	}
	if len(skill.Providers) > 0 {
		return skill.Providers[0].AgentID, false
	}
	return "", false
}

// offline is the error for a skill none of whose agents can be reached.
func offline(skill *SkillRecord) error {
	err := protocol.Errorf(protocol.AgentOffline, "no agent of skill %q is online", skill.ID).With("skill_id", string(skill.ID))
	if len(skill.Providers) == 0 {
		err.Message = "no agent provides skill " + string(skill.ID)
		return err.With("reason", "it has no agent and no http endpoint")
	}
	return err.With("agent_id", string(skill.Providers[0].AgentID)).
		With("reason", "no client of its agents listens on MQTT, none has a WebSocket connection, and none with endpoints that may be called sent a heartbeat in time")
}

// checkParams checks the parameters of a call against the capability's
// schema.
func (s *Service) checkParams(capability *Capability, params json.RawMessage) error {
	if capability.Sealed != "" {
		if done, err := capability.checkSealed(params); done || err != nil {
			return err
		}
	}
	compiled, err := s.schemas.Get(capability.ParamsSchema, capability.Format.formats())
	if err != nil { // it was compiled when the skill was registered
		return protocol.Wrap(protocol.Internal, err, "the schema of the capability's params cannot be used")
	}
	if v := compiled.Validate(params); v != nil {
		return protocol.InvalidParam(v.In("params"), v.Reason)
	}
	return nil
}

// checkResult checks an answer against the capability's schema.
func (s *Service) checkResult(capability *Capability, result json.RawMessage) error {
	if capability.Sealed != "" && protocol.IsSealed(result) {
		return checkSealedResult(result)
	}
	compiled, err := s.schemas.Get(capability.ResultSchema, capability.Format.formats())
	if err != nil {
		return protocol.Wrap(protocol.Internal, err, "the schema of the capability's result cannot be used")
	}
	if v := compiled.Validate(result); v != nil {
		return &ask.InvalidResult{At: v.In("result"), Reason: v.Reason}
	}
	return nil
}
