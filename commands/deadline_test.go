package commands_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/bubble"
	"github.com/aibridge/aibridge/protocol"
)

// stubborn ignores its context for the given time.
func stubborn(d time.Duration) commands.Command {
	return define("stubborn", commands.Write, func(context.Context, *commands.Call, string) (string, error) {
		time.Sleep(d)
		return "at last", nil
	})
}

func TestADeadlineIsAnsweredEvenIfTheHandlerDoesNotReturn(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		n := newNode(t, commands.RouterOptions{}, stubborn(10*time.Second))
		began := time.Now()
		r := n.call("1", "test.stubborn", `{}`, `"timeout":1500`)
		wantSaid(t, r, "4007")
		if took := time.Since(began); took != 1500*time.Millisecond || r.Err.Details["timeout_ms"] != int64(1500) {
			t.Errorf("answered after %v with %v", took, r.Err.Details)
		}
		time.Sleep(5 * time.Second) // still running: a repeat joins it
		wantSaid(t, n.call("1", "test.stubborn", `{}`, `"timeout":10000`), `{"text":"at last"}`)
		wantSaid(t, n.call("1", "test.stubborn", `{}`), `{"text":"at last"}`)
	})
}

func TestAJoinedCallHasItsOwnDeadline(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		n := newNode(t, commands.RouterOptions{MaxInFlight: 8}, stubborn(10*time.Second))
		first := n.submit("1", "test.stubborn", `{}`, `"timeout":20000`)
		for range 20 { // those that have left make room again
			wantSaid(t, n.call("1", "test.stubborn", `{}`, `"timeout":100`), "4007")
		}
		wantSaid(t, <-first, `{"text":"at last"}`)
	})
}

type key struct{}

func TestTheContextOfAHandler(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var seen, derived error
		n := newNode(t, commands.RouterOptions{}, define("wait", commands.Read, func(ctx context.Context, call *commands.Call, _ string) (string, error) {
			if at, ok := ctx.Deadline(); !ok || time.Until(at) != time.Second || !at.Equal(call.Deadline) {
				t.Errorf("the deadline is %v, the call's %v", at, call.Deadline)
			}
			inner, cancel := context.WithTimeout(context.WithValue(ctx, key{}, "v"), time.Minute)
			defer cancel()
			other, cancelOther := context.WithCancel(ctx)
			defer cancelOther()
			<-inner.Done()
			<-other.Done()
			seen, derived = ctx.Err(), inner.Err()
			return "", ctx.Err()
		}))
		wantSaid(t, n.call("1", "test.wait", `{}`, `"timeout":1000`), "4007")
		synctest.Wait()
		if seen != context.DeadlineExceeded || derived != context.DeadlineExceeded {
			t.Errorf("contexts ended with %v and %v", seen, derived)
		}
	})
}

func TestMessageExpiryBoundsTheDeadline(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		n := newNode(t, commands.RouterOptions{}, stubborn(5*time.Second))
		in := n.inbound(envelope("1", "test.stubborn", `{}`))
		in.Expiry = 2 * time.Second
		began := time.Now()
		wantSaid(t, n.Handle(t.Context(), in), "4007")
		if took := time.Since(began); took != 2*time.Second {
			t.Errorf("answered after %v", took)
		}
	})
}

func TestTimestamps(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		n := newNode(t, commands.RouterOptions{}, define("hello", commands.Read, greet))
		at := func(id string, age time.Duration) *protocol.Response {
			stamp := fmt.Sprintf(`"timestamp":%d`, time.Now().Add(-age).UnixMilli())
			body := strings.Replace(string(envelope(id, "test.hello", `{}`, `"timeout":10000`)), `"timestamp":0`, stamp, 1)
			return n.Handle(t.Context(), n.inbound([]byte(body)))
		}
		const ok = `{"text":"hello "}`
		wantSaid(t, at("1", 0), ok)
		wantSaid(t, at("2", 70*time.Second), ok) // timeout and skew
		expired := at("3", 71*time.Second)
		wantSaid(t, expired, "1006")
		if expired.Err.Details["age_ms"] != int64(71000) {
			t.Errorf("details %v", expired.Err.Details)
		}
		ahead := at("4", -time.Minute)
		wantSaid(t, ahead, ok)
		if len(ahead.Metadata.Warnings) != 0 {
			t.Errorf("warned about the usual skew: %v", ahead.Metadata.Warnings)
		}
		wrong := at("5", -time.Hour)
		wantSaid(t, wrong, ok)
		if len(wrong.Metadata.Warnings) != 1 {
			t.Errorf("no warning about a clock that is wrong")
		}
	})
}

func TestACallThatWaitedTooLongForAWorkerNeverRuns(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		ran := false
		n := newNode(t, commands.RouterOptions{Workers: 1}, stubborn(10*time.Second), define("mark", commands.Act,
			func(context.Context, *commands.Call, string) (string, error) { ran = true; return "", nil }))
		blocking := n.submit("1", "test.stubborn", `{}`)
		synctest.Wait()
		wantSaid(t, n.call("2", "test.mark", `{}`, `"timeout":1000`), "4007")
		<-blocking
		synctest.Wait()
		if ran {
			t.Error("it ran after its deadline")
		}
		wantSaid(t, n.call("2", "test.mark", `{}`), `{}`) // it had never begun
	})
}

func TestAHandlerThatDoesNotReturnLosesItsWorker(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		n := newNode(t, commands.RouterOptions{Workers: 1}, stubborn(9*time.Second), define("hello", commands.Read, greet))
		hung := n.submit("1", "test.stubborn", `{}`, `"timeout":1000`)
		synctest.Wait()
		began := time.Now()
		wantSaid(t, n.call("2", "test.hello", `{}`), `{"text":"hello "}`)
		if took := time.Since(began); took != time.Second {
			t.Errorf("the next one had to wait %v", took)
		}
		wantSaid(t, <-hung, "4007")
		time.Sleep(10 * time.Second)
		wantSaid(t, n.call("1", "test.stubborn", `{}`), `{"text":"at last"}`) // it did run, once
		wantSaid(t, n.call("3", "test.hello", `{}`), `{"text":"hello "}`)     // and there is still one worker
	})
}

func TestAnActIsNotRunLate(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		ran := 0
		claims := &unhurried{}
		n := newNode(t, commands.RouterOptions{Claims: claims}, define("act", commands.Act, func(context.Context, *commands.Call, string) (string, error) {
			ran++
			return "", nil
		}))
		wantSaid(t, n.call("1", "test.act", `{}`, `"timeout":1000`), "4007")
		time.Sleep(5 * time.Second)
		if ran != 0 {
			t.Error("it ran after the caller was told that it had timed out")
		}
		wantSaid(t, n.call("1", "test.act", `{}`), `{}`)
	})
}

// unhurried claims take three seconds and do not care for contexts.
type unhurried struct{ ledger }

func (u *unhurried) Claim(context.Context, commands.Claim) error {
	time.Sleep(3 * time.Second)
	return nil
}
