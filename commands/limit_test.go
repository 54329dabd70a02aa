package commands_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

// ration lets so many commands through.
type ration struct{ left, bytes, refusals atomic.Int64 }

// Refusal implements [commands.RefusalLimiter].
func (r *ration) Refusal(*protocol.Principal) { r.refusals.Add(1) }

func (r *ration) Admit(_ *protocol.Principal, size int) *protocol.Error {
	r.bytes.Add(int64(size))
	if r.left.Add(-1) < 0 {
		return protocol.Errorf(protocol.RateLimited, "too many requests").With("retry_after_ms", 120)
	}
	return nil
}

func TestWhoMakesTooManyRequestsIsToldToWait(t *testing.T) {
	ran := 0
	r := new(ration)
	n := newNode(t, commands.RouterOptions{Limiter: r}, define("run", commands.Act,
		func(_ context.Context, _ *commands.Call, text string) (string, error) { ran++; return text, nil }))
	r.left.Store(2)
	wantSaid(t, n.call("1", "test.run", `{"text":"x"}`), `{"text":"x"}`)
	wantSaid(t, n.call("2", "test.gone", `{}`), string(protocol.UnknownCommand)) // counts, too
	resp := n.call("3", "test.run", `{}`)
	wantSaid(t, resp, string(protocol.RateLimited))
	if resp.ID != "3" || resp.Err.Details["retry_after_ms"] != 120 || ran != 1 {
		t.Errorf("answer to %q with %v, %d runs", resp.ID, resp.Err.Details, ran)
	}
	if refused := r.refusals.Load(); refused != 1 { // the command that there is not; to be told to wait is no refusal
		t.Errorf("%d refusals were counted", refused)
	}
	if least := int64(3 * len(`{"version":"0.6.3"}`)); r.bytes.Load() < least {
		t.Errorf("%d bytes were counted of three envelopes", r.bytes.Load())
	}
	r.left.Store(1)
	wantSaid(t, n.call("3", "test.run", `{"text":"x"}`), `{"text":"x"}`) // what was refused was not taken for the request itself
}

func TestTheCommandsOfABatchCountOneByOne(t *testing.T) {
	r := new(ration)
	var order []string
	n := newNode(t, commands.RouterOptions{Limiter: r}, sleeper(&order))
	r.left.Store(3)
	b := batchOf(t, n.call("1", "batch.execute", `{"commands":`+entries("a", "a", "a", "a")+`}`))
	if shape(b) != "0:success 1:success 2:failed 3:failed" {
		t.Errorf("got %s", shape(b))
	}
}
