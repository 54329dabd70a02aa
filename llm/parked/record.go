package parked

import (
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/llm/approval"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/protocol/grant"
)

// A State is how far a task has come.
type State string

// The states. Waiting and Running alone change.
const (
	Waiting   State = "waiting" // for somebody to agree
	Running   State = "running"
	Succeeded State = "succeeded"
	Failed    State = "failed"
	Cancelled State = "cancelled"
)

// Over reports whether the task has ended.
func (s State) Over() bool { return s != Waiting && s != Running }

// A Record is a task as it is stored. Its revision fences: whoever takes the
// task up, cancels it or ends it replaces the record that it has seen.
type Record struct {
	ID      protocol.TaskID `json:"task_id"`
	Command string          `json:"command"`
	State   State           `json:"state"`
	Grant   grant.Grant     `json:"grant"` // for whom it goes on
	TraceID string          `json:"trace_id,omitempty"`
	Started int64           `json:"started_at"`         // Unix ms, as the next
	Ended   int64           `json:"ended_at,omitempty"` // when it ended

	// ReturnTo is the address at which the caller is told of the end, in answer to
	// RequestID.
	ReturnTo  *commands.ReturnAddress `json:"return_to,omitempty"`
	RequestID string                  `json:"request_id,omitempty"`

	Taken    int    `json:"taken,omitempty"`       // how often it was taken up
	Approval string `json:"approval_id,omitempty"` // that it waits for, or that its call is made by
	Expires  int64  `json:"expires_at,omitempty"`  // of the approval
	Tool     string `json:"tool,omitempty"`        // that waits
	Why      string `json:"why,omitempty"`         // somebody has to agree
	Session  string `json:"session_id,omitempty"`  // conversation that it is part of
	// Asks is the approval as it is to be asked for, sealed. It is stored with the
	// task, so that a crash before the asking loses nothing.
	Asks []byte `json:"asks,omitempty"`

	Kept    []byte   `json:"kept,omitempty"`   // what there is to go on with, sealed
	Result  []byte   `json:"result,omitempty"` // of one that succeeded, sealed
	Failure *Failure `json:"error,omitempty"`  // of one that did not
}

// A Failure is why a task did not succeed.
type Failure struct {
	Code    protocol.Code  `json:"code"`
	Message string         `json:"message"`
	Details map[string]any `json:"details,omitempty"`
	// Sealed is the part of the details that tells of the conversation: the calls of
	// tools that were made before.
	Sealed []byte `json:"sealed,omitempty"`
}

// KeptFor is whose budget of records it uses up.
func (r *Record) KeptFor() protocol.Party { return r.Grant.Party() }

// bytes is about how much memory the record takes.
func (r *Record) bytes() int {
	n := len(r.Kept) + len(r.Result) + len(r.Asks)
	if r.Failure != nil {
		n += len(r.Failure.Sealed)
	}
	return n
}

// taken is the record once somebody goes on with the task. Whoever went on with
// it before cannot store anything any more.
func (r *Record) taken() *Record {
	next := *r
	next.State, next.Asks = Running, nil
	next.Taken++
	return &next
}

// over is the record of a task that has ended: it succeeded if there is no failure.
func (r *Record) over(result []byte, failure *Failure, now time.Time) *Record {
	next := *r
	next.Ended, next.Kept, next.Asks, next.Expires = now.UnixMilli(), nil, nil, 0
	next.State, next.Result, next.Failure = Succeeded, result, failure
	if failure != nil {
		next.State, next.Result = Failed, nil
		if failure.Code == protocol.Cancelled {
			next.State = Cancelled
		}
	}
	return &next
}

// waits is the record once the task waits for an answer to a question.
func (r *Record) waits(q *approval.Record, asks, kept []byte) *Record {
	next := *r
	next.State, next.Approval, next.Expires, next.Tool, next.Why, next.Session = Waiting, q.ID, q.Expires, q.Tool, q.Why, q.Session
	next.Asks, next.Kept = asks, kept
	return &next
}

// WaitingEvent is the data of task.waiting, and what a caller is told.
type WaitingEvent struct {
	Task     protocol.TaskID `json:"task_id" doc:"the task that goes on when somebody has decided"`
	Approval string          `json:"approval_id" doc:"the approval that it waits for"`
	Tool     string          `json:"tool" doc:"the tool that the model wants to run"`
	Why      string          `json:"why" doc:"reason why somebody has to agree"`
	Expires  int64           `json:"expires_at" doc:"Unix ms; undecided by then, the model is told that nobody agreed"`
}

// Event is the news for callers of a task that waits.
func (r *Record) Event() WaitingEvent {
	return WaitingEvent{Task: r.ID, Approval: r.Approval, Tool: r.Tool, Why: r.Why, Expires: r.Expires}
}
