package cap

import (
	"context"
	"slices"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/records"
	"github.com/aibridge/aibridge/protocol"
)

var memberRemove = commands.Spec{
	Name:    "group.member.remove",
	Summary: "Take a skill out of a group; the group ends with its last member.",
	Effect:  commands.Write,
	Action:  "group:member.remove",
	Errors:  []protocol.Code{protocol.NotFound, protocol.PermissionDenied, protocol.RevisionConflict},
	Example: `{"group_id":"upstairs","skill_id":"bedroom-sensor","cap_id":"climate"}`,
}

// MemberRemoveParams are the params of group.member.remove.
type MemberRemoveParams struct {
	Group protocol.GroupID `json:"group_id" doc:"the group"`
	Skill protocol.SkillID `json:"skill_id" doc:"the skill that leaves"`
	Cap   protocol.CapID   `json:"cap_id" doc:"the Cap the group belongs to"`
}

// Target implements [commands.Targeter].
func (p MemberRemoveParams) Target() commands.Resource {
	return commands.Resource{Type: "group", ID: string(p.Cap) + "/" + string(p.Group)}
}

// RemoveMember takes a member and its links out. The owner of the Cap may do
// so, and a member may leave, also where the Cap is inactive.
func (s *Service) RemoveMember(ctx context.Context, call *commands.Call, p MemberRemoveParams) (MemberResult, error) {
	c, _, err := s.find(call, p.Cap)
	if err != nil {
		return MemberResult{}, err
	}
	if !owns(call.Principal, c) && !s.speaksFor(call.Principal, c.Space, p.Skill) {
		return MemberResult{}, notYours(c)
	}
	for range records.Attempts {
		g, revision, err := s.findGroup(c, p.Group)
		if err != nil {
			return MemberResult{}, err
		}
		if g.dynamic() {
			return MemberResult{}, chosenBySelector(g)
		}
		i := g.member(p.Skill)
		if i < 0 {
			return MemberResult{}, stranger(g, p.Skill)
		}
		result := MemberResult{Group: p.Group, Skill: p.Skill, Role: g.Members[i].Role, Cap: p.Cap}
		if len(g.Members) == 1 {
			err = s.end(ctx, g)
		} else {
			result.Revision, err = s.opts.Groups.Update(ctx, g.key(), g.without(i), revision)
		}
		if !records.Raced(err) {
			return result, err
		}
	}
	return MemberResult{}, protocol.Errorf(protocol.RevisionConflict, "group %q is being changed by others; send the request again", p.Group)
}

// without is the group without a member and its links.
func (g *Group) without(i int) *Group {
	left, skill := g.clone(), g.Members[i].Skill
	left.Members = slices.Delete(left.Members, i, i+1)
	left.Links = slices.DeleteFunc(left.Links, func(l Link) bool { return l.Source == skill || l.Target == skill })
	return left
}

// end removes a group with its data, unless it has changed since it was seen.
func (s *Service) end(ctx context.Context, seen *Group) error {
	defer s.locks.take(capKey(seen.Space, seen.Cap))()
	if g, _, ok := s.opts.Groups.Get(seen.key()); !ok || g != seen {
		return protocol.Errorf(protocol.RevisionConflict, "group %q has changed", seen.ID)
	}
	return s.opts.RemoveAll(ctx, s.groupRemovals(seen.Space, seen.Cap, seen.ID))
}
