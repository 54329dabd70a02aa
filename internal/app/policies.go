package app

import (
	"context"
	"encoding/json"
	"maps"
	"slices"

	"github.com/aibridge/aibridge/internal/authz"
	"github.com/aibridge/aibridge/internal/store"
	"github.com/aibridge/aibridge/security"
	"github.com/aibridge/aibridge/security/policy"
)

// policyReport is the errand that fetches the findings of policies on trial.
const policyReport = "policy.report"

// newPolicies makes the part that keeps policies. It asks the bridges of a cluster
// for their findings of policies on trial.
func newPolicies(s *state, parties authz.Parties, shared *relaying) *policy.Service {
	options := policy.ServiceOptions{
		Engine: s.policies, Records: store.NewTable[policy.Record](s.Store, "policy"), Trials: store.NewTable[policy.Record](s.Store, "policy-trial"),
		Principal: parties.Principal, InScope: security.ScopeAllows,
	}
	if shared == nil {
		return policy.NewService(options)
	}
	options.Elsewhere = func(ctx context.Context) ([]policy.ReportResult, []string) {
		found, silent := haveAll[policy.ReportResult](ctx, shared, policyReport, struct{}{})
		return slices.Collect(maps.Values(found)), silent
	}
	service := policy.NewService(options)
	shared.errands.does[policyReport] = func(context.Context, json.RawMessage) (any, error) { return service.Found() }
	return service
}
