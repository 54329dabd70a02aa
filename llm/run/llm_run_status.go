package run

import (
	"context"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/llm/run/mount"
	"github.com/aibridge/aibridge/llm/run/pack"
	"github.com/aibridge/aibridge/protocol"
)

var status = commands.Spec{
	Name:    "llm.run.status",
	Summary: "Show a run and where it is.",
	Effect:  commands.Read,
	Action:  "llm:read",
	Errors:  []protocol.Code{protocol.NotFound},
	Example: `{"run_id":"01989d3c-7a4e-7c11-9b52-2f6d1e0a4b7c","wait_ms":10000}`,
}

// StatusParams are the params of llm.run.status.
type StatusParams struct {
	Run  string `json:"run_id" len:"1-64" doc:"the run"`
	Wait int    `json:"wait_ms,omitempty" range:"0-600000" doc:"answer when it is at rest, or after so many milliseconds"`
}

// Target implements [commands.Targeter].
func (p StatusParams) Target() commands.Resource { return commands.Resource{Type: "llm", ID: "run"} }

// StatusResult is a run and where it is.
type StatusResult struct {
	Result
	Node      string              `json:"current_node_id,omitempty" doc:"step it is in"`
	Completed []string            `json:"steps_completed,omitempty" doc:"steps that are done"`
	Next      []NextStep          `json:"allowed_next,omitempty" doc:"where it can go from there"`
	Variables map[string]any      `json:"variables,omitempty" doc:"variables of the workflow"`
	Decisions []pack.LoggedChoice `json:"decision_log,omitempty" doc:"decisions that were taken"`
	Artifacts []string            `json:"artifacts,omitempty" doc:"files that were made"`
	Trouble   string              `json:"state_error,omitempty" doc:"why none of these can be told"`
}

// A NextStep is where a run can go.
type NextStep struct {
	To        string `json:"to" doc:"the step"`
	Label     string `json:"label" doc:"the way there"`
	Default   bool   `json:"is_default,omitempty" doc:"it is meant if nothing speaks for another"`
	Condition string `json:"condition_text,omitempty" doc:"when to go there"`
}

// Status shows a run.
func (s *Service) Status(ctx context.Context, call *commands.Call, p StatusParams) (StatusResult, error) {
	r, l, err := s.lookup(call.Principal, p.Run)
	if err != nil {
		return StatusResult{}, err
	}
	if l != nil && p.Wait > 0 {
		wait := time.Duration(p.Wait) * time.Millisecond
		if left := time.Until(call.Deadline) - time.Second; left < wait {
			wait = max(left, 0) // better the phase it is in than no answer
		}
		_ = call.Park(ctx, func(ctx context.Context) error { return waitFor(ctx, l.done, wait) })
		if r, _, err = s.lookup(call.Principal, p.Run); err != nil {
			return StatusResult{}, err
		}
	}
	result := StatusResult{Result: s.result(r)}
	if r.Mode == ModeRun {
		s.where(ctx, r, &result)
	}
	return result, nil
}

func waitFor(ctx context.Context, done <-chan struct{}, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	case <-ctx.Done():
	}
	return ctx.Err()
}

// where tells the position of a run.
func (s *Service) where(ctx context.Context, r *Record, result *StatusResult) {
	at, err := s.positionOf(ctx, r)
	if err != nil {
		result.Trouble = protocol.AsError(told(err)).Message
		return
	}
	result.Node, result.Completed = at.Node.ID, at.State.StepsCompleted
	result.Variables, result.Decisions, result.Artifacts = at.State.Variables, at.State.DecisionLog, at.State.Artifacts
	for _, e := range at.Next {
		result.Next = append(result.Next, NextStep{To: e.To, Label: e.Label, Default: e.IsDefault, Condition: e.ConditionText})
	}
}

func (s *Service) positionOf(ctx context.Context, r *Record) (*Position, error) {
	p, err := s.library.load(r.Package)
	if err != nil {
		return nil, err
	}
	w := p.Workflow(r.Workflow)
	if w == nil {
		return nil, protocol.Errorf(protocol.NotFound, "the package has no workflow %.100q", r.Workflow)
	}
	state, err := mount.OpenPrivateFolder(s.stateFolder(r.ID))
	if err != nil {
		return nil, err
	}
	defer state.Close()
	text, err := readState(ctx, state)
	if err != nil {
		return nil, err
	}
	return positionIn(w.Graph, text)
}
