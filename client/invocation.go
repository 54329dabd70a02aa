package client

import (
	"context"
	"encoding/json"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// An Invocation is one call of a capability, as its handler sees it.
type Invocation struct {
	ID           string // of the bridge's making
	SkillID      protocol.SkillID
	CapabilityID protocol.CapabilityID
	Params       json.RawMessage // the capability's own, {} for none
	TraceID      string
	Traceparent  string // W3C trace context, "" without one
	Sender       string // id of the bridge, or the caller's "KIND/ID" where the bridge tells it the agent
	Caller       string // identifies the caller, as long as the bridge runs; "" for administrators
	Priority     protocol.Priority
	Deadline     time.Time

	emit func(name string, data any)
}

// Progress tells the caller how far the work is: percent from 0 to 100, and a
// message for people. It does not wait; progress may be lost.
func (in *Invocation) Progress(percent float64, message string) {
	data := map[string]any{"percent": percent}
	if message != "" {
		data["message"] = message
	}
	in.emit("task.progress", data)
}

// Delta sends a piece of the result ahead, for streams.
func (in *Invocation) Delta(data any) { in.emit("task.delta", data) }

type invokeParams struct {
	SkillID      protocol.SkillID      `json:"skill_id"`
	CapabilityID protocol.CapabilityID `json:"capability_id"`
	Params       json.RawMessage       `json:"params"`
}

func newInvocation(request *protocol.Request, m *Message) (*Invocation, error) {
	var p invokeParams
	if err := json.Unmarshal(request.Params, &p); err != nil {
		return nil, misfit(err)
	}
	if len(p.Params) == 0 || string(p.Params) == "null" {
		p.Params = json.RawMessage("{}")
	}
	left := request.Metadata.Timeout
	if left <= 0 {
		left = protocol.DefaultTimeout
	}
	return &Invocation{
		ID:           request.ID,
		SkillID:      p.SkillID,
		CapabilityID: p.CapabilityID,
		Params:       p.Params,
		TraceID:      request.Metadata.TraceID,
		Traceparent:  m.Property("traceparent"),
		Sender:       request.Metadata.SenderID,
		Caller:       m.Property("caller"),
		Priority:     request.Metadata.Priority,
		Deadline:     time.Now().Add(left),
	}, nil
}

type invocationKey struct{}

func withInvocation(ctx context.Context, in *Invocation) context.Context {
	return context.WithValue(ctx, invocationKey{}, in)
}

// invocationOf is the invocation that a context belongs to, nil without one.
func invocationOf(ctx context.Context) *Invocation {
	in, _ := ctx.Value(invocationKey{}).(*Invocation)
	return in
}
