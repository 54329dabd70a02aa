package policy

import (
	"context"
	"strings"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

var policyRemove = commands.Spec{
	Name:    "policy.remove",
	Summary: "Take policies that were put by policy.put out of force, or end their trial.",
	Effect:  commands.Write,
	Action:  "policy:remove",
	Errors:  []protocol.Code{protocol.NotFound, protocol.InvalidState},
	Example: `{"name":"doors"}`,
}

// RemoveResult is the result of policy.remove.
type RemoveResult struct {
	Name string `json:"name" doc:"name of the text that was removed"`
}

// Remove takes a text out of force. Those of the bridge stay, and those of
// files go with their files.
func (s *Service) Remove(ctx context.Context, _ *commands.Call, p NameParams) (RemoveResult, error) {
	view, _, ok := s.Engine.find(p.Name)
	switch {
	case !ok:
		return RemoveResult{}, noPolicy(p.Name)
	case view.From == Shipped:
		return RemoveResult{}, protocol.Errorf(protocol.InvalidState, "policy %q comes with the bridge and stays: forbid what it permits instead", p.Name).With("name", p.Name)
	case view.From == File:
		return RemoveResult{}, protocol.Errorf(protocol.InvalidState, "policy %q is a file: remove that", p.Name).With("name", p.Name)
	}
	return RemoveResult(p), s.table(view.From).Delete(ctx, strings.TrimPrefix(p.Name, trialPrefix), 0)
}
