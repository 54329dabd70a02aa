package status

import (
	"context"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

var bridgeRemove = commands.Spec{
	Name:    "bridge.remove",
	Summary: "Remove a bridge that has ended for good from the cluster: its copies of the state are made on others, and its id is used no more.",
	Effect:  commands.Act,
	Action:  "bridge:remove",
	Errors:  []protocol.Code{protocol.NotFound, protocol.InvalidState, protocol.OutcomeUnknown},
	Example: `{"bridge_id":"b3"}`,
}

// RemoveParams are the params of bridge.remove.
type RemoveParams struct {
	BridgeID string `json:"bridge_id" len:"1-128" audit:"yes" doc:"id of the bridge, which has ended or was declared dead; one that lives is drained first, see bridge.drain"`
}

// RemoveResult is the result of bridge.remove.
type RemoveResult struct {
	BridgeID string `json:"bridge_id" doc:"id of the bridge"`
	Already  bool   `json:"already,omitempty" doc:"true if it was removed before; what was left to do is done"`
	Kept     bool   `json:"kept_state,omitempty" doc:"true if it was one of the bridges that keep the state until now"`
	Keepers  int    `json:"keepers,omitempty" doc:"number of bridges that keep the state now; absent where NATS is not formed by bridges"`
	Lacking  int    `json:"lacking_copies,omitempty" doc:"number of streams that have fewer copies than they are to have; they get them as soon as another bridge takes its place"`
	Address  string `json:"address,omitempty" doc:"its place in cluster.join, for a bridge with a new id; absent if that is taken, or it had none"`
	ServedBy string `json:"served_by,omitempty" doc:"id of the bridge that serves the sessions it has kept, until their clients come back or they expire; absent if there are none"`
}

// Remove removes a bridge from the cluster.
func (s *Service) Remove(ctx context.Context, call *commands.Call, p RemoveParams) (RemoveResult, error) {
	if s.Remover == nil {
		return RemoveResult{}, protocol.Errorf(protocol.InvalidState, "this bridge cannot remove others")
	}
	return s.Remover.Remove(ctx, call.Principal.Party().String(), p)
}

// A Remover removes bridges from the cluster.
type Remover interface {
	Remove(ctx context.Context, by string, p RemoveParams) (RemoveResult, error)
}
