package registry

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

var skillRegister = commands.Spec{
	Name:    "skill.register",
	Summary: "Register a skill, change it, or add an agent that provides it.",
	Effect:  commands.Write,
	Action:  "skill:register",
	Errors:  []protocol.Code{protocol.NotFound, protocol.AlreadyExists, protocol.PermissionDenied, protocol.LimitReached},
	Example: `{"agent_id":"thermostat-1","skill":{"skill_id":"heating","name":"Heating","description":"Sets the temperature of a room","version":"1.0.0","type":"custom","capabilities":["off",{"capability_id":"set","idempotent":true,"params_schema":{"type":"object","required":["celsius"],"properties":{"celsius":{"type":"number","minimum":5,"maximum":30}}}}]}}`,
}

// RegisterSkillParams are the params of skill.register.
type RegisterSkillParams struct {
	Skill   Skill            `json:"skill" doc:"what the skill is and can do"`
	AgentID protocol.AgentID `json:"agent_id,omitempty" doc:"the agent that provides it; by default the sender, if that is an agent"`
	Space   protocol.SpaceID `json:"space_id,omitempty" doc:"the space it lives in, the caller's own by default"`
}

// Target implements [commands.Targeter].
func (p RegisterSkillParams) Target() commands.Resource {
	return commands.Resource{Type: "skill", ID: string(p.Skill.ID), Space: p.Space}
}

// RegisterSkillResult is the result of skill.register.
type RegisterSkillResult struct {
	SkillID  protocol.SkillID `json:"skill_id"`
	Revision uint64           `json:"revision"`
	AgentID  protocol.AgentID `json:"agent_id,omitempty"` // that provides it
}

// RegisterSkill registers a skill. Registered again by its owner it is
// replaced; registered with another agent, that agent provides it too. Others
// than the owner may provide it if they describe it the same way.
func (s *Service) RegisterSkill(ctx context.Context, call *commands.Call, p RegisterSkillParams) (RegisterSkillResult, error) {
	space, err := in(call, p.Space)
	if err != nil {
		return RegisterSkillResult{}, err
	}
	if err := s.compileSchemas(&p.Skill); err != nil {
		return RegisterSkillResult{}, inField("skill", err)
	}
	agent, err := s.providerFor(call, space, p.AgentID)
	if err != nil {
		return RegisterSkillResult{}, err
	}
	revision, err := s.provide(ctx, call, space, &p.Skill, agent)
	if err != nil {
		return RegisterSkillResult{}, err
	}
	result := RegisterSkillResult{SkillID: p.Skill.ID, Revision: revision}
	if agent != nil {
		result.AgentID = agent.ID
	} else if len(p.Skill.overHTTP()) == 0 {
		call.Warn("no agent provides skill %s and it has no http endpoint: it stays offline until an agent registers it", p.Skill.ID)
	}
	return result, nil
}

// providerFor is the agent that a registration makes a provider: the one it
// names, or the sender, or nil.
func (s *Service) providerFor(call *commands.Call, space protocol.SpaceID, named protocol.AgentID) (*Agent, error) {
	if named != "" {
		return s.ownAgent(call, space, named)
	}
	a, _, ok := s.opts.Agents.Get(tableKey(space, call.SenderID))
	if !ok || !a.belongsTo(call.Principal) {
		return nil, nil
	}
	return a, nil
}

// compileSchemas checks that the schemas of a skill can be used.
func (s *Service) compileSchemas(skill *Skill) error {
	for i := range skill.Capabilities {
		c := &skill.Capabilities[i]
		if _, err := s.schemas.Get(c.ParamsSchema); err != nil {
			return protocol.InvalidParam(itemPath("capabilities", i, "params_schema"), err.Error())
		}
		if _, err := s.schemas.Get(c.ResultSchema); err != nil {
			return protocol.InvalidParam(itemPath("capabilities", i, "result_schema"), err.Error())
		}
	}
	return nil
}

// provide stores a skill as described by the caller, with an agent as one of
// its providers unless that is nil.
func (s *Service) provide(ctx context.Context, call *commands.Call, space protocol.SpaceID, skill *Skill, agent *Agent) (revision uint64, err error) {
	_, revision, err = change(ctx, s.opts.Skills, tableKey(space, skill.ID), func(old *SkillRecord) (*SkillRecord, error) {
		return described(old, call.Principal.Party(), space, skill, agent)
	})
	return revision, err
}

// described is what a skill becomes by a registration, the old record itself
// if that changes nothing.
func described(old *SkillRecord, caller protocol.Party, space protocol.SpaceID, skill *Skill, agent *Agent) (*SkillRecord, error) {
	now := time.Now().UnixMilli()
	r := &SkillRecord{Skill: *skill, Space: space, Owner: caller, RegisteredAt: now, UpdatedAt: now}
	if old != nil {
		r.Owner, r.RegisteredAt = old.Owner, old.RegisteredAt
		r.Providers = slices.Clone(old.Providers)
		if !old.Owner.Includes(caller) {
			if agent == nil || !old.sameContract(skill) {
				return nil, protocol.Errorf(protocol.AlreadyExists, "skill %q was registered by somebody else, and differently", skill.ID).
					With("skill_id", string(skill.ID))
			}
			r.Skill = old.Skill // how it presents itself stays the owner's business
		}
	}
	added := agent != nil && r.provider(agent.ID) < 0
	if added {
		if len(r.Providers) == maxProviders {
			return nil, protocol.Errorf(protocol.LimitReached, "skill %q has %d agents already", skill.ID, maxProviders).
				With("limit", maxProviders)
		}
		r.Providers = append(r.Providers, Provider{AgentID: agent.ID, Owner: caller})
	}
	if old != nil && !added && r.same(&old.Skill) {
		return old, nil
	}
	return r, nil
}

// inField puts the name of a field before the place an error names.
func inField(field string, err error) error {
	e := protocol.AsError(err)
	path, _ := e.Details["param_name"].(string)
	reason, _ := e.Details["reason"].(string)
	return protocol.InvalidParam(fmt.Sprintf("%s.%s", field, path), reason)
}
