package commands_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

// audience are those who wait, until it is cancelled.
type audience struct{ ctx context.Context }

func (a audience) Gone() context.Context { return a.ctx }

// thinking is a command that takes until it is told to end, and costs much.
// What ends it is sent to ended.
func thinking(started chan<- struct{}, finish <-chan string, ended chan<- error, abandonable bool) commands.Command {
	return commands.New(commands.Spec{Name: "test.think", Summary: "Think.", Effect: commands.Write, Action: "test:think", Abandonable: abandonable},
		func(ctx context.Context, call *commands.Call, _ text) (out text, err error) {
			started <- struct{}{}
			err = call.Park(ctx, func(ctx context.Context) error {
				select {
				case out.Text = <-finish:
				case <-ctx.Done():
				}
				return ctx.Err()
			})
			ended <- err
			return out, err
		})
}

func TestWhatNobodyWaitsForEndsIfItCostsMuch(t *testing.T) {
	for name, test := range map[string]struct {
		abandonable bool
		ask         func(n *node, gone context.Context) // returns when it is answered, or when gone has ended
	}{
		"a submitted one": {true, func(n *node, gone context.Context) {
			in := n.inbound(envelope("1", "test.think", `{}`))
			in.Audience = audience{gone}
			answered := make(chan struct{})
			n.Submit(in, func(*protocol.Response) { close(answered) })
			<-answered
		}},
		"one that is waited for": {true, func(n *node, gone context.Context) {
			n.Handle(gone, n.inbound(envelope("1", "test.think", `{}`)))
		}},
		"a cheap one": {false, func(n *node, gone context.Context) {
			n.Handle(gone, n.inbound(envelope("1", "test.think", `{}`)))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			started, finish, ended := make(chan struct{}, 2), make(chan string, 1), make(chan error, 2)
			n := newNode(t, commands.RouterOptions{}, thinking(started, finish, ended, test.abandonable))
			gone, leave := context.WithCancel(context.Background())
			defer leave()
			returned := make(chan struct{})
			go func() {
				defer close(returned)
				test.ask(n, gone)
			}()
			<-started
			leave()
			if !test.abandonable {
				<-returned
				finish <- "done"
				if err := <-ended; err != nil {
					t.Errorf("it ended with %v", err)
				}
				wantSaid(t, n.call("1", "test.think", `{}`), `{"text":"done"}`)
				return
			}
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Errorf("it ended with %v", err)
			}
			<-returned
			finish <- "again"
			for { // until the first one is out of the books
				r := n.call("1", "test.think", `{}`)
				if r.Err != nil && r.Err.Code == protocol.Cancelled {
					continue
				}
				wantSaid(t, r, `{"text":"again"}`)
				break
			}
		})
	}
}

// The change of an act that the store did not confirm may be made, and is not made a
// second time by a repeat. One of the bridge's own state is safe to repeat.
func TestAnActWhoseChangeIsNotConfirmedIsNotRunAgain(t *testing.T) {
	unconfirmed := protocol.Wrap(protocol.StoreUnavailable, protocol.ErrUnconfirmed, "the store is slow")
	for name, c := range map[string]struct {
		effect commands.Effect
		fails  error
		code   protocol.Code
		runs   int32
	}{
		"an act":                        {commands.Act, unconfirmed, protocol.OutcomeUnknown, 1},
		"an act that stored nothing":    {commands.Act, protocol.Errorf(protocol.StoreUnavailable, "the store is away"), protocol.StoreUnavailable, 2},
		"a write":                       {commands.Write, unconfirmed, protocol.StoreUnavailable, 2},
		"an act that wrapped the cause": {commands.Act, fmt.Errorf("starting: %w", unconfirmed), protocol.OutcomeUnknown, 1},
	} {
		t.Run(name, func(t *testing.T) {
			runs := new(atomic.Int32)
			n := newNode(t, commands.RouterOptions{}, commands.New(
				commands.Spec{Name: "test.change", Summary: "Change.", Effect: c.effect, Action: "test:change"},
				func(context.Context, *commands.Call, text) (text, error) {
					runs.Add(1)
					return text{}, c.fails
				}))
			for _, who := range []string{"the caller", "a repeat"} {
				if r := n.call("1", "test.change", `{}`); r.Err == nil || r.Err.Code != c.code {
					t.Errorf("%s gets %+v, not %s", who, r.Err, c.code)
				}
			}
			if got := runs.Load(); got != c.runs {
				t.Errorf("it ran %d times, not %d", got, c.runs)
			}
		})
	}
}

