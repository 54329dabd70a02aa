// Package tasks converts runs of workflows to tasks.
package tasks

import (
	"encoding/json"
	"time"

	"github.com/aibridge/aibridge/commands/task"
	"github.com/aibridge/aibridge/llm/run"
	"github.com/aibridge/aibridge/protocol"
)

// Of converts a run to a task. A run that waits for its user is Waiting, and has the
// run as its result, as an ended one has.
func Of(runs *run.Service, id protocol.TaskID) (*task.Task, bool) {
	r, ok := runs.Standing(string(id))
	if !ok {
		return nil, false
	}
	t := &task.Task{ID: id, Command: "llm.run.start", State: task.Running, Started: time.UnixMilli(r.Started).UTC()}
	ended := time.UnixMilli(r.Changed).UTC()
	switch r.Phase {
	case run.WaitingUser:
		t.State = task.Waiting
	case run.WaitingApproval:
		t.State = task.Waiting
		t.Waits = &task.Waits{Approval: r.Waiting.Approval, Tool: r.Waiting.Tool, Expires: r.Waiting.Expires}
	case run.Completed:
		t.State, t.Ended = task.Succeeded, &ended
	case run.Failed:
		t.State, t.Ended = task.Failed, &ended
		t.Error = &task.Failure{Code: protocol.Internal, Message: r.Reason, Details: map[string]any{"stop_reason": r.Code}}
	}
	if r.Phase != run.Running {
		t.Result, _ = json.Marshal(r) // plain data, which cannot fail
	}
	return t, true
}
