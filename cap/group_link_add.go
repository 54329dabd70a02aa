package cap

import (
	"context"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

var linkAdd = commands.Spec{
	Name:    "group.link.add",
	Summary: "Link one member of a group to another.",
	Effect:  commands.Write,
	Action:  "group:link.add",
	Errors: []protocol.Code{
		protocol.NotFound, protocol.AlreadyExists, protocol.PermissionDenied,
		protocol.LimitReached, protocol.InvalidState, protocol.RevisionConflict,
	},
	Example: `{"group_id":"upstairs","source_skill_id":"bedroom-sensor","target_skill_id":"heating","link_type":"data_flow","cap_id":"climate"}`,
}

// LinkAddParams are the params of group.link.add.
type LinkAddParams struct {
	Group protocol.GroupID `json:"group_id" doc:"the group"`
	From  protocol.SkillID `json:"source_skill_id" doc:"the member it leads from"`
	To    protocol.SkillID `json:"target_skill_id" doc:"the member it leads to"`
	Type  string           `json:"link_type" len:"1-32" doc:"messages that go along it"`
	Cap   protocol.CapID   `json:"cap_id" doc:"the Cap the group belongs to"`
}

// Target implements [commands.Targeter].
func (p LinkAddParams) Target() commands.Resource {
	return commands.Resource{Type: "group", ID: string(p.Cap) + "/" + string(p.Group)}
}

// LinkResult is the result of group.link.add and group.link.remove.
type LinkResult struct {
	Group    protocol.GroupID `json:"group_id" doc:"id of the group"`
	Source   protocol.SkillID `json:"source_skill_id" doc:"id of the member that the link leads from"`
	Target   protocol.SkillID `json:"target_skill_id" doc:"id of the member that the link leads to"`
	Type     string           `json:"link_type" doc:"kind of traffic on the link, as its maker named it"`
	Cap      protocol.CapID   `json:"cap_id" doc:"id of the Cap that the group belongs to"`
	Revision uint64           `json:"revision" doc:"of the group"`
}

// AddLink links two members. In a bidirectional Cap the link back is made
// with it, unless it is there.
func (s *Service) AddLink(ctx context.Context, call *commands.Call, p LinkAddParams) (LinkResult, error) {
	if p.From == p.To {
		return LinkResult{}, protocol.InvalidParam("target_skill_id", "is the source too")
	}
	revision, err := s.changeGroup(ctx, call, p.Cap, p.Group, func(c *Cap, g *Group) (*Group, error) {
		if err := s.mayLink(call, c, g, p.From, p.To); err != nil {
			return nil, err
		}
		if g.link(p.From, p.To) >= 0 {
			return nil, protocol.Errorf(protocol.AlreadyExists, "%q is linked to %q already", p.From, p.To).
				With("source_skill_id", string(p.From)).With("target_skill_id", string(p.To))
		}
		linked := g.clone()
		linked.Links = append(linked.Links, Link{p.From, p.To, p.Type})
		if c.bothWays() && g.link(p.To, p.From) < 0 {
			linked.Links = append(linked.Links, Link{p.To, p.From, p.Type})
		}
		if len(linked.Links) > maxLinks {
			return nil, protocol.Errorf(protocol.LimitReached, "group %q has %d links already", p.Group, len(g.Links)).With("limit", maxLinks)
		}
		return linked, nil
	})
	if err != nil {
		return LinkResult{}, err
	}
	return LinkResult{p.Group, p.From, p.To, p.Type, p.Cap, revision}, nil
}

// mayLink checks that both ends are members and that the caller owns the Cap
// or speaks for the source.
func (s *Service) mayLink(call *commands.Call, c *Cap, g *Group, source, target protocol.SkillID) error {
	if !owns(call.Principal, c) && !s.speaksFor(call.Principal, c.Space, source) {
		return notYours(c)
	}
	for _, end := range []protocol.SkillID{source, target} {
		if g.member(end) < 0 {
			return stranger(g, end)
		}
	}
	return nil
}
