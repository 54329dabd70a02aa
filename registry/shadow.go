package registry

import (
	"encoding/json"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/registry/schema"
	"github.com/aibridge/aibridge/registry/shadow"
)

var _ shadow.Agents = (*Service)(nil)

// Shadowed implements [shadow.Agents].
func (s *Service) Shadowed(space protocol.SpaceID, id protocol.AgentID) (shadow.Agent, bool) {
	a, _, ok := s.opts.Agents.Get(tableKey(space, id))
	if !ok {
		return shadow.Agent{}, false
	}
	return shadow.Agent{Space: space, ID: id, Owner: a.owner(), Born: a.RegisteredAt, BelongsTo: a.BelongsTo}, true
}

// StateOf implements [shadow.Agents].
func (s *Service) StateOf(space protocol.SpaceID, id protocol.AgentID, skill protocol.SkillID) (shadow.Skill, bool) {
	r, _, ok := s.opts.Skills.Get(tableKey(space, skill))
	if !ok || r.provider(id) < 0 {
		return shadow.Skill{}, false
	}
	if r.StateSchema.IsZero() {
		return shadow.Skill{}, true
	}
	return shadow.Skill{Schema: json.RawMessage(r.StateSchema.String()), Check: s.stateCheck(r.StateSchema)}, true
}

// stateCheck checks documents against the schema of a skill's state.
func (s *Service) stateCheck(declared schema.Source) func(name string, state json.RawMessage) (path, reason string) {
	return func(name string, state json.RawMessage) (path, reason string) {
		compiled, err := s.schemas.Get(declared, schema.Annotate)
		if err != nil { // it was compiled when the skill was registered
			return name, "cannot be checked: " + err.Error()
		}
		if v := compiled.Validate(state); v != nil {
			return v.In(name), v.Reason
		}
		return "", ""
	}
}
