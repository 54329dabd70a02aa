package shadow

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

var stateGet = commands.Spec{
	Name:    "state.get",
	Summary: "Show what state the skills of an agent shall have, what they have, and how the two differ.",
	Effect:  commands.Read,
	Action:  "state:get",
	Errors:  []protocol.Code{protocol.NotFound, protocol.PermissionDenied},
	Example: `{"agent_id":"thermostat-1","skill_id":"heating","history":true}`,
}

// GetParams are the params of state.get.
type GetParams struct {
	AgentID protocol.AgentID `json:"agent_id" doc:"the agent"`
	SkillID protocol.SkillID `json:"skill_id,omitempty" doc:"only the state of this skill, which the agent provides"`
	History bool             `json:"history,omitempty" doc:"the latest changes, too"`
	Space   protocol.SpaceID `json:"space_id,omitempty" doc:"the space it lives in, the caller's own by default"`
}

// Target implements [commands.Targeter].
func (p GetParams) Target() commands.Resource { return resource(p.Space, p.AgentID, p.SkillID) }

// GetResult is the state of an agent.
type GetResult struct {
	AgentID protocol.AgentID `json:"agent_id" doc:"id of the agent"`
	Space   protocol.SpaceID `json:"space_id" doc:"id of the space that it lives in"`
	Skills  []SkillView      `json:"skills" doc:"its skills that have state or declare a state_schema, by id"`
}

// A SkillView is the state of one skill.
type SkillView struct {
	SkillID  protocol.SkillID `json:"skill_id" doc:"id of the skill"`
	Desired  DocumentView     `json:"desired" doc:"desired value"`
	Reported DocumentView     `json:"reported" doc:"kind, as its agent said last"`
	Delta    json.RawMessage  `json:"delta" type:"object" doc:"part of the desired state that the reported one lacks, as a merge patch for it; empty if none"`
	InSync   bool             `json:"in_sync" doc:"true if delta is empty"`
}

// A DocumentView is one document.
type DocumentView struct {
	Version   uint64          `json:"version" doc:"counts the changes of this document; 0 if it was never set. Give it as version to change it only if nobody else has"`
	State     json.RawMessage `json:"state" type:"object" doc:"the document; empty if it was never set"`
	UpdatedAt int64           `json:"updated_at,omitempty" doc:"Unix milliseconds; absent if it was never set"`
	UpdatedBy string          `json:"updated_by,omitempty" doc:"sender of the request that changed it last; absent if it was never set"`
	History   []Change        `json:"history,omitempty" doc:"its latest changes, the oldest first: 16 of a desired state, 8 of a reported one; absent unless asked for"`
}

// Get shows the state of an agent.
func (s *Service) Get(_ context.Context, call *commands.Call, p GetParams) (GetResult, error) {
	a, err := s.find(call.Principal, p.Space, p.AgentID)
	if err != nil {
		return GetResult{}, err
	}
	result := GetResult{AgentID: a.ID, Space: a.Space, Skills: []SkillView{}}
	documents := s.index.of(a.ref())
	for _, id := range s.Agents.ServedBy(a.Space, a.ID) {
		if p.SkillID != "" && id != p.SkillID {
			continue
		}
		pair, kept := documents[id]
		skill, provided := s.Agents.StateOf(a.Space, a.ID, id)
		if !provided || !kept && skill.Schema == nil && p.SkillID == "" {
			continue
		}
		result.Skills = append(result.Skills, pair.standing(a.Born).view(id, p.History))
	}
	if p.SkillID != "" && len(result.Skills) == 0 {
		return GetResult{}, notProvided(a.ID, p.SkillID)
	}
	return result, nil
}

func (p pair) view(id protocol.SkillID, history bool) SkillView {
	delta := p.delta()
	return SkillView{id, p.desired.view(history), p.reported.view(history), render(delta), len(delta) == 0}
}

func (r *Record) view(history bool) DocumentView {
	if r == nil {
		return DocumentView{State: json.RawMessage("{}")}
	}
	v := DocumentView{Version: r.Version, State: r.State, UpdatedAt: r.UpdatedAt, UpdatedBy: r.UpdatedBy}
	if history {
		v.History = slices.Clone(r.History)
	}
	return v
}