// A call that has acted is not run again, whatever keeps it from its end: its caller and
// all repeats learn that a part of it is done.
func TestWhatHasActedIsNotRunAgain(t *testing.T) {
	for name, fails := range map[string]*protocol.Error{
		"nobody waits":             nil,
		"its error asks to repeat": protocol.Errorf(protocol.LLMUnavailable, "the model is away").With("retry_after_ms", 5).With("tools", 1),
	} {
		t.Run(name, func(t *testing.T) {
			runs, started := new(atomic.Int32), make(chan struct{}, 2)
			n := newNode(t, commands.RouterOptions{}, commands.New(
				commands.Spec{Name: "test.act", Summary: "Act.", Effect: commands.Write, Action: "test:act", Abandonable: true},
				func(ctx context.Context, call *commands.Call, _ text) (text, error) {
					runs.Add(1)
					call.Acted()
					started <- struct{}{}
					if fails != nil {
						return text{}, fails
					}
					<-ctx.Done()
					return text{}, ctx.Err()
				}))
			gone, leave := context.WithCancel(context.Background())
			defer leave()
			in := n.inbound(envelope("1", "test.act", `{}`))
			in.Audience = audience{gone}
			answer := make(chan *protocol.Response, 1)
			n.Submit(in, func(r *protocol.Response) { answer <- lasting(r) })
			<-started
			leave()
			for who, r := range map[string]*protocol.Response{"the caller": <-answer, "a repeat": n.call("1", "test.act", `{}`)} {
				if r.Err == nil || r.Err.Code != protocol.OutcomeUnknown || r.Err.Details["retry_after_ms"] != nil {
					t.Errorf("%s gets %+v", who, r.Err)
				} else if fails != nil && (r.Err.Details["tools"] == nil || !strings.Contains(r.Err.Message, "the model is away")) {
					t.Errorf("%s does not learn why: %+v", who, r.Err)
				}
			}
			if n := runs.Load(); n != 1 {
				t.Errorf("it ran %d times", n)
			}
		})
	}
}

func TestWhatSomebodyElseWaitsForGoesOn(t *testing.T) {
	started, finish, ended := make(chan struct{}, 1), make(chan string, 1), make(chan error, 1)
	n := newNode(t, commands.RouterOptions{}, thinking(started, finish, ended, true))
	gone, leave := context.WithCancel(context.Background())
	in := n.inbound(envelope("1", "test.think", `{}`))
	in.Audience = audience{gone}
	n.Submit(in, func(*protocol.Response) {})
	<-started
	repeated := n.submit("1", "test.think", `{}`)
	for !n.Joined("1") {
		runtime.Gosched()
	}
	leave()
	finish <- "done"
	wantSaid(t, <-repeated, `{"text":"done"}`)
	if err := <-ended; err != nil {
		t.Errorf("it ended with %v", err)
	}
}

func TestAnAudienceThatIsNotKnownIsNotWatched(t *testing.T) {
	started, finish, ended := make(chan struct{}, 1), make(chan string, 1), make(chan error, 1)
	n := newNode(t, commands.RouterOptions{}, thinking(started, finish, ended, true))
	in := n.inbound(envelope("1", "test.think", `{}`))
	in.Audience = audience{}
	answer := make(chan *protocol.Response, 1)
	n.Submit(in, func(r *protocol.Response) { answer <- lasting(r) })
	<-started
	finish <- "done"
	wantSaid(t, <-answer, `{"text":"done"}`)
}
