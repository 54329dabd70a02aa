package cap

import (
	"context"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/records"
	"github.com/aibridge/aibridge/protocol"
)

var memberAdd = commands.Spec{
	Name:    "group.member.add",
	Summary: "Add a skill to a group; the first member makes the group.",
	Effect:  commands.Write,
	Action:  "group:member.add",
	Errors: []protocol.Code{
		protocol.NotFound, protocol.AlreadyExists, protocol.PermissionDenied,
		protocol.LimitReached, protocol.InvalidState, protocol.RevisionConflict,
	},
	Example: `{"group_id":"upstairs","skill_id":"bedroom-sensor","role":"sensor","attributes":{"floor":"1"},"cap_id":"climate"}`,
}

// MemberAddParams are the params of group.member.add.
type MemberAddParams struct {
	Group      protocol.GroupID `json:"group_id" doc:"the group"`
	Skill      protocol.SkillID `json:"skill_id" doc:"the skill that joins"`
	Role       string           `json:"role" len:"1-32" text:"line" doc:"part in the group"`
	Attributes Attributes       `json:"attributes,omitempty" len:"0-16" each:"0-128" text:"line" doc:"further facts about it, for group.dispatch to choose by; names of up to 32 characters, 512 bytes altogether"`
	Cap        protocol.CapID   `json:"cap_id" doc:"the Cap the group belongs to"`
}

// Validate checks the rules that tags of fields cannot express.
func (p *MemberAddParams) Validate() error { return p.Attributes.check("attributes") }

// Target implements [commands.Targeter].
func (p MemberAddParams) Target() commands.Resource {
	return commands.Resource{Type: "group", ID: string(p.Cap) + "/" + string(p.Group)}
}

// MemberResult is the result of group.member.add, .update and .remove.
type MemberResult struct {
	Group    protocol.GroupID `json:"group_id" doc:"id of the group"`
	Skill    protocol.SkillID `json:"skill_id" doc:"id of the member"`
	Role     string           `json:"role" doc:"role of the member in the group; of a removed one, the role it had"`
	Cap      protocol.CapID   `json:"cap_id" doc:"id of the Cap that the group belongs to"`
	Revision uint64           `json:"revision" doc:"of the group; 0 when it ended"`
}

// AddMember adds a member. The owner of the Cap decides about members. The
// skill need not be registered yet: until then it is offline.
func (s *Service) AddMember(ctx context.Context, call *commands.Call, p MemberAddParams) (MemberResult, error) {
	defer s.locks.share(capKey(call.Principal.Home(), p.Cap))()
	c, err := s.findActive(call, p.Cap)
	if err != nil {
		return MemberResult{}, err
	}
	if !owns(call.Principal, c) {
		return MemberResult{}, notYours(c)
	}
	if err := s.opts.MayBind(c.Space, p.Skill, call.Principal); err != nil {
		return MemberResult{}, err
	}
	now := s.opts.Now().UnixMilli()
	_, revision, err := records.Change(ctx, s.opts.Groups, groupKey(c.Space, c.ID, p.Group), func(old *Group, _ uint64) (*Group, error) {
		g := &Group{Space: c.Space, Cap: c.ID, ID: p.Group, BornAt: now}
		if old != nil {
			g = old.clone()
		}
		if g.dynamic() {
			return nil, chosenBySelector(g)
		}
		if g.member(p.Skill) >= 0 {
			return nil, protocol.Errorf(protocol.AlreadyExists, "skill %q is a member of group %q already", p.Skill, p.Group).
				With("group_id", string(p.Group)).With("skill_id", string(p.Skill))
		}
		if len(g.Members) >= c.MaxMembers {
			return nil, protocol.Errorf(protocol.LimitReached, "group %q has %d members already", p.Group, len(g.Members)).
				With("group_id", string(p.Group)).With("limit", c.MaxMembers)
		}
		g.Members = append(g.Members, Member{Skill: p.Skill, Role: p.Role, Attributes: p.Attributes, JoinedAt: now})
		return g, nil
	})
	if err != nil {
		return MemberResult{}, err
	}
	return MemberResult{p.Group, p.Skill, p.Role, p.Cap, revision}, nil
}
