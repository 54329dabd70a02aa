package loop

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/aibridge/aibridge/llm/approval"
	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/llm/model"
	"github.com/aibridge/aibridge/llm/parked"
	"github.com/aibridge/aibridge/llm/tools"
	"github.com/aibridge/aibridge/protocol"
)

// A Parking stores conversations in which a call waits for an approval, see package
// parked. Nil functions store nothing.
type Parking struct {
	// Park stores a conversation until the question is settled. Its error becomes the
	// result of the call for the model. Like Keep, it must not retain the state.
	Park func(ctx context.Context, q *tools.Question, s *State) error
	// Keep stores the state of a conversation that was parked before, both before and
	// after each of its calls; acts is true before. After an error that
	// [parked.TooMuch] reports, a shorter state can still be stored.
	Keep func(ctx context.Context, s *State, acts bool) error
	// Start precedes the run of the call that waited. It stores nothing, since the use
	// of the approval is stored. Its error is one that [parked.TooMuch] reports if the
	// state leaves no room for the outcome.
	Start func() error
	// UsedAt is the time at which an approval was used for its call, in Unix ms, 0 if
	// it was not.
	UsedAt func(approval string) int64
	// Edited is the change that deciders made to the call of an approval, nil for none.
	// A nil function is one that returns nil.
	Edited func(approval string) *approval.Edited
	// Young reports whether the bridge has just started, so that devices may not have
	// reconnected yet. Nil reports false.
	Young func() bool
	// Patience is the time until an approval expires; 0 for the bridge's setting.
	Patience time.Duration
}

// errParked is the error of a run that was parked.
var errParked = errors.New("the conversation waits for an approval")

// A State is the stored form of a conversation in the middle of a round of calls:
// everything needed to resume it, except the principal.
type State struct {
	Space     protocol.SpaceID `json:"space,omitempty"`
	Skill     protocol.SkillID `json:"skill,omitempty"`
	Model     string           `json:"model,omitempty"`
	Said      []chat.Message   `json:"said"` // the conversation before the turn, and the user's message
	Options   chat.Options     `json:"options"`
	Tools     []string         `json:"tools,omitempty"`
	MaxRounds int              `json:"max_rounds,omitempty"`
	Session   string           `json:"session,omitempty"`
	TraceID   string           `json:"trace_id,omitempty"`
	Depth     int              `json:"depth,omitempty"`
	Health    Health           `json:"health,omitzero"`
	Streams   bool             `json:"streams,omitempty"`
	Patience  time.Duration    `json:"patience,omitempty"`

	Messages []chat.Message `json:"messages"` // of the turn
	Usage    chat.Usage     `json:"usage"`
	Cost     float64        `json:"cost,omitempty"`
	Took     time.Duration  `json:"took,omitempty"`
	Use      ToolUse        `json:"use"`
	Last     *model.Reply   `json:"last,omitempty"`
	Row      int            `json:"row,omitempty"`
	Failures Failures       `json:"failures,omitzero"`
	Step     step           `json:"step"`
}

// CallAlone is the state of a single call that waits, without a conversation.
func CallAlone(c *chat.ToolCall, env tools.Environment) *State {
	return &State{
		Space: env.Space, Skill: env.Skill, Tools: []string{c.Name}, Session: env.Session, TraceID: env.TraceID, Depth: env.Depth,
		Patience: env.Patience, Use: ToolUse{Calls: []ToolReport{}},
		Step: step{Calls: []*chat.ToolCall{c}, Last: true, Waits: c.ID},
	}
}

