package registry

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/records"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/registry/schema"
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
	Skill   Skill            `json:"skill" doc:"description of the skill"`
	AgentID protocol.AgentID `json:"agent_id,omitempty" doc:"the agent that provides it; by default the sender, if that is an agent"`
	Space   protocol.SpaceID `json:"space_id,omitempty" doc:"the space it lives in, the caller's own by default"`
	Join    string           `json:"join,omitempty" len:"1-128" doc:"join token, to provide a skill that is somebody else's; of no effect where none is needed"`
}

// Target implements [commands.Targeter].
func (p RegisterSkillParams) Target() commands.Resource {
	return commands.Resource{Type: "skill", ID: string(p.Skill.ID), Space: p.Space}
}

// RegisterSkillResult is the result of skill.register.
type RegisterSkillResult struct {
	SkillID  protocol.SkillID `json:"skill_id" doc:"id of the skill"`
	Revision uint64           `json:"revision" doc:"number of the stored version of the skill; rises with every change"`
	AgentID  protocol.AgentID `json:"agent_id,omitempty" doc:"id of the agent that provides the skill by this registration; absent if no agent does"`
}

// RegisterSkill registers a skill. The principal that registers a free name owns
// it. Registered again by its owner it is replaced; registered with another agent,
// that agent provides it too. Other principals may provide it if they were
// admitted, see [Service.admit], and describe it the same way.
func (s *Service) RegisterSkill(ctx context.Context, call *commands.Call, p RegisterSkillParams) (RegisterSkillResult, error) {
	space, err := in(call, p.Space)
	if err != nil {
		return RegisterSkillResult{}, err
	}
	if err := s.compileSchemas(call, &p.Skill); err != nil {
		return RegisterSkillResult{}, inField("skill", err)
	}
	if err := s.keepsEffects(&p.Skill); err != nil {
		return RegisterSkillResult{}, err
	}
	agent, err := s.providerFor(call, space, p.AgentID)
	if err != nil {
		return RegisterSkillResult{}, err
	}
	revision, err := s.provide(ctx, space, &p.Skill, &bid{call.Principal, agent, p.Join})
	if err != nil {
		return RegisterSkillResult{}, err
	}
	s.warnOfEndpoints(call, "skill.endpoints", p.Skill.Endpoints)
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
	if !ok || !a.BelongsTo(call.Principal) {
		return nil, nil
	}
	return a, nil
}

// compileSchemas checks that the schemas of a skill can be used, and warns of
// keywords in them that are probably misspelt.
func (s *Service) compileSchemas(call *commands.Call, skill *Skill) error {
	state, err := s.schemas.Get(skill.StateSchema, schema.Annotate)
	if err != nil {
		return protocol.InvalidParam("state_schema", err.Error())
	}
	for _, m := range state.Misspelt() {
		call.Warn("skill %s: state_schema: %s", skill.ID, m)
	}
	for i := range skill.Capabilities {
		c := &skill.Capabilities[i]
		for _, of := range []struct {
			field string
			text  schema.Source
		}{{"params_schema", c.ParamsSchema}, {"result_schema", c.ResultSchema}} {
			compiled, err := s.schemas.Get(of.text, c.Format.formats())
			if err != nil {
				return protocol.InvalidParam(itemPath("capabilities", i, of.field), err.Error())
			}
			for _, m := range compiled.Misspelt() {
				call.Warn("skill %s: %s of %s: %s", skill.ID, of.field, c.ID, m)
			}
		}
	}
	return nil
}

// provide stores a skill as the bidder describes it, with the bid's agent as one of
// the providers.
func (s *Service) provide(ctx context.Context, space protocol.SpaceID, skill *Skill, b *bid) (revision uint64, err error) {
	if err := s.mayName(b.who, space, string(skill.ID)); err != nil {
		return 0, err
	}
	_, revision, err = records.Change(ctx, s.opts.Skills, tableKey(space, skill.ID), func(old *SkillRecord, _ uint64) (*SkillRecord, error) {
		switch {
		case old == nil:
			if err := s.mayTake(ctx, b.who, space, skill.ID); err != nil {
				return nil, err
			}
			return founded(space, skill, b)
		case b.describes(old):
			return redescribed(old, skill, b)
		case b.agent != nil && !old.sameContract(skill):
			return nil, differs(skill.ID)
		}
		if err := s.admit(ctx, b, old); err != nil {
			return nil, err
		}
		return redescribed(old, &old.Skill, b) // how it presents itself stays the owner's business
	})
	return revision, err
}

// founded is a new skill, which is its founder's.
func founded(space protocol.SpaceID, skill *Skill, b *bid) (*SkillRecord, error) {
	now := time.Now().UnixMilli()
	r := &SkillRecord{Skill: *skill, Space: space, Owner: b.who.Party(), RegisteredAt: now, UpdatedAt: now}
	_, err := r.add(b.agent, r.Owner)
	return r, err
}

// redescribed is a skill after another registration.
func redescribed(old *SkillRecord, skill *Skill, b *bid) (*SkillRecord, error) {
	r := *old
	r.Skill, r.Providers = *skill, slices.Clone(old.Providers)
	if b.describes(old) {
		r.Owner = b.who.Party() // records of earlier versions have only parts of it
	}
	if _, err := r.add(b.agent, b.who.Party()); err != nil {
		return nil, err
	}
	if !records.Same(&r, old) {
		r.UpdatedAt = time.Now().UnixMilli()
	}
	return &r, nil
}

// add makes an agent, unless that is nil, one of the providers, and reports
// whether it was not. The record must be the caller's own.
func (r *SkillRecord) add(agent *Agent, by protocol.Party) (added bool, err error) {
	if agent == nil || r.provider(agent.ID) >= 0 {
		return false, nil
	}
	if len(r.Providers) == maxProviders {
		return false, protocol.Errorf(protocol.LimitReached, "skill %q has %d agents already", r.ID, maxProviders).
			With("limit", maxProviders)
	}
	r.Providers = append(r.Providers, Provider{AgentID: agent.ID, Owner: by})
	return true, nil
}

// inField puts the name of a field before the place an error names.
func inField(field string, err error) error {
	e := protocol.AsError(err)
	path, _ := e.Details["param_name"].(string)
	reason, _ := e.Details["reason"].(string)
	return protocol.InvalidParam(fmt.Sprintf("%s.%s", field, path), reason)
}
