package commands_test

import (
	"context"
	"runtime"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/protocol"
)

// ask waits for the response to a request that may be repeated under its id.
func (n *node) ask(ctx context.Context, id, command string, metadata ...string) <-chan *protocol.Response {
	answer := make(chan *protocol.Response, 2)
	go n.Await(ctx, n.inbound(envelope(id, command, `{}`, metadata...)), func(r *protocol.Response) { answer <- lasting(r) })
	return answer
}

// TestWhoWaitsRunsACallThatEndsWithItself where a worker is free, and no other call.
func TestWhoWaitsRunsACallThatEndsWithItself(t *testing.T) {
	here := func(context.Context, *commands.Call, text) (text, error) {
		stack := make([]byte, 64<<10)
		if strings.Contains(string(stack[:runtime.Stack(stack, false)]), ".Await(") {
			return text{"here"}, nil
		}
		return text{"elsewhere"}, nil
	}
	start, finish := make(chan struct{}), make(chan struct{})
	n := newNode(t, commands.RouterOptions{Workers: 1},
		commands.New(commands.Spec{Name: "test.think", Summary: "Think.", Effect: commands.Write, Action: "test:think", Abandonable: true}, here),
		commands.New(commands.Spec{Name: "test.write", Summary: "Write.", Effect: commands.Write, Action: "test:write"}, here),
		define("hold", commands.Write, func(context.Context, *commands.Call, string) (string, error) {
			start <- struct{}{}
			<-finish
			return "", nil
		}))
	wantSaid(t, <-n.ask(t.Context(), "1", "test.think"), `{"text":"here"}`)
	wantSaid(t, <-n.ask(t.Context(), "2", "test.write"), `{"text":"elsewhere"}`)

	held := n.submit("3", "test.hold", `{}`)
	<-start
	waiting := n.ask(t.Context(), "4", "test.think")
	eventually.Holds(t, "the call waits for the worker", func() bool { return n.Awaiting() == 1 })
	finish <- struct{}{}
	<-held
	// Whether the worker was free before the call came is not for the test to say.
	if r := <-waiting; r.Err != nil {
		t.Error(r.Err)
	}
	eventually.Holds(t, "the worker is free again", func() bool { // which it is soon after the answer
		return said(<-n.ask(t.Context(), protocol.NewID(), "test.think")) == `{"text":"here"}`
	})
}

// TestACallThatItsCallerRunsEndsWithTheCallerOrItsTime.
func TestACallThatItsCallerRunsEndsWithTheCallerOrItsTime(t *testing.T) {
	started, ended := make(chan struct{}, 2), make(chan error, 2)
	n := newNode(t, commands.RouterOptions{}, thinking(started, nil, ended, true))

	ctx, leave := context.WithCancel(t.Context())
	answer := n.ask(ctx, "1", "test.think")
	<-started
	leave()
	if err := <-ended; err == nil {
		t.Error("the call goes on without its caller")
	}
	wantSaid(t, <-answer, string(protocol.Cancelled))

	answer = n.ask(t.Context(), "2", "test.think", `"timeout":30`)
	<-started
	if err := <-ended; err == nil {
		t.Error("the call goes on when its time is over")
	}
	wantSaid(t, <-answer, string(protocol.TimedOut))
}

// TestCallersThatRunTheirCallsLeaveAtAnyMoment has them leave while they are answered.
func TestCallersThatRunTheirCallsLeaveAtAnyMoment(t *testing.T) {
	n := newNode(t, commands.RouterOptions{}, commands.New(
		commands.Spec{Name: "test.think", Summary: "Think.", Effect: commands.Read, Action: "test:think", Abandonable: true},
		func(ctx context.Context, _ *commands.Call, _ text) (text, error) { return text{"done"}, ctx.Err() }))
	for range 300 {
		ctx, leave := context.WithCancel(t.Context())
		go leave()
		if r := <-n.ask(ctx, protocol.NewID(), "test.think"); said(r) != `{"text":"done"}` && said(r) != string(protocol.Cancelled) {
			t.Fatalf("it is told %+v", r)
		}
	}
}