// park stores the run at a call that needs an approval. A call that cannot be stored
// fails, and the round goes on.
func (u *run) park(ctx context.Context, q *tools.Question) error {
	err := u.Park(ctx, q, u.state())
	if err == nil {
		u.turn.Parked = true
		return errParked
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	for i, c := range u.step.Calls {
		if c.ID == u.step.Waits {
			known := protocol.AsError(err)
			u.step.Outcomes[i] = outcomeOf(&tools.Result{
				CallID: c.ID, Name: c.Name, Arguments: c.Args, Status: tools.Failed, Err: known,
				Text: "Error: " + known.Message + " (code " + string(known.Code) + ")",
			})
		}
	}
	u.step.Waits = ""
	return nil
}

// state is the stored form of the run. It shares memory with the run, so it is valid
// until the run continues.
func (u *run) state() *State {
	return &State{
		Space: u.Space, Skill: u.Skill, Model: u.Model, Said: u.Request.Messages, Options: u.Request.Options,
		Tools: u.Tools, MaxRounds: u.MaxRounds, Session: u.Session, TraceID: u.TraceID, Depth: u.Depth, Health: *u.Health,
		Streams: u.stream.emit != nil, Patience: u.Patience,
		Messages: u.turn.Messages, Usage: u.usage, Cost: u.cost, Took: u.took, Use: u.use, Last: u.last,
		Row: u.watch.row, Failures: u.watch.failed, Step: u.step,
	}
}

// A Resumption holds the inputs of [Runner.Resume] besides the state.
type Resumption struct {
	Principal *protocol.Principal // with its current rights
	Task      string              // id of the parked task
	Approval  string              // id of the settled approval
	Tell      func(event string, data any)
	Parking
}

// Resume continues a parked conversation: the waiting call is run, or its refusal
// becomes its result, and the model is asked again. The returned turn also holds the
// rounds before the pause.
func (r *Runner) Resume(ctx context.Context, s *State, by Resumption, emit func(chat.Event) error) (*Turn, error) {
	by.Patience = s.Patience
	c := Conversation{
		Question: model.Question{
			Principal: by.Principal, Space: s.Space, Skill: s.Skill, Model: s.Model,
			Request: chat.Request{Messages: s.Said, Options: s.Options},
		},
		Tools: s.Tools, MaxRounds: s.MaxRounds, Session: s.Session, TraceID: s.TraceID, Task: by.Task, Depth: s.Depth,
		Health: &Health{Recent: slices.Clone(s.Health.Recent), Locked: s.Health.Locked}, Tell: by.Tell, Parking: by.Parking,
	}
	return r.traced(ctx, &c, func(ctx context.Context) (*Turn, error) {
		u, err := r.newRun(ctx, c, emit)
		if err != nil {
			return new(Turn), err
		}
		u.approval = by.Approval
		u.restore(s)
		err = u.goOn(ctx)
		u.turn.Health = *u.Health
		r.metrics.done(u.use, err)
		return u.turn, withUse(err, u.use)
	})
}

// restore sets a run to a stored state.
func (u *run) restore(s *State) {
	u.turn.Messages = slices.Clip(s.Messages)
	u.usage, u.cost, u.took, u.use, u.last, u.step = s.Usage, s.Cost, s.Took, s.Use, s.Last, s.Step
	u.watch.row, u.watch.failed = s.Row, s.Failures
	u.step.Outcomes = slices.Clone(u.step.Outcomes)
	if u.step.Outcomes == nil {
		u.step.Outcomes = make([]*outcome, len(u.step.Calls))
	}
}

// goOn runs the rest of a restored run.
func (u *run) goOn(ctx context.Context) error {
	ctx, cancel := u.limited(ctx)
	defer cancel()
	u.request = u.Request
	u.request.Messages = slices.Concat(u.Request.Messages, u.turn.Messages[:max(len(u.turn.Messages)-1, 0)])
	u.request.Tools = u.offer(ctx)
	u.ids = idsOf(slices.Concat(u.Request.Messages, u.turn.Messages))
	again, err := u.act(ctx)
	if err == nil && again {
		err = Drive(ctx, u, 0)
	}
	return u.ended(ctx, err)
}

// Trace is the trace id of the conversation.
func (s *State) Trace() string { return s.TraceID }

// A Resumer resumes parked conversations. A [Runner] is one.
type Resumer interface {
	Resume(ctx context.Context, s *State, by Resumption, emit func(chat.Event) error) (*Turn, error)
}

// Continue resumes the conversation of a job. Kept wraps a state of the loop in the
// job's own state; nil stores the state of the loop alone. The error is
// [parked.ErrParked] if the conversation waits again.
func Continue(ctx context.Context, r Resumer, job *parked.Job, s *State, kept func(*State) any) (*Turn, error) {
	if kept == nil {
		kept = func(s *State) any { return s }
	}
	var emit func(chat.Event) error
	if s.Streams {
		emit = func(e chat.Event) error {
			job.Tell("llm.delta", e)
			return nil
		}
	}
	waits := false
	turn, err := r.Resume(ctx, s, Resumption{
		Principal: job.Principal, Task: string(job.Task()), Approval: job.Approval(), Tell: job.Tell,
		Parking: Parking{
			Keep:  func(ctx context.Context, s *State, acts bool) error { return job.Keep(ctx, kept(s), acts) },
			Start: job.Start, UsedAt: job.UsedAt, Edited: job.Edited, Young: job.Young,
			Park: func(ctx context.Context, q *tools.Question, s *State) error {
				err := job.Park(ctx, q, kept(s))
				waits = err == nil
				return err
			},
		},
	}, emit)
	if waits {
		return nil, parked.ErrParked
	}
	return turn, err
}
