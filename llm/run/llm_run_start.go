package run

import (
	"cmp"
	"context"
	"errors"
	"strings"

	"github.com/google/uuid"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/llm/parked"
	"github.com/aibridge/aibridge/llm/run/frontmatter"
	"github.com/aibridge/aibridge/llm/run/pack"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/protocol/grant"
)

var start = commands.Spec{
	Name:    "llm.run.start",
	Summary: "Start a workflow, or a conversation with an agent or a model.",
	Effect:  commands.Act,
	Traced:  true,
	Action:  "llm:run",
	Errors:  []protocol.Code{protocol.NotFound, protocol.LimitReached, protocol.VFSPermission, protocol.PermissionDenied, protocol.Busy},
	Example: `{"package":"climate-check","project":"home","variables":{"room":"bedroom"},"tools":["thermostat-go.*"]}`,
}

// StartParams are the params of llm.run.start.
type StartParams struct {
	Package   string             `json:"package,omitempty" len:"1-300" audit:"yes" doc:"name of a package, or name@version; needed but for a chat"`
	Workflow  string             `json:"workflow,omitempty" len:"1-1024" audit:"yes" doc:"one of the package's workflows, the first by default"`
	Mode      Mode               `json:"mode,omitempty" enum:"run,agent,chat" audit:"yes" doc:"run executes the workflow, agent talks to an agent of the package, chat to the model alone; run by default, chat without a package"`
	Agent     string             `json:"agent,omitempty" len:"1-200" audit:"yes" doc:"one of the package's agents: the partner of a conversation, or the actor of steps without an agent; the first by default"`
	Project   protocol.GroupName `json:"project,omitempty" doc:"group of files, or a folder that the operator has given a name, that is the run's @project; a group of its own by default"`
	Input     *string            `json:"input,omitempty" len:"0-1000000" doc:"the user's first words"`
	Variables map[string]any     `json:"variables,omitempty" doc:"variables to start the workflow with"`
	Tools     []string           `json:"tools,omitempty" len:"0-100" audit:"yes" doc:"patterns of the bridge's tools that the run may use, such as thermostat.*; by default those that its package names, in a chat all that its starter may use; commands must be named"`
	Autopilot bool               `json:"autopilot,omitempty" doc:"have the model decide instead of asking the user where it can"`
	Model     string             `json:"model,omitempty" len:"1-128" audit:"yes" doc:"name or alias of a language model"`
	Skill     protocol.SkillID   `json:"skill_id,omitempty" doc:"the skill on whose behalf it runs: the caller's, or one it may act for"`
	MaxTurns  int                `json:"max_turns,omitempty" range:"1-200" doc:"number of questions to the model without a word of the user; 20 by default"`
	Expires   int64              `json:"approval_expires_ms,omitempty" range:"1000-7776000000" doc:"time until the approval of a call expires; the model then learns that the call was not approved, and continues without it; the bridge's setting if absent, or if that is less"`
	Stream    bool               `json:"deltas,omitempty" doc:"send run.delta events while answers are written"`
}

// Target implements [commands.Targeter].
func (p StartParams) Target() commands.Resource {
	return commands.Resource{Type: "llm", ID: "run"}
}

// A Result is a run in the results for callers.
type Result struct {
	ID        string               `json:"run_id" doc:"id of the run"`
	Phase     Phase                `json:"phase" enum:"Running,WaitingUser,WaitingApproval,Completed,Failed" doc:"state of the run; WaitingApproval: a call waits for an approval, after which the run continues by itself"`
	Mode      Mode                 `json:"mode" enum:"run,agent,chat" doc:"kind"`
	Package   string               `json:"package,omitempty" doc:"the package, name@version"`
	Workflow  string               `json:"workflow,omitempty" doc:"the workflow"`
	Agent     string               `json:"agent,omitempty" doc:"the agent"`
	Project   string               `json:"project" doc:"folder that its @project is"`
	Code      string               `json:"stop_reason,omitempty" doc:"code of the stop, ENGINE_… or LLM_…; absent if the run completed or has a question"`
	Reason    string               `json:"reason,omitempty" doc:"the same in words"`
	Message   string               `json:"message,omitempty" doc:"last words of the model"`
	Questions []Question           `json:"questions,omitempty" doc:"question to the user"`
	Waiting   *parked.WaitingEvent `json:"waiting,omitempty" doc:"in WaitingApproval: the task and the approval"`
	Model     string               `json:"model,omitempty" doc:"the language model that was asked for; absent for the default one"`
	Autopilot bool                 `json:"autopilot,omitempty" doc:"the model decides instead of asking the user where it can"`
	Turns     int                  `json:"turns" doc:"number of questions to the model"`
	Tokens    int                  `json:"tokens" doc:"tokens of all questions and answers"`
	Cost      float64              `json:"cost" doc:"of all answers, in the currency of the configured prices"`
	TraceID   string               `json:"trace_id,omitempty" doc:"trace id of its approvals and audit records"`
	Space     string               `json:"space_id" doc:"space of the principal that started it"`
	Owner     string               `json:"principal" doc:"principal that started it"`
	Started   int64                `json:"started_at" doc:"Unix milliseconds"`
	Changed   int64                `json:"changed_at" doc:"time at which its phase changed, Unix milliseconds"`
}

