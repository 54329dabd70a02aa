package run

import (
	"context"
	"time"

	"github.com/aibridge/aibridge/commands"
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
	Wait int    `json:"wait_ms,omitempty" range:"0-600000" doc:"answer when it is at rest, when one that waits for an approval goes on, or after so many milliseconds"`

	Graph bool `json:"graph,omitempty" doc:"show all steps of the workflow, and the ways between them"`
}

// Target implements [commands.Targeter].
func (p StatusParams) Target() commands.Resource { return commands.Resource{Type: "llm", ID: "run"} }

// StatusResult is a run and where it is.
type StatusResult struct {
	Result
	Node      string              `json:"current_node_id,omitempty" doc:"step it is in"`
	Completed []string            `json:"steps_completed,omitempty" doc:"steps that are done"`
	Next      []NextStep          `json:"allowed_next,omitempty" doc:"steps to which it can go from there"`
	Variables map[string]any      `json:"variables,omitempty" doc:"variables of the workflow"`
	Decisions []pack.LoggedChoice `json:"decision_log,omitempty" doc:"decisions that were taken"`
	Artifacts []string            `json:"artifacts,omitempty" doc:"files that were made"`
	Graph     *Graph              `json:"graph,omitempty" doc:"the steps of the workflow, if requested"`
	Trouble   string              `json:"state_error,omitempty" doc:"reason why these fields cannot be given"`
}

// A Graph holds the steps of a workflow and the edges between them.
type Graph struct {
	Entry string `json:"entry_node_id" doc:"step it begins with"`
	Nodes []Node `json:"nodes" doc:"its steps"`
	Edges []Edge `json:"edges" doc:"the ways between them"`
}

// A Node is a step of a workflow.
type Node struct {
	ID    string        `json:"id" doc:"the step"`
	Type  pack.NodeType `json:"type" doc:"step, decision, merge, end or subworkflow"`
	Title string        `json:"title,omitempty" doc:"name"`
	About string        `json:"description,omitempty" doc:"work done there"`
	Agent string        `json:"agent_id,omitempty" doc:"the agent that acts there; absent for that of the run"`
}

// An Edge is an edge from one step to another.
type Edge struct {
	From string `json:"from" doc:"the step it begins at"`
	NextStep
}

// A NextStep is a step that a run can go to next.
type NextStep struct {
	To        string `json:"to" doc:"the step"`
	Label     string `json:"label" doc:"the way there"`
	Default   bool   `json:"is_default,omitempty" doc:"the step by default"`
	Condition string `json:"condition_text,omitempty" doc:"condition for going there"`
}

// Status returns the status of a run.
func (s *Service) Status(ctx context.Context, call *commands.Call, p StatusParams) (StatusResult, error) {
	if _, _, err := s.lookup(call.Principal, p.Run); err != nil {
		return StatusResult{}, err
	}
	wait := time.Duration(p.Wait) * time.Millisecond
	if left := time.Until(call.Deadline) - time.Second; left < wait {
		wait = max(left, 0) // the current phase instead of a timeout
	}
	until := time.Now().Add(wait)
	for {
		r, l, err := s.lookup(call.Principal, p.Run)
		if err != nil {
			return StatusResult{}, err
		}
		p.Wait = max(int(time.Until(until)/time.Millisecond), 0)
		if l == nil && r.Phase == WaitingApproval && p.Wait > 0 {
			_ = call.Park(ctx, func(ctx context.Context) error { return s.awaitDecision(ctx, p.Run, until) })
			until = time.Now() // the change ends the wait
			continue
		}
		if l != nil || !s.isElsewhere(r) {
			if l != nil && p.Wait > 0 {
				_ = call.Park(ctx, func(ctx context.Context) error { return waitFor(ctx, l.done, time.Until(until)) })
			}
			return s.statusHere(ctx, p)
		}
		var there StatusResult
		err = call.Park(ctx, func(ctx context.Context) error { return s.opts.Elsewhere(ctx, r.Node, errandStatus, p, &there) })
		switch {
		case err == nil || !unreachable(err):
			return there, err
		case p.Wait == 0: // another bridge will resume it; the last stored state
			return s.statusHere(ctx, p)
		}
		_ = call.Park(ctx, func(ctx context.Context) error { return waitFor(ctx, nil, min(time.Until(until), lookAgain)) })
	}
}

