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
	go func() { answer <- n.HandleWithin(ctx, n.inbound(envelope("1", "test.hang", `{}`))) }()
	<-started
	cancel()
	wantSaid(t, <-answer, string(protocol.Cancelled))
	if err := <-ended; err == nil {
		t.Error("the context of the call did not end")
	}
}