func (s *Service) result(r *Record) Result {
	said := s.said(r)
	var waits *parked.WaitingEvent
	if r.Phase == WaitingApproval {
		waits = r.Waits.event(r.ID)
	}
	return Result{
		Waiting: waits,
		ID:      r.ID, Phase: r.Phase, Mode: r.Mode, Package: r.packageID(), Workflow: r.Workflow, Agent: r.Agent, Project: r.Project, Code: string(r.Code), Reason: r.Reason,
		Message: said.Message, Questions: said.Questions, Turns: r.Turns, Owner: r.Owner.ID,
		Model: r.Model, Autopilot: r.Autopilot, Tokens: r.Tokens, Cost: r.Cost, TraceID: r.TraceID, Space: string(r.Owner.Party().Space),
		Started: r.Started.UnixMilli(), Changed: r.Changed.UnixMilli(),
	}
}

// Start starts a run and returns while it runs.
func (s *Service) Start(ctx context.Context, call *commands.Call, p StartParams) (Result, error) {
	if p.Skill != "" && s.opts.MayActFor != nil {
		if err := s.opts.MayActFor(ctx, call, string(p.Skill)); err != nil {
			return Result{}, err
		}
	}
	if err := s.roomFor(call.Principal); err != nil {
		return Result{}, err
	}
	l, err := s.reserveNew(ctx, call, &p)
	if err != nil {
		return Result{}, err
	}
	r := l.now()
	o, err := s.prepare(ctx, r, p.Variables)
	if err != nil {
		s.release(l)
		_ = s.shelf.forget(ctx, r.ID)
		return Result{}, told(err)
	}
	return s.begin(ctx, l, o, word{intent: IntentStart, input: p.Input})
}

// reserveNew reserves a new run, and with it its package.
func (s *Service) reserveNew(ctx context.Context, call *commands.Call, p *StartParams) (*live, error) {
	s.refer.RLock()
	defer s.refer.RUnlock()
	r, err := s.draft(ctx, call, p)
	if err != nil {
		return nil, err
	}
	return s.reserve(r, 0)
}

// roomFor returns an error if a principal, or the bridge, has too many runs.
func (s *Service) roomFor(who *protocol.Principal) error {
	if s.opts.Runs.Len() < s.opts.MaxRuns/4 {
		return nil
	}
	own := 0
	for _, r := range s.opts.Runs.All() {
		if r.Owner.By(who) {
			own++
		}
	}
	if own >= s.opts.MaxRuns/4 || s.opts.Runs.Len() >= s.opts.MaxRuns {
		return protocol.Errorf(protocol.LimitReached, "too many runs are kept; those at rest go after a while").With("limit", s.opts.MaxRuns/4)
	}
	return nil
}

// draft returns the record of a new run.
func (s *Service) draft(ctx context.Context, call *commands.Call, p *StartParams) (*Record, error) {
	id, err := uuid.NewV7() // grows with time, which is the order of llm.run.list
	if err != nil {
		return nil, err
	}
	now := s.opts.Now().UTC()
	r := &Record{
		ID: id.String(), Owner: grant.Of(call.Principal), Mode: p.Mode, Project: cmp.Or(string(p.Project), "run-"+id.String()),
		Skill: p.Skill, Model: p.Model, Tools: p.Tools, Autopilot: p.Autopilot, Stream: p.Stream, MaxTurns: p.MaxTurns, Expires: p.Expires,
		TraceID: call.TraceID, Phase: Running, Started: now, Changed: now,
	}
	if p.Package == "" {
		if p.Mode != "" && p.Mode != ModeChat {
			return nil, protocol.InvalidParam("package", "is needed")
		}
		r.Mode = ModeChat
		return r, nil
	}
	about, err := s.packageNamed(call.Principal.Home(), p.Package)
	if err != nil {
		return nil, err
	}
	r.Package, r.Name, r.Version = about.SHA256, about.Name, about.Version
	r.Mode = cmp.Or(p.Mode, ModeRun)
	read, err := s.library.load(ctx, r.Package)
	if err != nil {
		return nil, told(err)
	}
	return r, s.cast(r, read.Package, p)
}

// cast sets the workflow and the agent of a run.
func (s *Service) cast(r *Record, read *pack.Package, p *StartParams) error {
	switch {
	case r.Mode == ModeRun:
		w := read.Workflow(p.Workflow)
		if w == nil {
			return protocol.InvalidParam("workflow", "is none of the package's: "+strings.Join(workflowNames(read), ", "))
		}
		r.Workflow = cmp.Or(w.ID, w.WorkflowEntry.Workflow)
	case p.Workflow != "":
		return protocol.InvalidParam("workflow", "is for the mode run")
	}
	if r.Mode == ModeChat {
		return nil
	}
	agent := p.Agent
	if agent == "" && len(read.Agents) > 0 {
		agent = read.Agents[0].ID
	}
	if agent != "" && read.Agent(agent) == nil {
		return protocol.InvalidParam("agent", "is none of the package's")
	}
	r.Agent = agent
	return nil
}

