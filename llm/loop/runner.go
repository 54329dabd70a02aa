package loop

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/aibridge/aibridge/internal/telemetry/semconv"
	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/llm/model"
	"github.com/aibridge/aibridge/llm/tools"
	"github.com/aibridge/aibridge/protocol"
)

// An Asker sends questions to language models, see [model.Service.Ask].
type Asker interface {
	Ask(ctx context.Context, q model.Question, emit func(chat.Event) error) (*model.Reply, error)
}

// A Selector selects tools by patterns, see [tools.Catalogue].
type Selector interface {
	Select(ctx context.Context, env tools.Environment, patterns []string) (*tools.Toolbox, error)
}

// An Executor runs calls of tools, see [tools.Executor]. It returns a result
// for each, in their order, whatever happens.
type Executor interface {
	Execute(ctx context.Context, box *tools.Toolbox, env tools.Environment, calls []*chat.ToolCall) []tools.Result
}

// Options configure a [Runner].
type Options struct {
	Model    Asker
	Tools    Selector
	Executor Executor
	Limits   Limits
	// Retriever ranks the tools when there are more than may be offered. Optional;
	// without it the words of the tools decide.
	Retriever tools.Retriever

	Agent      string       // name of the bridge as an agent, for spans
	Tracer     trace.Tracer // nil traces nothing
	Log        *slog.Logger
	Now        func() time.Time
	Registerer prometheus.Registerer
}

// A Runner runs loops. It is safe for use by many goroutines.
type Runner struct {
	opts    Options
	limits  Limits
	metrics *metrics

	mu   sync.Mutex
	open map[protocol.Party]int // loops under way
}

// New makes a runner.
func New(o Options) *Runner {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Runner{opts: o, limits: o.Limits.WithDefaults(), metrics: newMetrics(o.Registerer), open: make(map[protocol.Party]int)}
}

// Limits are the bounds of the runner.
func (r *Runner) Limits() Limits { return r.limits }

// A Conversation is the input of a loop: a question to a model, and the tools that the
// model may use.
type Conversation struct {
	model.Question          // its messages end with the user's
	Tools          []string // patterns of names
	MaxRounds      int      // a lower limit of rounds; 0 for that of the runner
	Session        string
	TraceID        string
	Task           string
	Depth          int     // number of enclosing calls of tools, as far as known
	Health         *Health // of the conversation; nil for a new one

	// Tell receives the events of the calls while they run, such as "llm.tool_call" and
	// "llm.tool_result". Optional.
	Tell func(event string, data any)
	// Acted is called before a call of a tool that may do more than read. Optional.
	Acted func()
	Parking
}

// A Turn is the result of a loop.
type Turn struct {
	*model.Reply          // the last one, with usage, cost and time of all; nil after an error
	Tools        *ToolUse // outcome of the tools
	// Messages are the turn's messages for the conversation: answers of the model and,
	// right behind each, the results of its calls. No call lacks its result, even if
	// the turn ended in an error.
	Messages []chat.Message
	// Parked says that the conversation is stored and resumes when a call is approved or
	// refused: there is no reply yet, and no message is to be added.
	Parked bool
	Health Health // of a resumed conversation, after the turn
}

// Converse has the model answer, with as many calls of tools as it needs and
// the limits allow. Emit, unless nil, gets the events of all answers as if they
// were one. With an error, too, the turn has the messages so far.
func (r *Runner) Converse(ctx context.Context, c Conversation, emit func(chat.Event) error) (*Turn, error) {
	if c.Health == nil {
		c.Health = new(Health)
	}
	if c.Health.Locked != "" {
		return new(Turn), protocol.Errorf(protocol.InvalidState, "the conversation is locked until it is reset: %s", c.Health.Locked).With("reason", "locked")
	}
	if c.TraceID == "" {
		c.TraceID = protocol.NewID()
	}
	if len(c.Tools) > 0 {
		env := c.environment(ctx)
		if err := r.begin(env); err != nil {
			return new(Turn), err
		}
		defer r.end(env)
	}
	return r.traced(ctx, &c, func(ctx context.Context) (*Turn, error) {
		run, err := r.newRun(ctx, c, emit)
		if err != nil {
			return new(Turn), err
		}
		err = run.all(ctx)
		r.metrics.done(run.use, err)
		return run.turn, withUse(err, run.use)
	})
}

// environment returns the environment of the conversation's calls of tools.
func (c *Conversation) environment(ctx context.Context) tools.Environment {
	return tools.Environment{
		Principal: c.Principal, Space: c.Space, Skill: c.Skill, Session: c.Session, TraceID: c.TraceID, Task: c.Task, Traceparent: semconv.Traceparent(ctx), Depth: c.Depth,
		Parks: c.Park != nil, Patience: c.Patience,
	}
}

// newRun returns the run of a conversation, with its tools selected.
func (r *Runner) newRun(ctx context.Context, c Conversation, emit func(chat.Event) error) (*run, error) {
	env := c.environment(ctx)
	box, err := r.opts.Tools.Select(ctx, env, c.Tools)
	if err != nil {
		return nil, err
	}
	u := &run{Runner: r, Conversation: c, env: env, box: box, limits: r.limits, turn: &Turn{}, use: ToolUse{Calls: []ToolReport{}}, stream: stream{emit: emit}}
	if c.MaxRounds > 0 {
		u.limits.Rounds = min(u.limits.Rounds, c.MaxRounds)
	}
	u.watch = newWatch(u.limits, c.Health)
	return u, nil
}

// withUse adds the use of tools until then to an error: devices may have acted.
func withUse(err error, use ToolUse) error {
	e, ok := errors.AsType[*protocol.Error](err)
	if !ok || len(use.Calls) == 0 {
		return err
	}
	told := *e // others may have got the same error
	told.Details = maps.Clone(e.Details)
	return told.With("tools", use)
}

// begin counts a loop, or refuses one too many. The depth of a loop is known
// only for calls that come from tools of the bridge. An agent that asks a model
// to answer a call of its skill is bounded by its number of loops at once.
func (r *Runner) begin(env tools.Environment) error {
	if env.Depth >= r.limits.Depth {
		return protocol.Errorf(protocol.LimitReached, "models have called each other %d times", env.Depth).
			With("limit", r.limits.Depth).With("reason", "call_depth")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	key := env.Principal.Party()
	if r.open[key] >= r.limits.Running {
		return protocol.BusyFor(time.Second, "too many answers with tools are under way for you").
			With("limit", r.limits.Running).With("reason", "running_loops")
	}
	r.open[key]++
	return nil
}

// end releases the place of a loop.
func (r *Runner) end(env tools.Environment) {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := env.Principal.Party()
	if r.open[key]--; r.open[key] == 0 {
		delete(r.open, key)
	}
}
