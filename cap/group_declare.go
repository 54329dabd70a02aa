package cap

import (
	"context"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/records"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/protocol/selector"
)

var groupDeclare = commands.Spec{
	Name:    "group.declare",
	Summary: "Save a selector as a group, whose members are whoever it chooses at the time.",
	Effect:  commands.Write,
	Action:  "group:declare",
	Errors: []protocol.Code{
		protocol.NotFound, protocol.AlreadyExists, protocol.PermissionDenied, protocol.InvalidState, protocol.LimitReached,
	},
	Example: `{"group_id":"old-lamps","cap_id":"home","selector":"model=x2,firmware<1.10"}`,
}

// GroupDeclareParams are the params of group.declare.
type GroupDeclareParams struct {
	Group  protocol.GroupID `json:"group_id" doc:"the group; declared again, it gets the new selector"`
	Cap    protocol.CapID   `json:"cap_id" doc:"the Cap it belongs to"`
	Chosen string           `json:"selector" len:"1-2048" doc:"chooses agents, each with its skills, such as site=hall,model in (x1,x2); see docs/protocol.md#selectors"`
}

// Target implements [commands.Targeter].
func (p GroupDeclareParams) Target() commands.Resource {
	return commands.Resource{Type: "group", ID: string(p.Cap) + "/" + string(p.Group)}
}

// GroupDeclareResult is the result of group.declare.
type GroupDeclareResult struct {
	Group    protocol.GroupID `json:"group_id" doc:"id of the group"`
	Cap      protocol.CapID   `json:"cap_id" doc:"id of the Cap that the group belongs to"`
	Chosen   string           `json:"selector" doc:"the selector in its shortest form"`
	Selected int              `json:"selected" doc:"number of those that it chooses now: each skill of an agent counts"`
	Revision uint64           `json:"revision" doc:"of the group"`
}

// DeclareGroup saves a selector as a group of a Cap. The owner of the Cap may.
// A member that the selector chooses gets no rights by it: agents tag themselves.
func (s *Service) DeclareGroup(ctx context.Context, call *commands.Call, p GroupDeclareParams) (GroupDeclareResult, error) {
	defer s.locks.share(capKey(call.Principal.Home(), p.Cap))()
	c, err := s.findActive(call, p.Cap)
	if err != nil {
		return GroupDeclareResult{}, err
	}
	if !owns(call.Principal, c) {
		return GroupDeclareResult{}, notYours(c)
	}
	chosen, err := selector.ParseParam("selector", p.Chosen)
	if err != nil {
		return GroupDeclareResult{}, err
	}
	_, revision, err := records.Change(ctx, s.opts.Groups, groupKey(c.Space, c.ID, p.Group), func(old *Group, _ uint64) (*Group, error) {
		switch {
		case old == nil:
			return &Group{Space: c.Space, Cap: c.ID, ID: p.Group, Selector: chosen.String(), BornAt: s.opts.Now().UnixMilli()}, nil
		case !old.dynamic():
			return nil, protocol.Errorf(protocol.AlreadyExists, "group %q has members that were added one by one", p.Group).With("group_id", string(p.Group))
		}
		g := old.clone()
		g.Selector = chosen.String()
		return g, nil
	})
	if err != nil {
		return GroupDeclareResult{}, err
	}
	return GroupDeclareResult{p.Group, p.Cap, chosen.String(), s.countSelected(c.Space, chosen, ""), revision}, nil
}

// dynamic reports whether a selector chooses the members.
func (g *Group) dynamic() bool { return g.Selector != "" }

// selector is the parsed selector. The stored text was checked, so an error is the
// bridge's own.
func (g *Group) selector() (*selector.Selector, error) {
	chosen, err := selector.Parse(g.Selector)
	if err != nil {
		return nil, protocol.Wrap(protocol.Internal, err, "the selector of the group cannot be read")
	}
	return chosen, nil
}

// countSelected counts the members that a selector chooses.
func (s *Service) countSelected(space protocol.SpaceID, chosen *selector.Selector, capability protocol.CapabilityID) int {
	n := 0
	for range s.opts.Skills.Select(space, chosen, capability) {
		n++
	}
	return n
}

// chosenBySelector is the error for operations that groups with a selector do not
// support.
func chosenBySelector(g *Group) error {
	return protocol.Errorf(protocol.InvalidState, "the members of group %q are chosen by a selector; group.declare changes it", g.ID).
		With("group_id", string(g.ID)).With("selector", g.Selector)
}
