package registry

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/registry/ask"
)

// Asking asks the agents of the registry.
func (s *Service) Asking() *ask.Service { return s.asking }

// Answer takes a message on an agent's response topic, see [ask.Service.Answer].
func (s *Service) Answer(topic string, who *protocol.Principal, replies *protocol.Replies, payload, correlation []byte) {
	s.asking.Answer(topic, who, replies, payload, correlation)
}

// AnswerOver takes a message of a line, see [ask.Service.AnswerOver].
func (s *Service) AnswerOver(line commands.Line, who *protocol.Principal, payload []byte) bool {
	return s.asking.AnswerOver(line, who, payload)
}

// Forward sends a command to one agent of the caller's space, as it is, and
// waits for the answer. It implements [commands.Forwarder].
func (s *Service) Forward(ctx context.Context, call *commands.Call, agent protocol.AgentID, command string, params json.RawMessage) (json.RawMessage, error) {
	a, _, ok := s.opts.Agents.Get(tableKey(call.Principal.Home(), agent))
	if !ok {
		return nil, notFound("agent", agent)
	}
	return s.asking.Forward(ctx, call, a, command, params)
}

var _ commands.Forwarder = (*Service)(nil)

// Prepare says why a skill would not take an invocation, and whether running it
// twice is as good as once.
func (s *Service) Prepare(space protocol.SpaceID, skill protocol.SkillID, capability protocol.CapabilityID, params json.RawMessage) (idempotent bool, err error) {
	r, _, ok := s.opts.Skills.Get(tableKey(space, skill))
	if !ok {
		return false, notFound("skill", skill)
	}
	c, ok := r.capability(capability)
	if !ok {
		return false, r.noCapability(capability)
	}
	if c.EffectKey != "" {
		return false, protocol.Errorf(protocol.InvalidState, "capability %q has an effect key: invoke it by itself, so that nothing is done twice", capability).
			With("capability_id", string(capability))
	}
	return c.repeatable(), s.checkParams(c, params)
}

// Choose picks the least busy agent of a skill that can be asked now, "" for a
// skill that is called at an endpoint of its own. ok is whether there is one.
func (s *Service) Choose(space protocol.SpaceID, skill protocol.SkillID) (agent protocol.AgentID, ok bool) {
	r, _, ok := s.opts.Skills.Get(tableKey(space, skill))
	if !ok {
		return "", false
	}
	peers := s.peers(nil, r, nil)
	if len(peers) == 0 {
		return "", false
	}
	if best := s.asking.LeastBusy(peers); best.Agent != nil {
		agent = best.Agent.Key().ID
	}
	return agent, true
}

// Reachable reports whether an agent can be asked now.
func (s *Service) Reachable(space protocol.SpaceID, agent protocol.AgentID) bool {
	a, _ := s.board.reachable(ask.AgentKey{Space: space, ID: agent})
	return a != nil
}

// Serves reports whether an agent is registered with a skill.
func (s *Service) Serves(space protocol.SpaceID, agent protocol.AgentID, skill protocol.SkillID) bool {
	r, _, ok := s.opts.Skills.Get(tableKey(space, skill))
	return ok && r.provider(agent) >= 0
}

// peers appends whom a skill can be asked at now, but for the agents tried
// before: its agents that can be reached; without one, its own endpoints. These
// go before endpoints of its agents.
func (s *Service) peers(peers []ask.Peer, skill *SkillRecord, tried []protocol.AgentID) []ask.Peer {
	endpoints := skill.overHTTP()
	for i := range skill.Providers {
		id := skill.Providers[i].AgentID
		if slices.Contains(tried, id) {
			continue
		}
		a, w := s.board.reachable(ask.AgentKey{Space: skill.Space, ID: id})
		if a != nil && (len(endpoints) == 0 || len(w.Endpoints) == 0) {
			peers = append(peers, ask.Peer{Agent: a})
		}
	}
	if len(peers) == 0 && len(endpoints) > 0 && len(tried) == 0 && s.onlyHTTP(skill) {
		peers = append(peers, ask.Peer{Endpoints: endpoints})
	}
	return peers
}

// A directory shows the registry to those who ask.
type directory struct{ *Service }

var _ ask.Directory = directory{}

// Agent implements [ask.Directory].
func (d directory) Agent(key ask.AgentKey) (ask.Agent, bool) {
	a, _, ok := d.opts.Agents.Get(tableKey(key.Space, key.ID))
	if !ok {
		return nil, false
	}
	return a, true
}

// Way implements [ask.Directory].
func (d directory) Way(key ask.AgentKey) (ask.Way, bool) {
	a, w := d.board.reachable(key)
	return w, a != nil
}

// WayHere implements [ask.Directory].
func (d directory) WayHere(key ask.AgentKey) (ask.Way, bool) { return d.board.wayHere(key) }

// AskedOver implements [ask.Directory].
func (d directory) AskedOver(line commands.Line) []ask.AgentKey { return d.board.askedOver(line) }

// Answers implements [ask.Directory].
func (d directory) Answers(line commands.Line, key ask.AgentKey) bool {
	return d.board.serves(line, key)
}

// Endpoints implements [ask.Directory].
func (d directory) Endpoints(c ask.CapabilityKey) (urls []string, idempotent, ok bool) {
	r, _, ok := d.opts.Skills.Get(tableKey(c.Space, c.Skill))
	if !ok {
		return nil, false, false
	}
	if capability, known := r.capability(c.Capability); known {
		idempotent = capability.repeatable()
	}
	return r.overHTTP(), idempotent, true
}

// CheckResult implements [ask.Directory].
func (d directory) CheckResult(c ask.CapabilityKey, result json.RawMessage) error {
	r, _, ok := d.opts.Skills.Get(tableKey(c.Space, c.Skill))
	if !ok {
		return nil
	}
	capability, ok := r.capability(c.Capability)
	if !ok {
		return nil
	}
	return d.checkResult(capability, result)
}
