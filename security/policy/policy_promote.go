package policy

import (
	"context"
	"strings"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

var policyPromote = commands.Spec{
	Name:    "policy.promote",
	Summary: "Put policies in force that are on trial, in place of those of the same name.",
	Effect:  commands.Write,
	Action:  "policy:put",
	Errors:  []protocol.Code{protocol.NotFound, protocol.LimitReached, protocol.RevisionConflict},
	Example: `{"name":"doors"}`,
}

// PromoteParams are the params of policy.promote.
type PromoteParams struct {
	Name     string `json:"name" len:"1-70" doc:"name of the text, with or without trial: before it"`
	Revision uint64 `json:"revision,omitempty" doc:"of the text on trial, if it must be this one, which was observed"`
}

// Target implements [commands.Targeter].
func (p PromoteParams) Target() commands.Resource { return target(p.Name) }

// Promote puts a text in force that is on trial, and ends the trial. It is in
// force before its trial ends, so that no moment lacks it.
func (s *Service) Promote(ctx context.Context, call *commands.Call, p PromoteParams) (PutResult, error) {
	name := strings.TrimPrefix(p.Name, trialPrefix)
	record, revision, ok := s.Trials.Get(name)
	switch {
	case !ok:
		return PutResult{}, protocol.Errorf(protocol.NotFound, "no policies %q are on trial", name).With("name", name)
	case p.Revision != 0 && p.Revision != revision:
		return PutResult{}, protocol.Errorf(protocol.RevisionConflict, "what is on trial as %q has revision %d", name, revision).
			With("expected", p.Revision).With("revision", revision)
	}
	result, err := s.Put(ctx, call, PutParams{Name: name, Policy: record.Text})
	if err != nil {
		return PutResult{}, err
	}
	if err := s.Trials.Delete(ctx, name, revision); err != nil {
		call.Warn("the policies are in force, and still on trial: %s", protocol.AsError(err).Message)
	}
	return result, nil
}
