package offer

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/aibridge/aibridge/commands"
	mcpdoor "github.com/aibridge/aibridge/doors/mcp"
	"github.com/aibridge/aibridge/llm/tools"
	"github.com/aibridge/aibridge/llm/tools/bridge"
	"github.com/aibridge/aibridge/protocol"
)

// TaskCommand is the command name of the tasks of calls by MCP clients.
const TaskCommand = "mcp.call"

// keptFor is the time that every task can at least be asked for after its end.
const keptFor = 24 * time.Hour

// tasks are the bridge's tasks for MCP clients: of long calls, of calls that wait for
// an approval, of dispatches to groups, and of runs of workflows.
type tasks struct{ *Options }

// Usable implements [mcpdoor.Tasks].
func (m tasks) Usable(ctx context.Context, env tools.Environment) bool { return m.may(ctx, env) == nil }

// may returns the error of a principal that may not use tasks, whether it has any or
// not.
func (m tasks) may(ctx context.Context, env tools.Environment) error {
	return m.Authorize(ctx, env.Principal, "task:get", commands.Resource{Type: "task", Space: env.Principal.Home()})
}

// Start implements [mcpdoor.Tasks].
func (m tasks) Start(ctx context.Context, env tools.Environment, do mcpdoor.Work) (protocol.TaskID, error) {
	call := &commands.Call{
		Principal: env.Principal, Command: TaskCommand, TraceID: env.TraceID, Deadline: time.Now().Add(protocol.MaxTimeout), Door: mcpdoor.Name,
	}
	tell := func(p tools.Progress) {
		call.Emit("task.progress", map[string]any{"percent": p.Percent, "message": p.Message})
	}
	return m.Tasks.Start(ctx, call, func(ctx context.Context) (json.RawMessage, error) { return do(ctx, tell) })
}

// Begun implements [mcpdoor.Tasks]: a run is one that was begun.
func (tasks) Begun(r *tools.Result) (protocol.TaskID, bool) {
	var begun struct {
		Run protocol.TaskID `json:"run_id"`
	}
	return begun.Run, r.Name == "llm.run.start" && r.Status == tools.Success && json.Unmarshal(r.Output.Content, &begun) == nil && begun.Run != ""
}

// A shownTask is a task as task.get shows it.
type shownTask struct {
	ID        protocol.TaskID  `json:"task_id"`
	Command   string           `json:"command"`
	State     string           `json:"state"`
	Principal string           `json:"principal"`
	Kind      protocol.Kind    `json:"kind"`
	Space     protocol.SpaceID `json:"space_id"`
	Started   time.Time        `json:"started_at"`
	Ended     *time.Time       `json:"ended_at"`
	Result    json.RawMessage  `json:"result"`
	Error     *protocol.Error  `json:"error"`
	Progress  *struct {
		Data struct {
			Percent float64 `json:"percent"`
			Message string  `json:"message"`
		} `json:"data"`
	} `json:"progress"`
	Waits *waits `json:"waits"`
	Group *struct {
		Counts  map[string]int `json:"counts"`
		Rollout *struct {
			Reason string `json:"reason"`
		} `json:"rollout"`
	} `json:"group"`

	text json.RawMessage // all of it
}

// waits is the approval that a task waits for.
type waits struct {
	Approval string `json:"approval_id"`
	Tool     string `json:"tool"`
	Expires  int64  `json:"expires_at"`
}

// noTask is the error of a task that does not exist, or belongs to another principal.
func noTask(id protocol.TaskID) error {
	return protocol.Errorf(protocol.NotFound, "there is no task %q of yours, or not any more", id)
}

