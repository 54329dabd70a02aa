package policy

import (
	"cmp"
	"context"
	"slices"

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

// ReportParams choose the findings of a report.
type ReportParams struct {
	Outcome Outcome `json:"outcome,omitempty" enum:"refuse,allow,ask,run" doc:"only what would have been so"`
	Limit   int     `json:"limit,omitempty" range:"1-256" default:"100" doc:"number of findings at most, the most frequent first"`
}

// Target implements [commands.Targeter].
func (p ReportParams) Target() commands.Resource { return target("") }

// ReportResult is the result of policy.report. Of a cluster it is of all bridges
// together.
type ReportResult struct {
	Trials   []string  `json:"trials" doc:"names of the texts on trial"`
	Since    int64     `json:"since" doc:"beginning of the count, on the first bridge of a cluster: its start, or the last change of the texts on trial; Unix milliseconds"`
	Judged   uint64    `json:"judged" doc:"decisions that were worked out both ways; those that are remembered and do not differ are not counted again"`
	Findings []Finding `json:"findings" doc:"decisions that would have been others, the most frequent first; empty if there are none"`
	Total    int       `json:"total" doc:"number of findings, at most 256 of each bridge"`
	More     uint64    `json:"more" doc:"decisions that differ and found no place among the findings"`
	Silent   []string  `json:"silent,omitempty" doc:"bridges of the cluster that did not tell theirs in time, so that they are missing here"`
}

// Report shows the findings of a trial on all bridges.
func (s *Service) Report(ctx context.Context, _ *commands.Call, p ReportParams) (ReportResult, error) {
	result, err := s.Found()
	if err != nil {
		return ReportResult{}, err
	}
	if s.Elsewhere != nil {
		others, silent := s.Elsewhere(ctx)
		result.Silent = silent
		for _, other := range others {
			result.add(&other)
		}
	}
	found := slices.DeleteFunc(result.Findings, func(f Finding) bool { return p.Outcome != "" && f.Outcome != p.Outcome })
	sortFindings(found)
	result.Total, result.Findings = len(found), found[:min(len(found), cmp.Or(p.Limit, 100))]
	return result, nil
}

// Found is all that a trial has found on this bridge.
func (s *Service) Found() (ReportResult, error) {
	t := s.Engine.trial.Load()
	if t == nil {
		return ReportResult{}, protocol.Errorf(protocol.InvalidState, "no policies are on trial; policy.put with mode observe puts some")
	}
	result := ReportResult{Trials: []string{}, Since: t.report.since.UnixMilli(), Judged: t.report.judged.Load(), Findings: t.report.findings(), More: t.report.others.count.Load()}
	for _, v := range s.Engine.views() {
		if v.From == Trial {
			result.Trials = append(result.Trials, v.Name)
		}
	}
	return result, nil
}

// add adds the findings of another bridge.
func (r *ReportResult) add(other *ReportResult) {
	r.Since = min(r.Since, other.Since)
	r.Judged += other.Judged
	r.More += other.More
	for _, f := range other.Findings {
		i := slices.IndexFunc(r.Findings, f.like)
		if i < 0 {
			r.Findings = append(r.Findings, f)
			continue
		}
		r.Findings[i].add(&f)
	}
}

// like reports whether both are of one sort.
func (f *Finding) like(o Finding) bool {
	return f.Outcome == o.Outcome && f.Action == o.Action && f.Type == o.Type && f.Kind == o.Kind && f.Policy == o.Policy
}

// add adds decisions of the same sort.
func (f *Finding) add(o *Finding) {
	f.Count += o.Count
	f.FirstAt, f.LastAt = min(f.FirstAt, o.FirstAt), max(f.LastAt, o.LastAt)
	for _, example := range o.Examples {
		if len(f.Examples) < maxExamples && !slices.ContainsFunc(f.Examples, example.like) {
			f.Examples = append(f.Examples, example)
		}
	}
}
