package commands_test

import (
	"context"
	"testing"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

func TestACallEndsWithItsCaller(t *testing.T) {
	started, ended := make(chan struct{}, 2), make(chan error, 2)
	n := newNode(t, commands.RouterOptions{}, define("hang", commands.Act,
		func(ctx context.Context, _ *commands.Call, _ string) (string, error) {
			started <- struct{}{}
			<-ctx.Done()
			ended <- ctx.Err()
			return "", ctx.Err()
		}))
	ctx, cancel := context.WithCancel(t.Context())
	answer := make(chan *protocol.Response, 1)
	go func() {
		n.AwaitWithin(ctx, n.inbound(envelope("1", "test.hang", `{}`)), func(r *protocol.Response) { answer <- lasting(r) })
	}()
	<-started
	cancel()
	wantSaid(t, <-answer, string(protocol.Cancelled))
	if err := <-ended; err == nil {
		t.Error("the context of the call did not end")
	}
}

// TestARequestWithinTheBridgeIsHeldToTheSameRules though nobody has encoded it.
func TestARequestWithinTheBridgeIsHeldToTheSameRules(t *testing.T) {
	n := newNode(t, commands.RouterOptions{}, define("echo", commands.Read,
		func(_ context.Context, call *commands.Call, text string) (string, error) {
			return text + " " + call.TraceID, nil
		}))
	for name, test := range map[string]struct {
		request protocol.Request
		says    string
	}{
		"as it should be": {protocol.Request{ID: "1", Command: "test.echo", Params: []byte(`{"text":"hello"}`), Metadata: protocol.Metadata{TraceID: "t-1"}}, `{"text":"hello t-1"}`},
		"no id":           {protocol.Request{Command: "test.echo", Params: []byte(`{"text":"hello"}`)}, string(protocol.MalformedEnvelope)},
		"no JSON":         {protocol.Request{ID: "2", Command: "test.echo", Params: []byte(`{"text":`)}, string(protocol.MalformedEnvelope)},
		"a key twice":     {protocol.Request{ID: "3", Command: "test.echo", Params: []byte(`{"text":"a","text":"b"}`)}, string(protocol.MalformedEnvelope)},
		"an unknown one":  {protocol.Request{ID: "4", Command: "test.nothing"}, string(protocol.UnknownCommand)},
	} {
		t.Run(name, func(t *testing.T) {
			in := n.inbound(nil)
			in.Request = &test.request
			n.AwaitWithin(t.Context(), in, func(r *protocol.Response) { wantSaid(t, r, test.says) })
			if test.request.Metadata.Timeout != 0 {
				t.Error("the request of the caller was changed")
			}
		})
	}
}
