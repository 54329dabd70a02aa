package a2a

import (
	"cmp"
	"context"
	"encoding/json"
	"iter"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/commands/task"
	"github.com/aibridge/aibridge/internal/fair"
	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/llm/tools"
	"github.com/aibridge/aibridge/llm/tools/bridge"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/protocol/grant"
)

// Name marks calls by this door, unless its options name another.
const Name = "a2a"

// Command is the command name of the tasks of messages.
const Command = "a2a.message"

// Tasks stores the tasks of messages. *task.Service is one.
type Tasks interface {
	Converse(ctx context.Context, call *commands.Call, d task.Dialogue, do func(context.Context) (json.RawMessage, error)) (protocol.TaskID, error)
	Standing(who *protocol.Principal, id protocol.TaskID) (*task.Standing, error)
	Standings(who *protocol.Principal) iter.Seq[*task.Standing]
	Dialogues() iter.Seq[*task.Standing]
	Ended(id protocol.TaskID) <-chan struct{}
	Note(ctx context.Context, id protocol.TaskID, edit func(json.RawMessage) (json.RawMessage, error)) error
}

// A Keeper parks calls that need an approval. *loop.Calls is one.
type Keeper interface {
	Park(ctx context.Context, env tools.Environment, c *chat.ToolCall, q *tools.Question) (protocol.TaskID, error)
}

// Skills holds the sets of skills that a principal may use. *bridge.Skills is one.
type Skills interface {
	Skill(ctx context.Context, env tools.Environment, id protocol.SkillID) (*bridge.Skill, error)
	All(ctx context.Context, env tools.Environment) []*bridge.Skill
}

// A Router runs commands.
type Router interface {
	Handle(ctx context.Context, in commands.Inbound) *protocol.Response
}

// Options configure a [Door]. All but the last are needed.
type Options struct {
	Name      string // marks calls, default [Name]
	Catalogue *tools.Catalogue
	Executor  *tools.Executor
	Keeper    Keeper
	Skills    Skills
	Tasks     Tasks
	Router    Router
	// Authorize returns the error of a principal that may not do an action.
	Authorize func(ctx context.Context, who *protocol.Principal, action string, on commands.Resource) error
	// MayDecideOwn reports whether a principal may decide about calls made for itself.
	MayDecideOwn func(who *protocol.Principal) bool
	// HasModel reports whether there is a language model for a space.
	HasModel func(protocol.SpaceID) bool
	// Authenticate yields the sender of a request. Its error, one of the protocol's, goes
	// to the caller.
	Authenticate func(*http.Request) (*protocol.Principal, error)
	// Elsewhere reports whether a set of skills is an agent elsewhere, which takes texts
	// itself; optional.
	Elsewhere func(space protocol.SpaceID, skill protocol.SkillID) bool
	Grants    grant.Authority
	// Transport reaches the receivers of push notifications. Nil: none are sent.
	Transport *http.Transport
	// Refuses returns the reason why a URL may not be called, or "".
	Refuses func(url string) string
	// Node is the name of this process among those that send notifications about the
	// same tasks.
	Node string
	// Heir returns a function that reports whether this process sends the notifications
	// of a task in place of a node that has ended.
	Heir func(ctx context.Context) (func(node, thing string) bool, error)

	URL         string // public URL of the endpoint; that of the request when empty
	BridgeID    string
	Version     string
	MaxBytes    int             // of one request, default 1 MiB
	MaxRequests int             // concurrent requests and streams, default 4096, shared fairly among principals
	Leaving     context.Context // ends when the server stops, before it waits for requests
	Log         *slog.Logger
}

// A Door serves A2A. Its methods may be called from several goroutines.
type Door struct {
	opts   Options
	places *fair.Semaphore // of requests under way
	feeds  *feeds
	pushes *pushes

	mu       sync.Mutex
	sendings map[string]chan struct{} // messages that are being taken, by their senders and ids
}

