package bridge

import (
	"bytes"
	"context"
	"encoding/json"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/llm/tools"
	"github.com/aibridge/aibridge/protocol"
)

// An Invoker runs commands for tools.
type Invoker struct {
	Router func() *commands.Router // made after the tools
}

// Invoke implements [Invoke]: it runs a command through the router like any other call,
// and within the time left to the call of the tool.
func (i Invoker) Invoke(ctx context.Context, env tools.Environment, command string, params json.RawMessage) (json.RawMessage, error) {
	return i.run(ctx, env, protocol.Request{Command: command, Params: params}, nil)
}

// Fill implements [Fill] as Invoke does [Invoke].
func (i Invoker) Fill(ctx context.Context, env tools.Environment, t *commands.Template, params json.RawMessage) Filled {
	return i.begin(ctx, env, protocol.Request{Command: t.Command(), Params: t.With(params)}, t)
}

func (i Invoker) run(ctx context.Context, env tools.Environment, request protocol.Request, of *commands.Template) (json.RawMessage, error) {
	f := i.begin(ctx, env, request, of)
	select {
	case <-f.Done():
	case <-ctx.Done():
		f.Leave(ctx.Err())
	}
	return f.Result()
}

// An invoked command is one that was begun for a tool.
type invoked struct {
	commands.Waiting
	left   bool // its caller does not wait any more
	result json.RawMessage
	err    error
}

func (i Invoker) begin(ctx context.Context, env tools.Environment, request protocol.Request, of *commands.Template) *invoked {
	router := i.Router()
	timeout := tools.DefaultTimeout
	if deadline, ok := ctx.Deadline(); ok {
		timeout = time.Until(deadline)
	}
	request.Version, request.ID, request.Timestamp = protocol.Version, requestID(ctx, router, request.Command), time.Now().UnixMilli()
	request.Metadata = protocol.Metadata{
		Timeout: min(max(timeout, time.Millisecond), protocol.MaxTimeout), TraceID: env.TraceID, Events: tools.Listens(ctx),
	}
	f := new(invoked)
	f.Waiting = router.Begin(commands.Inbound{
		Principal: env.Principal, Request: &request, Template: of, Door: tools.Door, Traceparent: env.Traceparent, Depth: env.Depth,
		Emit: func(e *protocol.Event) { tellProgress(ctx, e) }, Confirm: tools.CheckOf(ctx), Ask: tools.AskerOf(ctx), Held: env.Recorded,
	}, f.take)
	return f
}

func (f *invoked) take(answer *protocol.Response) {
	f.result = bytes.Clone(answer.Result)
	if answer.Err != nil {
		f.err = answer.Err
	}
}

// Leave implements [Filled].
func (f *invoked) Leave(why error) {
	f.left = true
	f.Waiting.Leave(why)
}

// Result implements [Filled].
func (f *invoked) Result() (json.RawMessage, error) {
	if !f.left {
		f.End()
	}
	return f.result, f.err
}

// requestID is the id of a tool's request. A command that acts on the world gets the
// idempotency key of the call, if there is one, so that it never acts twice for one
// call.
func requestID(ctx context.Context, router *commands.Router, command string) string {
	if key := tools.KeyOf(ctx); key != "" {
		if c, ok := router.Set().Find(command); ok && c.Effect == commands.Act {
			return key
		}
	}
	return protocol.NewID()
}

// tellProgress passes on the progress and logs of a device or a server.
func tellProgress(ctx context.Context, e *protocol.Event) {
	switch e.Name {
	case "task.progress":
		var p struct {
			Percent float64 `json:"percent"`
			Message string  `json:"message"`
		}
		if json.Unmarshal(e.Data, &p) == nil {
			tools.TellProgress(ctx, tools.Progress{Percent: p.Percent, Message: p.Message})
		}
	case "task.log":
		var l struct {
			Level  string `json:"level"`
			Logger string `json:"logger"`
			Text   string `json:"text"`
		}
		if json.Unmarshal(e.Data, &l) == nil {
			tools.TellLog(ctx, tools.Log{Level: l.Level, Logger: l.Logger, Text: l.Text})
		}
	}
}
