package task

import (
	"encoding/json"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// A State is the state of a task.
type State string

// The states of a task. Only pending, waiting and running ones change.
const (
	Pending   State = "pending" // waits for others to end
	Waiting   State = "waiting" // for an approval
	Running   State = "running"
	Paused    State = "paused"  // of a rollout: until it is resumed
	Aborted   State = "aborted" // of a rollout: it stopped by itself, and can be resumed
	Succeeded State = "succeeded"
	Complete  State = "complete" // of a group: as many have done it as were wanted
	Partial   State = "partial"  // of a group: some have done it
	Failed    State = "failed"
	Cancelled State = "cancelled"
)

// over reports whether the task has ended.
func (s State) over() bool {
	switch s {
	case Pending, Waiting, Running, Paused, Aborted:
		return false
	}
	return true
}

// A Task is one command that runs without its caller waiting.
type Task struct {
	ID        protocol.TaskID  `json:"task_id" doc:"id of the task"`
	Command   string           `json:"command" doc:"command that it runs"`
	State     State            `json:"state" enum:"pending,waiting,running,paused,aborted,succeeded,complete,partial,failed,cancelled" doc:"state of the work; waiting: for somebody to agree; complete and partial are of group tasks, paused and aborted of rollouts"`
	Principal string           `json:"principal" doc:"principal who started it"`
	Kind      protocol.Kind    `json:"kind,omitempty" doc:"kind of that party: operator, agent or skill"`
	Space     protocol.SpaceID `json:"space_id" doc:"space it belongs to"`
	TraceID   string           `json:"trace_id,omitempty" doc:"trace of the request that started it"`
	Started   time.Time        `json:"started_at" doc:"time at which it was started"`
	Ended     *time.Time       `json:"ended_at,omitempty" doc:"time at which it ended"`
	Result    json.RawMessage  `json:"result,omitempty" doc:"result of the command, once it has succeeded"`
	Error     *Failure         `json:"error,omitempty" doc:"reason why it did not succeed"`
	Progress  *Progress        `json:"progress,omitempty" doc:"last report"`
	Owner     string           `json:"owner,omitempty" doc:"bridge that runs it, as ID/EPOCH; absent where one bridge works by itself"`
	Waits     *Waits           `json:"waits,omitempty" doc:"of a waiting task: what it waits for"`
	Group     *Group           `json:"group,omitempty" doc:"of a group task: who was asked and what they answered"`
	Dialogue  *Dialogue        `json:"dialogue,omitempty" doc:"of a task that a message of A2A began: the conversation"`
}

// Waits are the things that a task waits for.
type Waits struct {
	Approval string `json:"approval_id" doc:"the approval that somebody has to decide"`
	Tool     string `json:"tool" doc:"the tool that the model wants to run"`
	Expires  int64  `json:"expires_at" doc:"Unix ms; undecided by then, the model is told that nobody agreed"`
}

// A Failure is why a task did not succeed.
type Failure struct {
	Code    protocol.Code  `json:"code" doc:"error code"`
	Message string         `json:"message" doc:"fault"`
	Details map[string]any `json:"details" doc:"more about it"`
}

// Progress is the last event that the command of a task has sent.
type Progress struct {
	Event string          `json:"event" doc:"name of the event"`
	Seq   uint64          `json:"seq" doc:"number of the event, from 1"`
	Data  json.RawMessage `json:"data,omitempty" doc:"content of the event"`
}

// end is the task as it is after its command returned.
func (t *Task) end(result json.RawMessage, err error, now time.Time) *Task {
	ended := *t
	now = now.UTC()
	ended.Ended = &now
	switch e := protocol.AsError(err); e {
	case nil:
		ended.State, ended.Result = Succeeded, result
	default:
		ended.State = Failed
		if e.Code == protocol.Cancelled {
			ended.State = Cancelled
		}
		ended.Error = &Failure{Code: e.Code, Message: e.Message, Details: e.Details}
		if ended.Error.Details == nil {
			ended.Error.Details = map[string]any{}
		}
	}
	return &ended
}

// visibleTo reports whether a principal may see and cancel the task. To others
// it does not exist.
func (t *Task) visibleTo(who *protocol.Principal) bool {
	return t.owner().Is(who) || who.Manages(t.Space)
}

// owner is the party that started the task.
func (t *Task) owner() protocol.Party {
	return protocol.Party{Kind: t.Kind, Space: t.Space, ID: t.Principal}
}
