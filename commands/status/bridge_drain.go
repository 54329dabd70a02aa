package status

import (
	"context"

	"github.com/aibridge/aibridge/cluster"
	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

var bridgeDrain = commands.Spec{
	Name:    "bridge.drain",
	Summary: "End a bridge of the cluster in order: it takes no more clients, sends those that it has to the others, hands over what it keeps, and ends.",
	Effect:  commands.Act,
	Action:  "bridge:drain",
	Errors:  []protocol.Code{protocol.NotFound, protocol.InvalidState, protocol.TargetUnavailable, protocol.OutcomeUnknown},
	Example: `{"bridge_id":"b2"}`,
}

// DrainParams are the params of bridge.drain.
type DrainParams struct {
	BridgeID string `json:"bridge_id" len:"1-128" audit:"yes" doc:"id of the bridge that is to end; any of the cluster may be asked"`
	Window   *int   `json:"window_seconds,omitempty" range:"0-600" audit:"yes" doc:"over how many seconds its clients are sent away; cluster.drain_window_seconds of that bridge if absent"`
}

// DrainResult is the result of bridge.drain.
type DrainResult struct {
	cluster.Node
	Already bool     `json:"already,omitempty" doc:"true if it was ending before it was asked"`
	Clients int      `json:"clients" doc:"clients that it has to send away; 0 if it was ending already"`
	Window  int      `json:"window_seconds" doc:"over how many seconds it sends them; 0 if it was ending already"`
	Others  []string `json:"others" doc:"ids of the bridges that take over, the oldest first"`
}

// Drain has a bridge end.
func (s *Service) Drain(ctx context.Context, call *commands.Call, p DrainParams) (DrainResult, error) {
	if s.Drainer == nil {
		return DrainResult{}, protocol.Errorf(protocol.InvalidState, "this bridge cannot be drained")
	}
	return s.Drainer.Drain(ctx, call.Principal.Party().String(), p)
}

// A Drainer has bridges of the cluster end.
type Drainer interface {
	Drain(ctx context.Context, by string, p DrainParams) (DrainResult, error)
}
