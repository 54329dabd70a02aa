package registry

import (
	"context"
	"strings"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/commands/listing"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/registry/schema"
)

var skillDiscover = commands.Spec{
	Name:    "skill.discover",
	Summary: "Find skills by what they can do.",
	Effect:  commands.Read,
	Action:  "skill:discover",
	Errors:  []protocol.Code{protocol.NotFound},
	Example: `{"capability":"temperature_sensor"}`,
}

// DiscoverSkillsParams are the params of skill.discover.
type DiscoverSkillsParams struct {
	Space      protocol.SpaceID `json:"space_id,omitempty" doc:"the space, the caller's own by default"`
	Capability string           `json:"capability,omitempty" len:"1-128" doc:"id of a capability; route finds the skills of route agents that are authorised and online"`
	Text       string           `json:"text,omitempty" len:"1-128" doc:"words in ids, names and descriptions, whatever their case"`
	listing.Page
}

// Target implements [commands.Targeter].
func (p DiscoverSkillsParams) Target() commands.Resource {
	return commands.Resource{Type: "skill", Space: p.Space}
}

// DiscoverSkillsResult is the result of skill.discover.
type DiscoverSkillsResult struct {
	Skills     []SkillView `json:"skills" doc:"the skills of this page, by id; empty if none fits"`
	Total      int         `json:"total" doc:"number of skills on all pages"`
	NextCursor string      `json:"next_cursor,omitempty" doc:"cursor of the next page; absent on the last"`
}

// A SkillView is a skill as callers see it.
type SkillView struct {
	SkillID      protocol.SkillID   `json:"skill_id" doc:"id of the skill, unique in its space"`
	Name         string             `json:"name" doc:"name for people"`
	Description  string             `json:"description" doc:"description for people and models; empty if it has none"`
	Version      string             `json:"version" doc:"version of the skill, three numbers as in 1.4.0"`
	Type         SkillType          `json:"type" doc:"system if the skill is part of the installation, else custom"`
	Endpoints    []string           `json:"endpoints" doc:"URLs at which the skill is reached besides MQTT; empty if it has none"`
	Capabilities []CapabilityView   `json:"capabilities" doc:"capabilities of the skill: an id alone, or an object with capability_id, name, description, params_schema, result_schema, effect, idempotent, risk and sealed, as they were registered"`
	Status       Status             `json:"status" doc:"online if one of its agents is, or, without agents, if it has an HTTP endpoint; else offline"`
	AgentID      protocol.AgentID   `json:"agent_id,omitempty" doc:"id of one of its agents, an online one if there is any; absent if it has none"`
	AgentIDs     []protocol.AgentID `json:"agent_ids" doc:"ids of all agents that provide the skill; empty if it has HTTP endpoints alone"`
	Space        protocol.SpaceID   `json:"space_id" doc:"id of the space that the skill lives in"`

	StateSchema    schema.Source   `json:"state_schema,omitzero" doc:"JSON Schema of its desired and its reported state; absent if it declares none"`
	EncryptionKeys []EncryptionKey `json:"encryption_keys,omitempty" doc:"public keys that params may be sealed to, the one to use first; absent if it has none"`
}

// DiscoverSkills lists the skills of a space by id.
func (s *Service) DiscoverSkills(_ context.Context, call *commands.Call, p DiscoverSkillsParams) (DiscoverSkillsResult, error) {
	space, err := in(call, p.Space)
	if err != nil {
		return DiscoverSkillsResult{}, err
	}
	capability := protocol.CapabilityID(p.Capability)
	found, err := s.index.skills(space, capability, query[*SkillRecord]{Page: p.Page, match: s.matcher(capability, p.Text)})
	if err != nil {
		return DiscoverSkillsResult{}, err
	}
	result := DiscoverSkillsResult{Skills: make([]SkillView, len(found.Items)), Total: found.Total, NextCursor: found.Next}
	for i, r := range found.Items {
		result.Skills[i] = s.viewSkill(r)
	}
	return result, nil
}

// matcher is the condition for a skill besides having the capability, nil if
// nothing.
func (s *Service) matcher(capability protocol.CapabilityID, text string) func(*SkillRecord) bool {
	var tests []func(*SkillRecord) bool
	if capability == RouteCapability {
		tests = append(tests, s.routes)
	}
	for word := range strings.FieldsSeq(text) {
		finder := listing.Find(word)
		tests = append(tests, func(r *SkillRecord) bool { return r.mentions(finder) })
	}
	if len(tests) == 0 {
		return nil
	}
	return func(r *SkillRecord) bool {
		for _, test := range tests {
			if !test(r) {
				return false
			}
		}
		return true
	}
}

// mentions reports whether a word is in the description of a skill.
func (r *SkillRecord) mentions(word listing.Finder) bool {
	if word.In(string(r.ID), r.Name, r.Description) {
		return true
	}
	for i := range r.Capabilities {
		c := &r.Capabilities[i]
		if word.In(string(c.ID), c.Name, c.Description) {
			return true
		}
	}
	return false
}

func (s *Service) viewSkill(r *SkillRecord) SkillView {
	v := SkillView{
		SkillID:     r.ID,
		Name:        r.Name,
		Description: r.Description,
		Version:     r.Version,
		Type:        r.Type,
		Endpoints:   r.Endpoints,
		Status:      statusOf(s.isOnline(r)),
		AgentIDs:    make([]protocol.AgentID, len(r.Providers)),
		Space:       r.Space,

		StateSchema:    r.StateSchema,
		EncryptionKeys: r.EncryptionKeys,
	}
	if v.Endpoints == nil {
		v.Endpoints = []string{}
	}
	for i := range r.Capabilities {
		v.Capabilities = append(v.Capabilities, CapabilityView(r.Capabilities[i]))
	}
	for i, p := range r.Providers {
		v.AgentIDs[i] = p.AgentID
	}
	v.AgentID, _ = s.provider(r)
	return v
}
