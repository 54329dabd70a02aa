package cap

import (
	"context"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

var memberUpdate = commands.Spec{
	Name:    "group.member.update",
	Summary: "Change the role or the attributes of a member.",
	Effect:  commands.Write,
	Action:  "group:member.update",
	Errors:  []protocol.Code{protocol.NotFound, protocol.PermissionDenied, protocol.InvalidState, protocol.RevisionConflict},
	Example: `{"group_id":"upstairs","skill_id":"bedroom-sensor","attributes":{"floor":"2"},"cap_id":"climate"}`,
}

// MemberUpdateParams are the params of group.member.update.
type MemberUpdateParams struct {
	Group      protocol.GroupID `json:"group_id" doc:"the group"`
	Skill      protocol.SkillID `json:"skill_id" doc:"the member"`
	Role       *string          `json:"role,omitempty" len:"1-32" text:"line" doc:"its new role; as it was when absent"`
	Attributes *Attributes      `json:"attributes,omitempty" len:"0-16" each:"0-128" text:"line" doc:"all its attributes from now on; as they were when absent"`
	Cap        protocol.CapID   `json:"cap_id" doc:"the Cap the group belongs to"`
}

// Validate checks the rules that tags of fields cannot express.
func (p *MemberUpdateParams) Validate() error {
	if p.Attributes == nil {
		return nil
	}
	return p.Attributes.check("attributes")
}

// Target implements [commands.Targeter].
func (p MemberUpdateParams) Target() commands.Resource {
	return commands.Resource{Type: "group", ID: string(p.Cap) + "/" + string(p.Group)}
}

// UpdateMember changes the role and the attributes of a member. The owner of
// the Cap decides about them, as about members.
func (s *Service) UpdateMember(ctx context.Context, call *commands.Call, p MemberUpdateParams) (MemberResult, error) {
	result := MemberResult{Group: p.Group, Skill: p.Skill, Cap: p.Cap}
	var err error
	result.Revision, err = s.changeGroup(ctx, call, p.Cap, p.Group, func(c *Cap, g *Group) (*Group, error) {
		if !owns(call.Principal, c) {
			return nil, notYours(c)
		}
		i := g.member(p.Skill)
		if i < 0 {
			return nil, stranger(g, p.Skill)
		}
		m := g.Members[i]
		if p.Role != nil {
			m.Role = *p.Role
		}
		if p.Attributes != nil {
			m.Attributes = *p.Attributes
		}
		result.Role = m.Role
		changed := g.clone()
		changed.Members[i] = m
		return changed, nil
	})
	if err != nil {
		return MemberResult{}, err
	}
	return result, nil
}