// Get implements [mcpdoor.Tasks].
func (m tasks) Get(ctx context.Context, env tools.Environment, id protocol.TaskID) (*mcpdoor.Task, error) {
	if err := m.may(ctx, env); err != nil {
		return nil, err
	}
	if m.Mark(env, id) == "" {
		return nil, noTask(id)
	}
	var shown shownTask
	err := m.ask(ctx, env, "task.get", map[string]any{"task_id": id}, &shown.text)
	if protocol.CodeOf(err) == protocol.NotFound {
		return m.run(ctx, env, id)
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(shown.text, &shown); err != nil {
		return nil, protocol.Wrap(protocol.Internal, err, "the task cannot be read")
	}
	t := &mcpdoor.Task{ID: id, Begun: shown.Started, Changed: shown.Started}
	if shown.Ended != nil {
		t.Changed, t.Kept = *shown.Ended, shown.Ended.Sub(shown.Started)+keptFor
	}
	return t, m.fill(ctx, env, t, &shown)
}

// fill adds the state and the result to a task.
func (m tasks) fill(ctx context.Context, env tools.Environment, t *mcpdoor.Task, shown *shownTask) error {
	switch shown.State {
	case "pending", "running":
		t.Message = shown.progress()
	case "paused", "aborted": // a rollout that waits to be resumed or cancelled
		t.State, t.Message = mcpdoor.TaskWaiting, shown.State+shown.why()+"; "+shown.progress()
	case "waiting":
		t.State = mcpdoor.TaskWaiting
		t.Approval = m.approval(ctx, env, t, shown.Waits)
	case "cancelled":
		t.State = mcpdoor.TaskCancelled
		if shown.Error != nil {
			t.Message = shown.Error.Message
		}
	default:
		return shown.end(t)
	}
	return nil
}

// why is the reason why a rollout is paused or aborted, as the end of a message.
func (s *shownTask) why() string {
	if s.Group == nil || s.Group.Rollout == nil || s.Group.Rollout.Reason == "" {
		return ""
	}
	return ": " + s.Group.Rollout.Reason
}

// progress is the text of a running task's progress.
func (s *shownTask) progress() string {
	switch {
	case s.Progress == nil && s.Group != nil:
		return "members by their states: " + strings.Trim(fmt.Sprint(s.Group.Counts), "map[]")
	case s.Progress == nil:
		return ""
	case s.Progress.Data.Percent > 0:
		return strings.TrimSpace(fmt.Sprintf("%g %% %s", s.Progress.Data.Percent, s.Progress.Data.Message))
	}
	return s.Progress.Data.Message
}

// end adds the end of a task. Only a fault of the bridge is an error of the protocol:
// any other is a result for the model.
func (s *shownTask) end(t *mcpdoor.Task) (err error) {
	if s.Error != nil && s.Error.Code == protocol.Internal {
		t.State, t.Failure, t.Message = mcpdoor.TaskFailed, s.Error, s.Error.Message
		return nil
	}
	t.State = mcpdoor.TaskDone
	switch {
	case s.Error != nil:
		t.Result = resultOf(tools.Failed, "Error: "+s.Error.Message+" (code "+string(s.Error.Code)+")", s.Error)
	case s.Command == TaskCommand:
		t.Answer = s.Result
	case s.Command == "tool.call":
		t.Result, err = called(s.Result)
	case s.Group != nil:
		t.Result = resultOf(tools.Success, "", nil)
		t.Result.Output, err = bridge.DispatchOutput(s.text)
		t.Result.Text = string(t.Result.Output.Content)
	default:
		t.Result = resultOf(tools.Success, string(s.Result), nil)
	}
	return err
}

// called decodes the result of a parked call.
func called(text json.RawMessage) (*tools.Result, error) {
	var end struct {
		Status tools.Status  `json:"status"`
		Text   string        `json:"text"`
		Code   protocol.Code `json:"code"`
	}
	if err := json.Unmarshal(text, &end); err != nil {
		return nil, protocol.Errorf(protocol.Internal, "the result cannot be read any more")
	}
	if end.Code == "" {
		return resultOf(end.Status, end.Text, nil), nil
	}
	return resultOf(end.Status, end.Text, &protocol.Error{Code: end.Code, Message: end.Text}), nil
}

// resultOf is a result with a text, which is structured if it is JSON.
func resultOf(status tools.Status, text string, err *protocol.Error) *tools.Result {
	r := &tools.Result{Status: status, Text: text}
	if err != nil {
		r.Err = err
	}
	if json.Valid([]byte(text)) {
		r.Output.Content = json.RawMessage(text)
	} else {
		r.Output.Text = text
	}
	return r
}

// approval is the approval of a waiting task. A principal without the right to
// approvals gets only its id, tool and reason.
func (m tasks) approval(ctx context.Context, env tools.Environment, t *mcpdoor.Task, w *waits) *mcpdoor.Approval {
	if w == nil {
		return nil
	}
	a := &mcpdoor.Approval{ID: w.Approval, Tool: w.Tool, Why: "the call needs an approval"}
	t.Message = fmt.Sprintf("%s waits for the approval %s, until %s at the latest",
		w.Tool, w.Approval, time.UnixMilli(w.Expires).UTC().Format(time.RFC3339))
	var asked struct {
		Nonce     string           `json:"nonce"`
		Arguments json.RawMessage  `json:"arguments"`
		Why       string           `json:"why"`
		Space     protocol.SpaceID `json:"space_id"`
		Asked     int64            `json:"asked_at"`
	}
	if m.ask(ctx, env, "approval.get", map[string]any{"approval_id": a.ID}, &asked) != nil {
		return a
	}
	t.Changed = time.UnixMilli(asked.Asked)
	a.Nonce, a.Arguments, a.Why = asked.Nonce, asked.Arguments, asked.Why
	a.Own = m.MayDecideOwn(env.Principal) &&
		m.Authorize(ctx, env.Principal, "approval:decide", commands.Resource{Type: "approval", ID: a.ID, Space: asked.Space}) == nil
	return a
}

// Mark implements [mcpdoor.Tasks].
func (m tasks) Mark(env tools.Environment, id protocol.TaskID) string {
	return m.Options.Mark(env.Principal, id)
}

// Cancel implements [mcpdoor.Tasks].
func (m tasks) Cancel(ctx context.Context, env tools.Environment, id protocol.TaskID) error {
	if m.Mark(env, id) == "" {
		return noTask(id)
	}
	var ended json.RawMessage
	err := m.ask(ctx, env, "task.cancel", map[string]any{"task_id": id, "reason": "cancelled by its client"}, &ended)
	if protocol.CodeOf(err) == protocol.NotFound {
		err = m.ask(ctx, env, "llm.run.cancel", map[string]any{"run_id": id}, &ended)
	}
	switch protocol.CodeOf(err) {
	case protocol.InvalidState, protocol.TimedOut: // it has ended, or will
		return nil
	}
	return err
}

// Decide implements [mcpdoor.Tasks]: by the command, and so by policy, like any
// decision.
func (m tasks) Decide(ctx context.Context, env tools.Environment, shown *mcpdoor.Approval, approve bool, reason string) error {
	decision := "deny"
	if approve {
		decision = "approve"
	}
	var decided json.RawMessage
	err := m.ask(ctx, env, "approval.decide", map[string]any{"approval_id": shown.ID, "nonce": shown.Nonce, "decision": decision, "reason": reason}, &decided)
	if protocol.CodeOf(err) == protocol.InvalidState { // decided by another principal meanwhile
		return nil
	}
	return err
}
