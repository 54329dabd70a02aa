package loop

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/llm/parked"
	"github.com/aibridge/aibridge/llm/tools"
	"github.com/aibridge/aibridge/protocol"
)

// callCommand is the command name of the tasks of single calls.
const callCommand = "tool.call"

// longestHold is the longest time that a single call waits for a decision: clients
// often give up after a minute.
const longestHold = 45 * time.Second

// Calls parks single tool calls that need an approval, for clients that ask their
// models themselves.
type Calls struct {
	runner  *Runner
	parked  *parked.Service
	leaving context.Context
}

// NewCalls returns the calls of a runner. Leaving ends when the bridge begins to stop:
// a caller that disconnects before then has cancelled its call.
func NewCalls(r *Runner, p *parked.Service, leaving context.Context) *Calls {
	c := &Calls{runner: r, parked: p, leaving: leaving}
	p.Handle(callCommand, c.resume)
	return c
}

// A CallResult is the result of the task of a single call.
type CallResult struct {
	Name   string        `json:"name"`
	Status tools.Status  `json:"status"`
	Text   string        `json:"text"` // for the model
	Code   protocol.Code `json:"code,omitempty"`
}

// Keep parks a call until its question is settled, and waits for that for a while. It
// returns the result of the call, or a text that the call waits and names its task.
func (c *Calls) Keep(ctx context.Context, env tools.Environment, call *chat.ToolCall, q *tools.Question) tools.Result {
	r := tools.Result{CallID: call.ID, Name: call.Name, Arguments: call.Args}
	task, err := c.park(ctx, env, call, q)
	if err != nil {
		return failed(r, err)
	}
	until := c.parked.Until(ctx, -1)
	if env.Held != nil {
		until = c.parked.Until(ctx, *env.Held)
	}
	if most := time.Now().Add(longestHold); most.Before(until) {
		until = most
	}
	result, ended, err := c.parked.Await(ctx, task.ID, until, nil)
	switch {
	case err != nil:
		return failed(r, err)
	case !ended && ctx.Err() != nil && c.leaving.Err() == nil:
		return failed(r, c.cancel(ctx, task.ID))
	case !ended:
		return waits(r, task)
	}
	var end CallResult
	if err := json.Unmarshal(result, &end); err != nil {
		return failed(r, err)
	}
	r.Status, r.Text = end.Status, end.Text
	if end.Code != "" {
		r.Err = &protocol.Error{Code: end.Code, Message: end.Text}
	}
	if json.Valid([]byte(end.Text)) {
		r.Output.Content = json.RawMessage(end.Text)
	} else {
		r.Output.Text = end.Text
	}
	return r
}

// Park parks a call until its question is settled. It returns the id of its task as
// soon as task and approval are durable.
func (c *Calls) Park(ctx context.Context, env tools.Environment, call *chat.ToolCall, q *tools.Question) (protocol.TaskID, error) {
	task, err := c.park(ctx, env, call, q)
	if err != nil {
		return "", err
	}
	return task.ID, nil
}

func (c *Calls) park(ctx context.Context, env tools.Environment, call *chat.ToolCall, q *tools.Question) (*parked.Record, error) {
	if env.TraceID == "" {
		env.TraceID = protocol.NewID()
	}
	return c.parked.Park(ctx, parked.Order{
		Command: callCommand, Principal: env.Principal, TraceID: env.TraceID, Question: q, State: CallAlone(call, env),
	})
}

// cancel ends a task whose client disconnected or cancelled its call before it learned
// of the task.
func (c *Calls) cancel(ctx context.Context, task protocol.TaskID) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), protocol.DefaultTimeout)
	defer cancel()
	if err := c.parked.Cancel(ctx, task, "the client has gone, or cancelled its call"); err != nil {
		return err
	}
	return protocol.Errorf(protocol.Cancelled, "the call was cancelled")
}

// failed is the result of a call that was not parked.
func failed(r tools.Result, err error) tools.Result {
	known := protocol.AsError(err)
	r.Status, r.Err = tools.Failed, known
	r.Text = "Error: " + known.Message + " (code " + string(known.Code) + ")"
	return r
}

// waits is the model's text about a call that waits.
func waits(r tools.Result, task *parked.Record) tools.Result {
	r.Status = tools.Waiting
	r.Text = fmt.Sprintf("The call was not made yet: it waits until somebody agrees to it (approval %s), until %s at the latest. Do not repeat it. "+
		"It is then made by itself; the tool task.get tells its result, with the task_id %s.",
		task.Approval, time.UnixMilli(task.Expires).UTC().Format(time.RFC3339), task.ID)
	content, err := json.Marshal(task.Event())
	if err == nil {
		r.Output = tools.Output{Text: r.Text, Content: content}
	}
	return r
}

// resume runs a parked call whose question is settled.
func (c *Calls) resume(ctx context.Context, job *parked.Job) (json.RawMessage, error) {
	var state State
	if err := job.Read(&state); err != nil {
		return nil, err
	}
	turn, err := Continue(ctx, c.runner, job, &state, nil)
	if err != nil {
		return nil, err
	}
	if turn.Tools == nil || len(turn.Tools.Calls) == 0 || len(turn.Messages) == 0 {
		return nil, protocol.Errorf(protocol.Internal, "the call has no outcome")
	}
	said := chat.Answer{Segments: turn.Messages[0].Segments}
	report := turn.Tools.Calls[0]
	return json.Marshal(CallResult{Name: report.Name, Status: tools.Status(report.Status), Text: said.Text(), Code: report.Code})
}