// lookAgain is the interval of looks at a run whose bridge has ended, until another one
// has taken it over.
const lookAgain = 250 * time.Millisecond

// statusHere returns the status of a run by the knowledge of this process.
func (s *Service) statusHere(ctx context.Context, p StatusParams) (StatusResult, error) {
	l := s.find(p.Run)
	r, revision, ok := s.opts.Runs.Get(p.Run)
	switch {
	case l != nil:
		r = l.now()
	case !ok:
		return StatusResult{}, noRun(p.Run)
	case r.Phase == Running:
		revision = 0 // the files change without a new revision
	}
	result := StatusResult{Result: s.result(r)}
	if r.Mode == ModeRun {
		s.where(ctx, r, l != nil, revision, &result)
		if p.Graph {
			s.draw(ctx, r, &result)
		}
	}
	return result, nil
}

// awaitDecision waits until a run that waits for an approval changes.
func (s *Service) awaitDecision(ctx context.Context, id string, until time.Time) error {
	changed, leave := s.attend(id)
	defer leave()
	if r, _, ok := s.opts.Runs.Get(id); !ok || r.Phase != WaitingApproval {
		return nil
	}
	return waitFor(ctx, changed, time.Until(until))
}

// draw adds the graph of a run's workflow to the status.
func (s *Service) draw(ctx context.Context, r *Record, result *StatusResult) {
	w, err := s.workflow(ctx, r)
	if err != nil {
		result.Trouble = protocol.AsError(told(err)).Message
		return
	}
	g := &Graph{Entry: w.Graph.EntryNodeID, Nodes: make([]Node, len(w.Graph.Nodes)), Edges: make([]Edge, len(w.Graph.Edges))}
	for i, n := range w.Graph.Nodes {
		g.Nodes[i] = Node{ID: n.ID, Type: n.Type, Title: n.Title, About: n.Description, Agent: n.AgentID}
	}
	for i, e := range w.Graph.Edges {
		g.Edges[i] = Edge{From: e.From, NextStep: nextStep(&e)}
	}
	result.Graph = g
}

func nextStep(e *pack.Edge) NextStep {
	return NextStep{To: e.To, Label: e.Label, Default: e.IsDefault, Condition: e.ConditionText}
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

// where adds the position of a run to the status.
func (s *Service) where(ctx context.Context, r *Record, live bool, revision uint64, result *StatusResult) {
	at, err := s.positionOf(ctx, r, live, revision)
	if err != nil {
		result.Trouble = protocol.AsError(told(err)).Message
		return
	}
	result.Node, result.Completed = at.Node.ID, at.State.StepsCompleted
	result.Variables, result.Decisions, result.Artifacts = at.State.Variables, at.State.DecisionLog, at.State.Artifacts
	for _, e := range at.Next {
		result.Next = append(result.Next, nextStep(&e))
	}
}

func (s *Service) positionOf(ctx context.Context, r *Record, live bool, revision uint64) (*Position, error) {
	w, err := s.workflow(ctx, r)
	if err != nil {
		return nil, err
	}
	text, err := s.shelf.text(ctx, r.ID, live, revision)
	if err != nil {
		return nil, err
	}
	return positionIn(w.Graph, text)
}

func (s *Service) workflow(ctx context.Context, r *Record) (*pack.Workflow, error) {
	p, err := s.library.load(ctx, r.Package)
	if err != nil {
		return nil, err
	}
	w := p.Workflow(r.Workflow)
	if w == nil {
		return nil, protocol.Errorf(protocol.NotFound, "the package has no workflow %.100q", r.Workflow)
	}
	return w, nil
}
