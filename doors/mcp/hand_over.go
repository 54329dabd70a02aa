package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/llm/tools"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/protocol/grant"
)

// A work is a call of a tool that may outlive the request that it came by.
type work struct {
	door *Door
	env  tools.Environment
	call *chat.ToolCall

	begun *tools.Begun            // until a goroutine waits for the call
	end   context.CancelCauseFunc // of the call, for which a goroutine waits
	done  chan tools.Result       // receives the result from there
	task  atomic.Pointer[protocol.TaskID]

	mu   sync.Mutex
	tell func(tools.Progress) // receiver of progress: the client, or the task of the call
	last *tools.Progress      // last progress
}

// progress passes on the progress of the call.
func (w *work) progress(p tools.Progress) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last = &p
	w.tell(p)
}

// tellTask directs the progress of the call to its task, beginning with the last one.
func (w *work) tellTask(tell func(tools.Progress)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tell = tell
	if w.last != nil {
		tell(*w.last)
	}
}

// callOrTask runs a call for a client with support of tasks: a call that takes longer
// than a few seconds, or waits for an approval, continues as a task, which is durable
// before the client gets it.
func (d *Door) callOrTask(ctx context.Context, box *tools.Toolbox, env tools.Environment, call *chat.ToolCall) (tools.Result, *Task) {
	w := d.begin(ctx, box, env, call)
	r, task, _ := w.within(ctx, d.opts.Patience, nil)
	if task != nil {
		return tools.Result{}, task
	}
	return w.settled(ctx, &r)
}

// callHeld runs a call for a client without support of tasks, which would give up: a
// call that takes longer than such clients wait continues as a task, and the text for
// the model names it.
func (d *Door) callHeld(ctx context.Context, box *tools.Toolbox, env tools.Environment, call *chat.ToolCall) tools.Result {
	w := d.begin(ctx, box, env, call)
	r, task, _ := w.within(ctx, d.opts.Hold, nil)
	switch {
	case task != nil:
		return goesOn(call, task)
	case r.Question != nil:
		return d.opts.Keeper.Keep(ctx, env, call, r.Question)
	}
	return r
}

// within waits for a call for a while, and then continues it as a task, if that is
// possible; or until there is a question to its client. A client that disconnects
// before that has cancelled its call.
func (w *work) within(ctx context.Context, patience time.Duration, asked <-chan *posed) (tools.Result, *Task, *posed) {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	var question *posed
	for waits := true; waits; {
		waits = false
		select {
		case <-w.begun.Done():
			if w.begun.Settled() {
				return w.begun.Result(), nil, nil
			}
			w.detach(ctx)
			waits = true
		case r := <-w.done:
			w.end(nil)
			return r, nil, nil
		case <-ctx.Done():
		case question = <-asked:
		case <-timer.C:
		}
	}
	switch {
	case ctx.Err() != nil:
		return w.left(ctx), nil, nil
	case question != nil:
		return tools.Result{}, nil, question
	}
	w.detach(ctx)
	task, err := w.keep(ctx) // from here on a disconnection does not cancel the call
	if err == nil {
		return tools.Result{}, task, nil
	}
	w.door.opts.Log.WarnContext(ctx, "a call that takes long cannot be kept as a task: its client waits", "tool", w.call.Name, "error", err)
	defer context.AfterFunc(ctx, func() { w.end(context.Cause(ctx)) })()
	r := <-w.done
	w.end(nil)
	return r, nil, nil
}

// left ends a call whose client has disconnected, and is its result, without a question.
func (w *work) left(ctx context.Context) (r tools.Result) {
	if w.begun != nil {
		w.begun.Leave(ctx.Err())
		r = w.begun.Result()
	} else {
		w.end(context.Cause(ctx))
		r = <-w.done
	}
	r.Question = nil
	return r
}

// goesOn is the result, for the model, of a call that continues as a task.
func goesOn(call *chat.ToolCall, task *Task) tools.Result {
	r := tools.Result{CallID: call.ID, Name: call.Name, Arguments: call.Args, Status: tools.Waiting}
	r.Text = fmt.Sprintf("The call has begun and takes longer: it goes on by itself. Do not repeat it. "+
		"The tool task.get tells what became of it, with the task_id %s; task.cancel ends it.", task.ID)
	if content, err := json.Marshal(map[string]any{"task_id": task.ID, "tool": call.Name}); err == nil {
		r.Output = tools.Output{Text: r.Text, Content: content}
	}
	return r
}

