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

	Graph bool `json:"graph,omitempty" doc:"show all steps of the workflow, and the ways between them"`
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
	Graph     *Graph              `json:"graph,omitempty" doc:"the steps of the workflow, if they were asked for"`
	Trouble   string              `json:"state_error,omitempty" doc:"why none of these can be told"`
}

// A Graph is what a workflow is made of.
type Graph struct {
	Entry string `json:"entry_node_id" doc:"step it begins with"`
	Nodes []Node `json:"nodes" doc:"its steps"`
	Edges []Edge `json:"edges" doc:"the ways between them"`
}

// A Node is a step of a workflow.
type Node struct {
	ID    string        `json:"id" doc:"the step"`
	Type  pack.NodeType `json:"type" doc:"step, decision, merge, end or subworkflow"`
	Title string        `json:"title,omitempty" doc:"what it is called"`
	About string        `json:"description,omitempty" doc:"what is done there"`
	Agent string        `json:"agent_id,omitempty" doc:"the agent that acts there; absent for that of the run"`
}

// An Edge is a way from one step to another.
type Edge struct {
	From string `json:"from" doc:"the step it begins at"`
	NextStep
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
		if p.Graph {
			s.draw(r, &result)
		}
	}
	return result, nil
}

// draw tells the steps of a run's workflow.
func (s *Service) draw(r *Record, result *StatusResult) {
	w, err := s.workflow(r)
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
		result.Next = append(result.Next, nextStep(&e))
	}
}

func (s *Service) positionOf(ctx context.Context, r *Record) (*Position, error) {
	w, err := s.workflow(r)
	if err != nil {
		return nil, err
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

func (s *Service) workflow(r *Record) (*pack.Workflow, error) {
	p, err := s.library.load(r.Package)
	if err != nil {
		return nil, err
	}
	w := p.Workflow(r.Workflow)
	if w == nil {
		return nil, protocol.Errorf(protocol.NotFound, "the package has no workflow %.100q", r.Workflow)
	}
	return w, nil
}