// New makes a door.
func New(o Options) *Door {
	o.Name = cmp.Or(o.Name, Name)
	o.MaxBytes = cmp.Or(o.MaxBytes, 1<<20)
	o.MaxRequests = cmp.Or(o.MaxRequests, 4096)
	o.Version = cmp.Or(o.Version, "dev")
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Leaving == nil {
		o.Leaving = context.Background()
	}
	d := &Door{
		opts:     o,
		places:   fair.New(fair.Options{What: "A2A requests under way", Capacity: int64(o.MaxRequests)}),
		sendings: make(map[string]chan struct{}),
	}
	d.feeds = newFeeds(d)
	d.pushes = newPushes(d)
	return d
}

// Run sends push notifications, until ctx ends.
func (d *Door) Run(ctx context.Context) error {
	d.pushes.run(ctx)
	return nil
}

// TakeOver has this process send the notifications of ended processes that it inherits.
func (d *Door) TakeOver(ctx context.Context) error { return d.pushes.takeOver(ctx) }

// A caller is the sender of a request, with the agent that it was sent to.
type caller struct {
	env    tools.Environment
	agent  string // "" for the bridge
	origin string // origin of the bridge's URLs for the caller
	names  bool   // the caller makes the ids of its tasks, as requesters over MQTT do
}

func (c *caller) who() *protocol.Principal { return c.env.Principal }

// ask runs a command as the caller.
func (d *Door) ask(ctx context.Context, env tools.Environment, command string, params any) (json.RawMessage, error) {
	return d.follow(ctx, env, command, params, nil)
}

// follow runs a command as the caller, and passes on its events.
func (d *Door) follow(ctx context.Context, env tools.Environment, command string, params any, emit func(*protocol.Event)) (json.RawMessage, error) {
	text, err := json.Marshal(params)
	if err != nil {
		return nil, err
	}
	timeout := protocol.DefaultTimeout
	if deadline, ok := ctx.Deadline(); ok {
		timeout = min(max(time.Until(deadline), time.Millisecond), protocol.MaxTimeout)
	}
	request := protocol.Request{
		Version: protocol.Version, ID: protocol.NewID(), Timestamp: time.Now().UnixMilli(), Command: command, Params: text,
		Metadata: protocol.Metadata{Timeout: timeout, TraceID: env.TraceID, Events: emit != nil},
	}
	answer := d.opts.Router.Handle(ctx, commands.Inbound{Principal: env.Principal, Request: &request, Door: d.opts.Name, Traceparent: env.Traceparent, Emit: emit})
	if answer.Err != nil {
		return nil, answer.Err
	}
	return answer.Result, nil
}

// may returns the error of a caller that may not do an action with its tasks.
func (d *Door) may(ctx context.Context, c *caller, action string) error {
	return d.opts.Authorize(ctx, c.who(), action, commands.Resource{Type: "task", Space: c.who().Home()})
}

// standing returns a task of the caller at the same agent.
func (d *Door) standing(c *caller, id string) (*task.Standing, error) {
	s, err := d.opts.Tasks.Standing(c.who(), protocol.TaskID(id))
	if err != nil {
		s = d.begunAs(c, id)
	}
	if s == nil || s.Dialogue.Agent != c.agent {
		return nil, noTask(id)
	}
	return s, nil
}

// begunAs is the caller's task that it has given an id itself, nil if there is none.
func (d *Door) begunAs(c *caller, id string) *task.Standing {
	for s := range d.opts.Tasks.Standings(c.who()) {
		if s.Dialogue.Agent == c.agent && s.Dialogue.Message == nameMark+id {
			return s
		}
	}
	return nil
}

// nameMark is the prefix, in place of the message's id, of the id of a task that its
// requester has chosen.
const nameMark = "\n"

// idOf is the id of a task for clients.
func idOf(s *task.Standing) string {
	if name, ok := strings.CutPrefix(s.Dialogue.Message, nameMark); ok {
		return name
	}
	return string(s.ID)
}

// noTask is the error of a task that does not exist, or belongs to another principal or
// another agent.
func noTask(id string) error {
	return refusal(taskNotFound, "there is no such task of yours, or not any more", "taskId", id)
}
