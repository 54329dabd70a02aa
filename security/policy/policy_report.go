package policy

import (
	"context"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

var policyReport = commands.Spec{
	Name:    "policy.report",
	Summary: "Tell what policies on trial would have decided otherwise.",
	Effect:  commands.Read,
	Action:  "policy:report",
	Errors:  []protocol.Code{protocol.InvalidState},
	Example: `{"outcome":"refuse"}`,
}

// ReportParams choose what is told.
type ReportParams struct {
	Outcome Outcome `json:"outcome,omitempty" enum:"refuse,allow,ask,run" doc:"only what would have been so"`
	Limit   int     `json:"limit,omitempty" range:"1-256" default:"100" doc:"how many findings at most, the most frequent first"`
}

// Target implements [commands.Targeter].
func (p ReportParams) Target() commands.Resource { return target("") }

// ReportResult is the result of policy.report.
type ReportResult struct {
	Trials   []string  `json:"trials" doc:"names of the texts on trial"`
	Since    int64     `json:"since" doc:"when counting began on this bridge: at its start, or when the texts on trial were changed last; Unix milliseconds"`
	Judged   uint64    `json:"judged" doc:"decisions that were worked out both ways; those that are remembered and do not differ are not counted again"`
	Findings []Finding `json:"findings" doc:"what would have been decided otherwise, the most frequent first; empty if nothing was"`
	Total    int       `json:"total" doc:"number of findings, at most 256"`
	More     uint64    `json:"more" doc:"decisions that differ and found no place among the findings"`
}

// Report tells what a trial has found.
func (s *Service) Report(_ context.Context, _ *commands.Call, p ReportParams) (ReportResult, error) {
	t := s.Engine.trial.Load()
	if t == nil {
		return ReportResult{}, protocol.Errorf(protocol.InvalidState, "no policies are on trial; policy.put with mode observe puts some")
	}
	if p.Limit == 0 {
		p.Limit = 100
	}
	result := ReportResult{Trials: []string{}, Since: t.report.since.UnixMilli(), Judged: t.report.judged.Load(), Findings: []Finding{}, More: t.report.others.count.Load()}
	for _, v := range s.Engine.views() {
		if v.From == Trial {
			result.Trials = append(result.Trials, v.Name)
		}
	}
	for _, f := range t.report.findings() {
		if p.Outcome != "" && f.Outcome != p.Outcome {
			continue
		}
		if result.Total++; len(result.Findings) < p.Limit {
			result.Findings = append(result.Findings, f)
		}
	}
	return result, nil
}
