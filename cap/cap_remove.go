package cap

import (
	"context"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/records"
	"github.com/aibridge/aibridge/protocol"
)

var remove = commands.Spec{
	Name:    "cap.remove",
	Summary: "Remove a Cap.",
	Effect:  commands.Write,
	Action:  "cap:remove",
	Errors:  []protocol.Code{protocol.NotFound, protocol.PermissionDenied, protocol.InvalidState, protocol.RevisionConflict},
	Example: `{"cap_id":"climate","force":true}`,
}

// RemoveParams are the params of cap.remove.
type RemoveParams struct {
	ID    protocol.CapID `json:"cap_id" doc:"the Cap"`
	Force bool           `json:"force,omitempty" doc:"remove its groups with it"`
}

// Target implements [commands.Targeter].
func (p RemoveParams) Target() commands.Resource {
	return commands.Resource{Type: "cap", ID: string(p.ID)}
}

// RemoveResult is the result of cap.remove.
type RemoveResult struct {
	ID protocol.CapID `json:"cap_id" doc:"id of the Cap that was removed"`
}

// Remove removes a Cap, with all its groups and their data if that is asked
// for. A Cap with more than a thousand records goes in several steps, itself
// last; a failure between two of them leaves a smaller Cap.
func (s *Service) Remove(ctx context.Context, call *commands.Call, p RemoveParams) (RemoveResult, error) {
	defer s.locks.take(capKey(call.Principal.Home(), p.ID))()
	var err error
	for range records.Attempts {
		var list []Removal
		if list, err = s.removals(call, p); err != nil {
			return RemoveResult{}, err
		}
		for len(list) > maxRemovals && err == nil {
			err = s.opts.RemoveAll(ctx, list[:maxRemovals])
			list = list[maxRemovals:]
		}
		if err == nil {
			err = s.opts.RemoveAll(ctx, list)
		}
		if !records.Raced(err) {
			break
		}
	}
	if err != nil {
		return RemoveResult{}, err
	}
	return RemoveResult{p.ID}, nil
}

// removals lists everything that goes with a Cap, data first.
func (s *Service) removals(call *commands.Call, p RemoveParams) ([]Removal, error) {
	c, revision, err := s.find(call, p.ID)
	if err != nil {
		return nil, err
	}
	if !owns(call.Principal, c) {
		return nil, notYours(c)
	}
	groups := s.index.groupsOf(c.Space, c.ID)
	if len(groups) > 0 && !p.Force {
		return nil, protocol.Errorf(protocol.InvalidState, "Cap %q has %d groups with members", c.ID, len(groups)).
			With("cap_id", string(c.ID)).With("reason", "force removes them with it")
	}
	var list []Removal
	for _, id := range groups {
		list = append(list, s.groupRemovals(c.Space, c.ID, id)...)
	}
	return append(list, Removal{Caps, c.key(), revision}), nil
}

// groupRemovals lists a group and all its data.
func (s *Service) groupRemovals(space protocol.SpaceID, id protocol.CapID, group protocol.GroupID) []Removal {
	var list []Removal
	for _, key := range s.index.dataOf(space, id, group) {
		at := dataKey(space, id, group, key)
		if _, revision, ok := s.opts.Data.Get(at); ok {
			list = append(list, Removal{Data, at, revision})
		}
	}
	at := groupKey(space, id, group)
	if _, revision, ok := s.opts.Groups.Get(at); ok {
		list = append(list, Removal{Groups, at, revision})
	}
	return list
}
