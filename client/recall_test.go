package client_test

import (
	"context"
	"testing"

	"github.com/aibridge/aibridge/client"
	"github.com/aibridge/aibridge/protocol"
)

func TestTheBridgeIsToldWhatBecameOfAnInvocation(t *testing.T) {
	t.Parallel()
	b := newBridge(t)
	release := make(chan struct{})
	b.serve(b.dial(agentA), one(func(_ context.Context, in *client.Invocation) (any, error) {
		if in.ID == "2" {
			<-release
		}
		return map[string]string{"id": in.ID}, nil
	}))
	b.invoke("1", do)
	first := b.answer("1")
	b.invoke("2", do)

	b.toAgent("r1", "task.get", `{"task_id":"1"}`)
	told := map[string]string{} // in either order
	for range 2 {
		if m := b.heard(); m.Response != nil {
			told[m.Response.ID] = string(m.Response.Result)
		}
	}
	if told["r1"] != `{"state":"done"}` || told["1"] != string(first.Result) {
		t.Errorf("a call that is done: %v", told)
	}
	b.toAgent("r2", "task.get", `{"task_id":"2"}`)
	if r := b.answer("r2"); r.Err != nil || string(r.Result) != `{"state":"running"}` {
		t.Errorf("a call that is at work: %s, %v", r.Result, r.Err)
	}
	close(release)
	for b.heard().Event != nil { // its acceptance, if that took long
	}
	b.toAgent("r3", "task.get", `{"task_id":"3"}`)
	if r := b.answer("r3"); r.Err == nil || r.Err.Code != protocol.NotFound || r.Err.Details["listening_ms"] == nil {
		t.Errorf("a call that never came: %+v", r.Err)
	}
	b.toAgent("r4", "task.get", `{}`)
	if r := b.answer("r4"); r.Err == nil || r.Err.Code != protocol.InvalidParameter {
		t.Errorf("no call at all: %+v", r.Err)
	}
}
