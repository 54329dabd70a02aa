package registry

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

// peers appends whom a skill can be asked at now, but for the agents tried
// before: its agents that can be reached; without one, its own endpoints. These
// go before endpoints of its agents.
func (s *Service) peers(peers []peer, skill *SkillRecord, tried []protocol.AgentID) []peer {
	endpoints := skill.overHTTP()
	for i := range skill.Providers {
		id := skill.Providers[i].AgentID
		if slices.Contains(tried, id) {
			continue
		}
		a, w := s.board.reachable(agentKey{skill.Space, id})
		if a != nil && (len(endpoints) == 0 || len(w.endpoints) == 0) {
			peers = append(peers, peer{agent: a})
		}
	}
	if len(peers) == 0 && len(endpoints) > 0 && len(tried) == 0 && s.onlyHTTP(skill) {
		peers = append(peers, peer{endpoints: endpoints})
	}
	return peers
}

// onlyHTTP reports whether a skill has no agent with a connection and, if it has
// agents at all, one of them is alive.
func (s *Service) onlyHTTP(skill *SkillRecord) bool {
	return len(skill.Providers) == 0 || !slices.ContainsFunc(skill.Providers, func(p Provider) bool {
		return s.board.see(agentKey{skill.Space, p.AgentID}).connected
	}) && slices.ContainsFunc(skill.Providers, func(p Provider) bool {
		return s.board.isAlive(agentKey{skill.Space, p.AgentID})
	})
}

// isOnline reports whether a skill can be expected to answer: one of its agents
// is online, or it is called at endpoints of its own, where nobody knows before
// trying.
func (s *Service) isOnline(skill *SkillRecord) bool {
	if _, online := s.provider(skill); online {
		return true
	}
	return len(s.mayCall(skill.Endpoints)) > 0 && s.onlyHTTP(skill)
}

// provider is the first of a skill's agents that is online, or else its first.
func (s *Service) provider(skill *SkillRecord) (id protocol.AgentID, online bool) {
	for _, p := range skill.Providers {
		if s.board.isOnline(agentKey{skill.Space, p.AgentID}) {
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
func (s *Service) checkResult(t target, capability *Capability, result json.RawMessage) *failure {
	if capability.Sealed != "" && protocol.IsSealed(result) {
		return t.checkSealed(result)
	}
	compiled, err := s.schemas.Get(capability.ResultSchema, capability.Format.formats())
	if err != nil {
		return &failure{err: protocol.Wrap(protocol.Internal, err, "the schema of the capability's result cannot be used")}
	}
	if v := compiled.Validate(result); v != nil {
		return t.nonsense(v.In("result"), v.Reason)
	}
	return nil
}

// Forward sends a command to one agent of the caller's space, as it is, and
// waits for the answer. It implements [commands.Forwarder].
func (s *Service) Forward(ctx context.Context, call *commands.Call, agent protocol.AgentID, command string, params json.RawMessage) (result json.RawMessage, err error) {
	a, _, ok := s.opts.Agents.Get(tableKey(call.Principal.Home(), agent))
	if !ok {
		return nil, notFound("agent", agent)
	}
	answered := make(chan struct{})
	closed := sync.OnceFunc(func() { close(answered) })
	s.ask(ctx, new(asking), []peer{{agent: a}}, request{command: command, params: params, call: call}, askerFunc(func(response *protocol.Response, _ *exchange, f *failure) {
		if f != nil {
			err = f.err
		} else {
			result = bytes.Clone(response.Result)
		}
		closed()
	}))
	_ = call.Park(ctx, func(context.Context) error {
		<-answered
		return nil
	})
	return result, err
}

var _ commands.Forwarder = (*Service)(nil)

// milliseconds is a duration with three decimals, for people and graphs.
func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