// begin runs a call with the credential of its asker, but not for as long as its
// request. Where the tool only begins, the goroutine waits that has the request, which
// ends with the credential.
func (d *Door) begin(ctx context.Context, box *tools.Toolbox, env tools.Environment, call *chat.ToolCall) *work {
	env.Parks = d.opts.Keeper != nil
	w := &work{door: d, env: env, call: call, tell: func(p tools.Progress) { tools.TellProgress(ctx, p) }}
	running := tools.WithProgress(context.WithoutCancel(ctx), w.progress)
	if tool, ok := box.Find(call.Name); ok && tool.Begin != nil && !tool.Asks && env.Parks && requestOf(ctx) != nil && ctx.Err() == nil {
		w.begun = d.opts.Executor.Begin(running, box, env, call)
		return w
	}
	running = tools.WithTask(running, func(id protocol.TaskID) { w.task.Store(&id) })
	w.run(running, func(ctx context.Context) tools.Result {
		return d.opts.Executor.Execute(ctx, box, env, []*chat.ToolCall{call})[0]
	})
	return w
}

// detach has a goroutine wait for a call that was begun.
func (w *work) detach(ctx context.Context) {
	if w.begun == nil {
		return
	}
	begun := w.begun
	w.begun = nil
	w.run(context.WithoutCancel(ctx), begun.Wait)
}

// run has a goroutine of the crew run a call, until its asker's credential ends.
func (w *work) run(ctx context.Context, call func(context.Context) tools.Result) {
	running, end := context.WithCancelCause(ctx)
	forget := w.door.opts.Grants.OnEnd(grant.Of(w.env.Principal), end)
	w.end, w.done = end, make(chan tools.Result, 1)
	w.door.crew.run(func() {
		r := call(running)
		forget()
		end(context.Canceled) // of what the tool has left behind
		w.done <- r
	})
}

// settled is the answer to a call that has returned: its result, or the task in which
// it waits, or which it has begun.
func (w *work) settled(ctx context.Context, r *tools.Result) (tools.Result, *Task) {
	tasks := w.door.opts.Tasks
	if r.Question != nil {
		id, err := w.door.opts.Keeper.Park(ctx, w.env, w.call, r.Question)
		if err != nil {
			return *refused(w.call.Name, err), nil
		}
		if task, err := tasks.Get(ctx, w.env, id); err == nil {
			return tools.Result{}, task
		}
		return *refused(w.call.Name, protocol.Errorf(protocol.Internal, "the call waits as a task that cannot be read").With("task_id", id)), nil
	}
	if id, begun := tasks.Begun(r); begun {
		if task, err := tasks.Get(ctx, w.env, id); err == nil {
			return tools.Result{}, task
		}
	}
	return *r, nil
}

// keep continues a running call as a task.
func (w *work) keep(ctx context.Context) (*Task, error) {
	tasks := w.door.opts.Tasks
	if !tasks.Usable(ctx, w.env) {
		return nil, protocol.Errorf(protocol.PermissionDenied, "its caller may not use tasks")
	}
	if id := w.task.Load(); id != nil { // its work is a task already
		w.end(tools.ErrHandedOver)
		return tasks.Get(ctx, w.env, *id)
	}
	id, err := tasks.Start(ctx, w.env, w.finish)
	if err != nil {
		return nil, err
	}
	return tasks.Get(ctx, w.env, id)
}

// finish waits for the end of a call that is a task, and returns the result.
func (w *work) finish(ctx context.Context, tell func(tools.Progress)) (json.RawMessage, error) {
	defer w.end(nil)
	w.tellTask(tell)
	select {
	case r := <-w.done:
		return w.written(ctx, &r)
	case <-ctx.Done():
	}
	w.end(context.Cause(ctx))
	r := <-w.done
	if r.Status == tools.Success || protocol.CodeOf(r.Err) == protocol.OutcomeUnknown { // more than that it was cancelled
		return w.written(ctx, &r)
	}
	return nil, context.Cause(ctx)
}

func (w *work) written(ctx context.Context, r *tools.Result) (json.RawMessage, error) {
	if r.Question != nil {
		kept := w.door.opts.Keeper.Keep(ctx, w.env, w.call, r.Question)
		r = &kept
	}
	if protocol.CodeOf(r.Err) == protocol.Internal && !r.Output.IsError { // a fault of the bridge, and not a result of the tool
		return nil, r.Err
	}
	return json.Marshal(resultOf(r))
}

// A handedOver replaces the result of a call by its task or by a form for missing
// input.
type handedOver struct {
	sdk.CallToolResult // the SDK sends no other kind of result
	form               any
}

// MarshalJSON implements [json.Marshaler].
func (h *handedOver) MarshalJSON() ([]byte, error) { return json.Marshal(h.form) }

// handOver is the answer to a call that continues as a task.
func (d *Door) handOver(t *Task, who asker) *taskForm {
	form := d.form(t, who.client, who.console)
	form.ResultType, form.Meta = "task", sdk.Meta{sdk.MetaKeyServerInfo: d.implementation}
	form.Inputs, form.Result, form.Error = nil, nil, nil // only in answers to tasks/get
	return form
}
