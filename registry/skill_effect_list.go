package registry

import (
	"context"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/commands/listing"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/registry/effects"
)

var skillEffectList = commands.Spec{
	Name:    "skill.effect.list",
	Summary: "List what calls of capabilities with effect keys have done, or may have done.",
	Effect:  commands.Read,
	Action:  "skill:effects",
	Errors:  []protocol.Code{protocol.NotFound},
	Example: `{"state":"unknown"}`,
}

// ListEffectsParams are the params of skill.effect.list.
type ListEffectsParams struct {
	SkillID protocol.SkillID `json:"skill_id,omitempty" doc:"only effects of this skill"`
	State   effects.State    `json:"state,omitempty" enum:"running,done,not_done,unknown" doc:"only effects in this state"`
	Space   protocol.SpaceID `json:"space_id,omitempty" doc:"the space, the caller's own by default"`
	Sort    string           `json:"sort,omitempty" enum:"id,-id,began_at,-began_at" doc:"field to sort by, the highest first behind a minus; the latest first if absent"`
	listing.Page
}

// Target implements [commands.Targeter].
func (p ListEffectsParams) Target() commands.Resource {
	return commands.Resource{Type: "skill", ID: string(p.SkillID), Space: p.Space}
}

// ListEffectsResult is the result of skill.effect.list.
type ListEffectsResult struct {
	Effects    []effects.View `json:"effects" doc:"the effects of this page; empty if none fits"`
	Total      int            `json:"total" doc:"number of effects on all pages"`
	NextCursor string         `json:"next_cursor,omitempty" doc:"cursor of the next page; absent on the last"`
}

var effectOrder = listing.Order[*effects.Record]{
	ID:      func(r *effects.Record) string { return r.ID },
	Keys:    map[string]func(*effects.Record) listing.Key{"began_at": func(r *effects.Record) listing.Key { return listing.Number(r.Began) }},
	Default: "-began_at",
}

// ListEffects lists effects of the caller's own calls, and those of others if it may
// settle them.
func (s *Service) ListEffects(_ context.Context, call *commands.Call, p ListEffectsParams) (ListEffectsResult, error) {
	space, err := in(call, p.Space)
	if err != nil {
		return ListEffectsResult{}, err
	}
	result := ListEffectsResult{Effects: []effects.View{}}
	if s.effects == nil {
		return result, nil
	}
	found, err := effectOrder.Select(func(yield func(*effects.Record) bool) {
		for r := range s.effects.All() {
			fits := r.Space == space && (p.SkillID == "" || r.Skill == p.SkillID) && (p.State == "" || r.State == p.State)
			if fits && (r.By.Is(call.Principal) || s.maySettle(call, r)) && !yield(r) {
				return
			}
		}
	}, p.Sort, p.Page)
	if err != nil {
		return result, err
	}
	result.Total, result.NextCursor = found.Total, found.Next
	for _, r := range found.Items {
		result.Effects = append(result.Effects, r.View())
	}
	return result, nil
}

// maySettle reports whether a caller may settle a deed in a space that it may see:
// the owner of the skill, and operators.
func (s *Service) maySettle(call *commands.Call, r *effects.Record) bool {
	var owner protocol.Party
	if skill, _, ok := s.opts.Skills.Get(tableKey(r.Space, r.Skill)); ok {
		owner = skill.Owner
	}
	return mayManage(call.Principal, owner)
}