func workflowNames(p *pack.Package) []string {
	names := make([]string, len(p.Workflows))
	for i, w := range p.Workflows {
		names[i] = cmp.Or(w.ID, w.WorkflowEntry.Workflow)
	}
	return names
}

// prepare opens a new run, with its workflow at the beginning.
func (s *Service) prepare(ctx context.Context, r *Record, variables map[string]any) (*opened, error) {
	if err := s.shelf.make(r.ID); err != nil {
		return nil, err
	}
	o, err := s.open(ctx, r, 0)
	if err != nil {
		return nil, err
	}
	if err := s.atTheBeginning(ctx, o.workspace, variables); err != nil {
		return nil, errors.Join(err, o.close())
	}
	return o, nil
}

// atTheBeginning writes the workflow.md of a workflow at its beginning.
func (s *Service) atTheBeginning(ctx context.Context, w *workspace, variables map[string]any) error {
	if w.workflow == nil {
		return nil
	}
	text := w.workflow.Text
	doc, err := frontmatter.Parse(text)
	if err != nil {
		return err
	}
	update := frontmatter.Update{UpdatedAt: &frontmatter.SetValue{Set: s.opts.Now().UTC().Format("2006-01-02T15:04:05Z")}}
	if len(variables) > 0 {
		update.Variables = &frontmatter.SetMap{Set: variables}
	}
	if text, err = doc.Apply(update); err != nil {
		return err
	}
	if _, err := positionIn(w.workflow.Graph, text); err != nil {
		return err
	}
	return writeState(ctx, w.mounts.State, text)
}

// begin continues a run with the input of its user. For an agent, the input may be an
// item of its menu.
func (s *Service) begin(ctx context.Context, l *live, o *opened, w word) (Result, error) {
	r := l.now()
	if r.Mode == ModeAgent || r.Mode == ModeChat {
		answer, err := s.receive(ctx, l, o, &w)
		if err != nil {
			s.close(l, o)
			s.release(l)
			return Result{}, told(err)
		}
		if answer != nil {
			s.close(l, o)
			s.settle(l, *answer, len(o.story.turns))
			return s.result(l.now()), nil
		}
	}
	if err := s.launch(ctx, l, o, w); err != nil {
		return Result{}, err
	}
	return s.result(l.now()), nil
}

// receive handles the input to an agent. It returns a stop for an input that needs no
// model, or changes the word to the input for the model.
func (s *Service) receive(ctx context.Context, l *live, o *opened, w *word) (*Stop, error) {
	a := o.workspace.active
	if w.input == nil && unanswered(w.talk) {
		return nil, nil
	}
	if w.input == nil {
		if a == nil {
			return &Stop{Phase: WaitingUser}, nil
		}
		return &Stop{Phase: WaitingUser, Message: menuText(a, nil)}, nil
	}
	if a == nil || l.now().Mode == ModeChat || len(a.Menu) == 0 {
		return nil, nil
	}
	to := route(a, *w.input)
	switch {
	case to.menu:
		return &Stop{Phase: WaitingUser, Message: menuText(a, nil)}, nil
	case to.offers != nil:
		return &Stop{Phase: WaitingUser, Message: menuText(a, to.offers)}, nil
	case to.item == nil:
		return nil, nil
	case to.item.Workflow != "":
		return s.enterWorkflow(ctx, l, o, w, to.item)
	}
	said := order(a, to.item)
	w.input = &said
	return nil, nil
}

// unanswered reports whether the last message is not the model's.
func unanswered(talk []chat.Message) bool {
	return len(talk) > 0 && talk[len(talk)-1].Role != chat.Assistant
}

// enterWorkflow turns a conversation with an agent into the run of a workflow of its
// menu.
func (s *Service) enterWorkflow(ctx context.Context, l *live, o *opened, w *word, item *pack.MenuItem) (*Stop, error) {
	flow := o.workspace.pkg.WorkflowOf(item)
	if flow == nil {
		return &Stop{Phase: WaitingUser, Message: "The package does not have the workflow of this item."}, nil
	}
	r := *l.now()
	r.Mode, r.Workflow = ModeRun, cmp.Or(flow.ID, flow.WorkflowEntry.Workflow)
	o.workspace.mode, o.workspace.workflow = ModeRun, flow
	if err := s.atTheBeginning(ctx, o.workspace, nil); err != nil {
		return nil, err
	}
	l.mu.Lock()
	l.record = &r
	l.mu.Unlock()
	w.intent, w.input, w.talk = IntentStart, nil, nil
	return nil, nil
}
