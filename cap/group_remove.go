package cap

import (
	"context"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/records"
	"github.com/aibridge/aibridge/protocol"
)

var groupRemove = commands.Spec{
	Name:    "group.remove",
	Summary: "Remove a group with its members, links and data.",
	Effect:  commands.Write,
	Action:  "group:remove",
	Errors:  []protocol.Code{protocol.NotFound, protocol.PermissionDenied, protocol.RevisionConflict},
	Example: `{"group_id":"old-lamps","cap_id":"home"}`,
}

// GroupRemoveResult is the result of group.remove.
type GroupRemoveResult struct {
	Group protocol.GroupID `json:"group_id" doc:"id of the group that was removed"`
	Cap   protocol.CapID   `json:"cap_id" doc:"id of the Cap that it belonged to"`
}

// RemoveGroup removes a group. The owner of the Cap may, also where the Cap is
// inactive.
func (s *Service) RemoveGroup(ctx context.Context, call *commands.Call, p GroupQueryParams) (GroupRemoveResult, error) {
	c, _, err := s.find(call, p.Cap)
	if err != nil {
		return GroupRemoveResult{}, err
	}
	if !owns(call.Principal, c) {
		return GroupRemoveResult{}, notYours(c)
	}
	for range records.Attempts {
		g, _, err := s.findGroup(c, p.Group)
		if err != nil {
			return GroupRemoveResult{}, err
		}
		if err = s.end(ctx, g); !records.Raced(err) {
			return GroupRemoveResult{p.Group, p.Cap}, err
		}
	}
	return GroupRemoveResult{}, protocol.Errorf(protocol.RevisionConflict, "group %q is being changed by others; send the request again", p.Group)
}
