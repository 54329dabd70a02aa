package commands

import (
	"encoding/json"
	"sync/atomic"

	"github.com/aibridge/aibridge/protocol"
)

// A Template is a command with all its params but the member params, for calls within
// the bridge that differ in that member alone. The first call that runs prepares the
// others, as [Plans] do for those of a connection. The calls of a template come by one
// door and without an address, each with the principal it is for. It is safe for
// concurrent use.
type Template struct {
	command        string
	before, behind string // the member
	plan           atomic.Pointer[plan]
	learnt         atomic.Bool // there is a plan, or none is to be had
}

// NewTemplate makes a template of a command and the JSON of its params before and behind
// the value of the member params.
func NewTemplate(command, before, behind string) *Template {
	return &Template{command: command, before: before, behind: behind}
}

// Command is the name of the command.
func (t *Template) Command() string { return t.command }

// With returns the params of a call with the member params, a JSON object.
func (t *Template) With(member json.RawMessage) json.RawMessage {
	params := make([]byte, 0, len(t.before)+len(member)+len(t.behind))
	return append(append(append(params, t.before...), member...), t.behind...)
}

// recall returns the plan of a template and the member params of a request of it; nil if
// its calls go the usual way.
func (t *Template) recall(r *Router, request *protocol.Request) (*plan, json.RawMessage) {
	p := t.plan.Load()
	if p == nil {
		return nil, nil
	}
	r.metrics.prepared.Inc()
	return p, request.Params[len(t.before) : len(request.Params)-len(t.behind)]
}

// learn keeps the plan of the first call.
func (t *Template) learn(r *Router, c *Call) {
	if !t.learnt.Swap(true) {
		t.plan.Store(r.planOf(c))
	}
}
