package mcp

import (
	"context"
	"encoding/json"
	"time"

	"github.com/aibridge/aibridge/llm/tools"
	"github.com/aibridge/aibridge/protocol"
)

// tasksExtension is the name of the extension by which a call can be answered with a
// task: clients declare its support with every request.
const tasksExtension = "io.modelcontextprotocol/tasks"

// Methods of the extension.
const (
	taskGetMethod    = "tasks/get"
	taskUpdateMethod = "tasks/update"
	taskCancelMethod = "tasks/cancel"
	listenMethod     = "subscriptions/listen"
)

// Tasks holds calls of tools that continue without their client. Each principal has
// access to its own alone: for a task of another one all methods fail with 3001, as for
// a missing one.
type Tasks interface {
	// Usable reports whether a principal may ask for its tasks at all.
	Usable(ctx context.Context, env tools.Environment) bool
	// Start keeps a call of a tool that is under way, and returns when that is
	// durable. do returns the result of the call, as [Task.Answer] has it later,
	// soon after its context has ended.
	Start(ctx context.Context, env tools.Environment, do Work) (protocol.TaskID, error)
	// Begun is the task that a call has begun by its result, such as a run.
	Begun(r *tools.Result) (protocol.TaskID, bool)
	Get(ctx context.Context, env tools.Environment, id protocol.TaskID) (*Task, error)
	// Mark changes whenever the task does. It is "" of one that is not the
	// principal's.
	Mark(env tools.Environment, id protocol.TaskID) string
	// Cancel asks for the end of a task. One that has ended stays as it is.
	Cancel(ctx context.Context, env tools.Environment, id protocol.TaskID) error
	// Decide decides about the call that a task waits with, as it was shown.
	Decide(ctx context.Context, env tools.Environment, shown *Approval, approve bool, reason string) error
	// Reply answers the question of a task to its user.
	Reply(ctx context.Context, env tools.Environment, id protocol.TaskID, text string) error
}

// A Work is a call under way. It reports its progress to tell until it returns.
type Work func(ctx context.Context, tell func(tools.Progress)) (json.RawMessage, error)

// A TaskState is the state of a task.
type TaskState int

// The states. Those from TaskDone on are final.
const (
	TaskWorking TaskState = iota
	TaskWaiting           // for an approval, or for its user
	TaskDone              // the call has a result, be it an error for the model
	TaskFailed            // it has none
	TaskCancelled
)

// A Task is a call of a tool that continues without its client.
type Task struct {
	ID      protocol.TaskID
	State   TaskState
	Message string // about the state, or ""
	Begun   time.Time
	Changed time.Time
	Kept    time.Duration // from its beginning until it is forgotten at the earliest; 0 of one that has not ended

	Answer   json.RawMessage // of one that is done: its result as [Tasks.Start] was given it,
	Result   *tools.Result   // or the result of the call
	Failure  *protocol.Error // of one that failed
	Approval *Approval       // of one that waits for it
	Question *Question       // of one that waits for its user
}

// An Approval is the approval that a waiting call needs.
type Approval struct {
	ID        string
	Nonce     string // bound to exactly the call shown here, "" if it cannot be decided any more
	Tool      string
	Arguments json.RawMessage // arguments of the call, nil if the requester may not see them
	Why       string
	Own       bool // policy lets the requester decide, who sees all fields
}

// A Question is the question of a task to its user.
type Question struct {
	Key     string // of this question alone
	Text    string
	Options []string // to choose among, nil for any text
}
