package parked

import (
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/llm/approval"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/protocol/grant"
)

// A State is the state of a task.
type State string

// The states. Waiting and Running alone change.
const (
	Waiting   State = "waiting" // for an approval
	Running   State = "running"
	Succeeded State = "succeeded"
	Failed    State = "failed"
	Cancelled State = "cancelled"
)

// Over reports whether the task has ended.
func (s State) Over() bool { return s != Waiting && s != Running }

// A Record is the stored form of a task. Its revision is a fence: to take up, cancel or
// end a task is to replace the record at a known revision.
type Record struct {
	ID      protocol.TaskID `json:"task_id"`
	Command string          `json:"command"`
	State   State           `json:"state"`
	Grant   grant.Grant     `json:"grant"` // credential of the caller
	TraceID string          `json:"trace_id,omitempty"`
	Started int64           `json:"started_at"`         // Unix ms, as the next
	Ended   int64           `json:"ended_at,omitempty"` // 0 before the end

	// ReturnTo is the address for the event of the end, which answers RequestID.
	ReturnTo  *commands.ReturnAddress `json:"return_to,omitempty"`
	RequestID string                  `json:"request_id,omitempty"`

	Taken    int    `json:"taken,omitempty"`       // number of times that it was taken up
	Approval string `json:"approval_id,omitempty"` // approval of its call
	Expires  int64  `json:"expires_at,omitempty"`  // of the approval
	Tool     string `json:"tool,omitempty"`        // tool of the call
	Why      string `json:"why,omitempty"`         // reason why the call needs an approval
	Session  string `json:"session_id,omitempty"`  // conversation of the task
	// Asks is the draft of the approval, sealed. It is stored with the task, so that a
	// crash before the approval is opened loses nothing.
	Asks []byte `json:"asks,omitempty"`

	Kept    []byte   `json:"kept,omitempty"`   // state for the [Continue], sealed
	Result  []byte   `json:"result,omitempty"` // of a task that succeeded, sealed
	Failure *Failure `json:"error,omitempty"`  // of a task that failed or was cancelled
}

// A Failure is the stored error of a task.
type Failure struct {
	Code    protocol.Code  `json:"code"`
	Message string         `json:"message"`
	Details map[string]any `json:"details,omitempty"`
	// Sealed is the part of the details with contents of the conversation: the calls of
	// tools that were made before.
	Sealed []byte `json:"sealed,omitempty"`
}

// KeptFor is the party whose quota of records the task counts against.
func (r *Record) KeptFor() protocol.Party { return r.Grant.Party() }

// bytes is the approximate memory of the record.
func (r *Record) bytes() int {
	n := len(r.Kept) + len(r.Result) + len(r.Asks)
	if r.Failure != nil {
		n += len(r.Failure.Sealed)
	}
	return n
}

// taken is the record of the task after it is taken up. Once it is stored, an earlier
// job of the task can store nothing more.
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

// waits is the record of the task while it waits for the approval q.
func (r *Record) waits(q *approval.Record, asks, kept []byte) *Record {
	next := *r
	next.State, next.Approval, next.Expires, next.Tool, next.Why, next.Session = Waiting, q.ID, q.Expires, q.Tool, q.Why, q.Session
	next.Asks, next.Kept = asks, kept
	return &next
}

// WaitingEvent is the data of task.waiting, and part of the answer to the caller.
type WaitingEvent struct {
	Task     protocol.TaskID `json:"task_id" doc:"the task, which resumes after the decision"`
	Approval string          `json:"approval_id" doc:"the approval that it waits for"`
	Tool     string          `json:"tool" doc:"the tool that the model wants to run"`
	Why      string          `json:"why" doc:"reason why the call needs an approval"`
	Expires  int64           `json:"expires_at" doc:"Unix ms; the model then learns that the call was not approved"`
}

// Event is the data of task.waiting for a waiting task.
func (r *Record) Event() WaitingEvent {
	return WaitingEvent{Task: r.ID, Approval: r.Approval, Tool: r.Tool, Why: r.Why, Expires: r.Expires}
}
