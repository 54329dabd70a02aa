package cap

import (
	"context"
	"slices"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

var linkRemove = commands.Spec{
	Name:    "group.link.remove",
	Summary: "Remove the link from one member of a group to another.",
	Effect:  commands.Write,
	Action:  "group:link.remove",
	Errors:  []protocol.Code{protocol.NotFound, protocol.PermissionDenied, protocol.InvalidState, protocol.RevisionConflict},
	Example: `{"group_id":"upstairs","source_skill_id":"bedroom-sensor","target_skill_id":"heating","cap_id":"climate"}`,
}

// LinkRemoveParams are the params of group.link.remove.
type LinkRemoveParams struct {
	Group protocol.GroupID `json:"group_id" doc:"the group"`
	From  protocol.SkillID `json:"source_skill_id" doc:"the member it leads from"`
	To    protocol.SkillID `json:"target_skill_id" doc:"the member it leads to"`
	Cap   protocol.CapID   `json:"cap_id" doc:"the Cap the group belongs to"`
}

// Target implements [commands.Targeter].
func (p LinkRemoveParams) Target() commands.Resource {
	return commands.Resource{Type: "group", ID: string(p.Cap) + "/" + string(p.Group)}
}

// RemoveLink removes a link, in a bidirectional Cap with the link back.
func (s *Service) RemoveLink(ctx context.Context, call *commands.Call, p LinkRemoveParams) (LinkResult, error) {
	result := LinkResult{Group: p.Group, Source: p.From, Target: p.To, Cap: p.Cap}
	revision, err := s.changeGroup(ctx, call, p.Cap, p.Group, func(c *Cap, g *Group) (*Group, error) {
		if err := s.mayLink(call, c, g, p.From, p.To); err != nil {
			return nil, err
		}
		i := g.link(p.From, p.To)
		if i < 0 {
			return nil, protocol.Errorf(protocol.NotFound, "%q is not linked to %q", p.From, p.To).
				With("source_skill_id", string(p.From)).With("target_skill_id", string(p.To))
		}
		result.Type = g.Links[i].Type
		left := g.clone()
		left.Links = slices.DeleteFunc(left.Links, func(l Link) bool {
			return l.Source == p.From && l.Target == p.To ||
				c.bothWays() && l.Source == p.To && l.Target == p.From
		})
		return left, nil
	})
	if err != nil {
		return LinkResult{}, err
	}
	result.Revision = revision
	return result, nil
}
