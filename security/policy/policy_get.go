package policy

import (
	"context"
	"strings"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

var policyGet = commands.Spec{
	Name:    "policy.get",
	Summary: "Show policies: those of the bridge, of a file, or put by policy.put.",
	Effect:  commands.Read,
	Action:  "policy:get",
	Errors:  []protocol.Code{protocol.NotFound},
	Example: `{"name":"operator"}`,
}

// NameParams name a text of policies.
type NameParams struct {
	Name string `json:"name" len:"1-300" doc:"as policy.list shows it"`
}

// Target implements [commands.Targeter].
func (p NameParams) Target() commands.Resource { return target(p.Name) }

// GetResult is the result of policy.get.
type GetResult struct {
	View
	Policy   string `json:"policy" doc:"the text in force, or on trial"`
	Revision uint64 `json:"revision,omitempty" doc:"of what was put by policy.put"`
}

// Get shows a text.
func (s *Service) Get(_ context.Context, _ *commands.Call, p NameParams) (GetResult, error) {
	view, text, ok := s.Engine.find(p.Name)
	if !ok {
		return GetResult{}, noPolicy(p.Name)
	}
	result := GetResult{View: view, Policy: text}
	switch view.From {
	case Stored:
		_, result.Revision, _ = s.Records.Get(p.Name)
	case Trial:
		_, result.Revision, _ = s.Trials.Get(strings.TrimPrefix(p.Name, trialPrefix))
	}
	return result, nil
}
