package commands_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/bubble"
	"github.com/aibridge/aibridge/internal/clock"
	"github.com/aibridge/aibridge/protocol"
)

// counter is a command that takes a second, counts and repeats its text.
func counter(effect commands.Effect, ran *atomic.Int64) commands.Command {
	return define("count", effect, func(_ context.Context, _ *commands.Call, s string) (string, error) {
		n := ran.Add(1)
		time.Sleep(time.Second)
		if code, ok := strings.CutPrefix(s, "fail "); ok {
			return "", protocol.Errorf(protocol.Code(code), "failed")
		}
		return fmt.Sprint(s, n), nil
	})
}

func TestARepeatJoinsWhileItRunsAndReplaysAfterwards(t *testing.T) {
	for _, effect := range []commands.Effect{commands.Read, commands.Write, commands.Act} {
		bubble.Test(t, func(t *testing.T) {
			var ran atomic.Int64
			n := newNode(t, commands.RouterOptions{}, counter(effect, &ran))
			first := n.submit("1", "test.count", `{"text":"x"}`, `"trace_id":"a"`)
			synctest.Wait()
			second := n.submit("1", "test.count", `{"text":"x"}`, `"trace_id":"b"`)
			for i, answer := range []<-chan *protocol.Response{first, second} {
				r := <-answer
				wantSaid(t, r, `{"text":"x1"}`)
				if want := string(rune('a' + i)); r.Metadata.TraceID != want {
					t.Errorf("trace is %q, want %q", r.Metadata.TraceID, want)
				}
			}
			began := time.Now()
			wantSaid(t, n.call("1", "test.count", `{"text":"x"}`), `{"text":"x1"}`)
			if time.Since(began) > 0 {
				t.Error("a replay took time")
			}
			if ran.Load() != 1 {
				t.Errorf("%v ran %d times", effect, ran.Load())
			}
		})
	}
}

func TestAnIDBelongsToOneBodyOfOnePrincipal(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var ran atomic.Int64
		n := newNode(t, commands.RouterOptions{}, counter(commands.Write, &ran), define("hello", commands.Read, greet))
		running := n.submit("1", "test.count", `{"text":"x"}`)
		synctest.Wait()
		wantSaid(t, n.call("1", "test.count", `{"text":"y"}`), "1005")
		<-running
		wantSaid(t, n.call("1", "test.count", `{"text":"y"}`), "1005")
		wantSaid(t, n.call("1", "test.hello", `{"text":"x"}`), "1005")
		other := &node{n.Router, &protocol.Principal{ID: "bob", Space: protocol.DefaultSpace}}
		wantSaid(t, other.call("1", "test.count", `{"text":"y"}`), `{"text":"y2"}`)
		namesake := &node{n.Router, &protocol.Principal{ID: n.who.ID, Space: "elsewhere"}}
		wantSaid(t, namesake.call("1", "test.count", `{"text":"x"}`), `{"text":"x3"}`)
		otherKind := &node{n.Router, &protocol.Principal{Kind: protocol.KindAgent, ID: n.who.ID, Space: n.who.Space}}
		wantSaid(t, otherKind.call("1", "test.count", `{"text":"x"}`), `{"text":"x4"}`)
	})
}

func TestAnswersAreKeptUntilTimestampPlusTimeoutPlusSkew(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var ran atomic.Int64
		n := newNode(t, commands.RouterOptions{Skew: 10 * time.Second}, counter(commands.Write, &ran))
		call := func() { n.call("1", "test.count", `{"text":"x"}`, `"timeout":20000`) }
		call()
		time.Sleep(28 * time.Second)
		call() // prolongs it by another 30 s
		time.Sleep(29 * time.Second)
		call()
		if ran.Load() != 1 {
			t.Fatalf("ran %d times", ran.Load())
		}
		time.Sleep(33 * time.Second)
		call()
		if ran.Load() != 2 {
			t.Errorf("ran %d times after its answer had expired", ran.Load())
		}
	})
}

func TestAnAnswerThatInvitesARepeatIsNotKept(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var ran atomic.Int64
		n := newNode(t, commands.RouterOptions{}, counter(commands.Act, &ran))
		for code, kept := range map[protocol.Code]bool{protocol.Busy: false, protocol.StoreUnavailable: false, protocol.TargetUnavailable: false,
			protocol.NotFound: true, protocol.AgentOffline: true, protocol.TimedOut: true, protocol.Internal: true} {
			ran.Store(0)
			id, params := "id-"+string(code), fmt.Sprintf(`{"text":"fail %s"}`, string(code))
			first, second := n.submit(id, "test.count", params), n.submit(id, "test.count", params)
			wantSaid(t, <-first, string(code))
			wantSaid(t, <-second, string(code)) // it had joined
			wantSaid(t, n.call(id, "test.count", params), string(code))
			if want := map[bool]int64{true: 1, false: 2}[kept]; ran.Load() != want {
				t.Errorf("%v: ran %d times, want %d", code, ran.Load(), want)
			}
		}
	})
}

func TestACallerThatLeavesCancelsNothing(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var ran atomic.Int64
		n := newNode(t, commands.RouterOptions{}, counter(commands.Write, &ran))
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		r := n.Handle(ctx, n.inbound(envelope("1", "test.count", `{"text":"x"}`)))
		wantSaid(t, r, "4007")
		if r.ID != "1" {
			t.Errorf("answered as %q", r.ID)
		}
		wantSaid(t, n.call("1", "test.count", `{"text":"x"}`), `{"text":"x1"}`)
	})
}

func TestShortOfMemoryAnActIsNeverRunAgain(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var acts, reads atomic.Int64
		big := strings.Repeat("x", 1000)
		read := define("read", commands.Read, func(context.Context, *commands.Call, string) (string, error) {
			reads.Add(1)
			return big, nil
		})
		act := define("act", commands.Act, func(context.Context, *commands.Call, string) (string, error) {
			acts.Add(1)
			return big, nil
		})
		n := newNode(t, commands.RouterOptions{MaxAnswers: 3000}, read, act)
		n.call("act", "test.act", `{}`)
		n.call("read", "test.read", `{}`)
		wantSaid(t, n.call("act", "test.act", `{}`), `{"text":"`+big+`"}`)
		for i := range 5 {
			n.call(fmt.Sprint(i), "test.read", `{}`)
		}
		wantSaid(t, n.call("act", "test.act", `{}`), "4012")
		wantSaid(t, n.call("act", "test.act", `{"text":"other"}`), "1005")
		wantSaid(t, n.call("read", "test.read", `{}`), `{"text":"`+big+`"}`)
		if acts.Load() != 1 || reads.Load() != 7 {
			t.Errorf("%d acts, %d reads", acts.Load(), reads.Load())
		}
	})
}

// ledger is a Claims that survives its router.
type ledger struct {
	mu     sync.Mutex
	claims []commands.Claim
	delay  time.Duration
	err    error
}

func (l *ledger) Claim(ctx context.Context, c commands.Claim) error {
	select {
	case <-time.After(l.delay):
	case <-ctx.Done():
		return protocol.Errorf(protocol.StoreUnavailable, "too slow")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.claims = append(l.claims, c)
	}
	return l.err
}

func (l *ledger) Pending(yield func(commands.Claim) bool) {
	for _, c := range l.claims {
		if !yield(c) {
			return
		}
	}
}

func (l *ledger) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.err = err
}

func TestClaimsAreOfAKindAndASpaceAndOlderOnesOfEveryKind(t *testing.T) {
	for principal, again := range map[string]string{
		"default/operator/alice": "4012",
		"alice":                  "4012", // as they were written before kinds were
		"default/agent/alice":    `{"text":"x1"}`,
		"lab/operator/alice":     `{"text":"x1"}`,
		"lab/alice":              `{"text":"x1"}`,
	} {
		bubble.Test(t, func(t *testing.T) {
			var ran atomic.Int64
			claims, act := &ledger{}, counter(commands.Act, &ran)
			newNode(t, commands.RouterOptions{Claims: claims}, act).call("1", "test.count", `{"text":"x"}`)
			if got := claims.claims[0].Principal; got != "default/operator/alice" {
				t.Errorf("claimed for %q", got)
			}
			claims.claims[0].Principal = principal
			ran.Store(0)
			wantSaid(t, newNode(t, commands.RouterOptions{Claims: claims}, act).call("1", "test.count", `{"text":"x"}`), again)
		})
	}
}

// A plainDigester has the same key in every process: none.
type plainDigester struct{}

func (plainDigester) Digest(params []byte) (d commands.Digest) {
	sum := sha256.Sum256(params)
	copy(d[:], sum[:])
	return d
}

func TestTheSameWrittenOtherwiseIsAnotherRequest(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var ran atomic.Int64
		n := newNode(t, commands.RouterOptions{}, counter(commands.Act, &ran))
		wantSaid(t, n.call("1", "test.count", `{"text":"x"}`), `{"text":"x1"}`)
		wantSaid(t, n.call("1", "test.count", `{"text": "x"}`), "1005")
	})
}

func TestClaimsOfAnEarlierProcessAreAnsweredWithUnknownOutcome(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var ran atomic.Int64
		claims := &ledger{}
		act, write := counter(commands.Act, &ran), define("write", commands.Write, greet)
		before := newNode(t, commands.RouterOptions{Claims: claims, Digester: plainDigester{}}, act, write)
		before.call("1", "test.count", `{"text":"x"}`, `"timeout":5000`)
		before.call("2", "test.write", `{"text":"x"}`)
		if len(claims.claims) != 1 {
			t.Fatalf("%d claims", len(claims.claims))
		}
		stranger := newNode(t, commands.RouterOptions{Claims: claims}, act, write) // has another key
		wantSaid(t, stranger.call("1", "test.count", `{"text":"x"}`), "4012")
		wantSaid(t, stranger.call("1", "test.count", `{"text":"y"}`), "4012")
		after := newNode(t, commands.RouterOptions{Claims: claims, Digester: plainDigester{}}, act, write)
		wantSaid(t, after.call("1", "test.count", `{"text":"x"}`), "4012")
		wantSaid(t, after.call("1", "test.count", `{"text":"y"}`), "1005")
		wantSaid(t, after.call("2", "test.write", `{"text":"x"}`), `{"text":"hello x"}`)
		wantSaid(t, after.call("3", "test.count", `{"text":"x"}`), `{"text":"x2"}`)
		time.Sleep(2 * time.Minute)
		wantSaid(t, after.call("1", "test.count", `{"text":"x"}`), `{"text":"x3"}`)
	})
}

func TestAnActIsClaimedBeforeItRuns(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		claims := &ledger{delay: time.Second}
		var claimed int
		n := newNode(t, commands.RouterOptions{Claims: claims, Workers: 1}, define("act", commands.Act, func(context.Context, *commands.Call, string) (string, error) {
			claimed = len(claims.claims)
			return "done", nil
		}), define("hello", commands.Read, greet))
		acting := n.submit("1", "test.act", `{}`)
		synctest.Wait()
		began := time.Now()
		wantSaid(t, n.call("2", "test.hello", `{}`), `{"text":"hello "}`) // the only worker does not wait for the store
		if time.Since(began) > 0 {
			t.Error("claiming held the worker")
		}
		wantSaid(t, <-acting, `{"text":"done"}`)
		if claimed != 1 {
			t.Errorf("%d claims when it ran", claimed)
		}
	})
}

func TestWithoutItsClaimAnActDoesNotRun(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var ran atomic.Int64
		claims := &ledger{err: protocol.Errorf(protocol.StoreUnavailable, "away")}
		n := newNode(t, commands.RouterOptions{Claims: claims}, counter(commands.Act, &ran))
		wantSaid(t, n.call("1", "test.count", `{"text":"x"}`), "5001")
		claims.fail(fmt.Errorf("disk on fire"))
		wantSaid(t, n.call("1", "test.count", `{"text":"x"}`), "5000")
		if ran.Load() != 0 {
			t.Fatal("ran without a claim")
		}
		claims.fail(nil)
		wantSaid(t, n.call("1", "test.count", `{"text":"x"}`), `{"text":"x1"}`)
	})
}

// TestAtMostOnce plays random requests, repeats and waits against a model:
// whatever happens, no (principal, id) is executed twice within its time, and
// every request is answered once.
func TestAtMostOnce(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		bubble.Test(t, func(t *testing.T) {
			var mu sync.Mutex
			executed := map[string]int{}
			work := func(effect commands.Effect) commands.Command {
				return define(effect.String(), effect, func(_ context.Context, call *commands.Call, s string) (string, error) {
					mu.Lock()
					executed[call.Principal.ID+"/"+call.RequestID]++
					mu.Unlock()
					call.Park(context.Background(), func(context.Context) error {
						time.Sleep(time.Duration(len(s)) * 10 * time.Millisecond)
						return nil
					})
					return s, nil
				})
			}
			n := newNode(t, commands.RouterOptions{Workers: rapid.IntRange(1, 3).Draw(rt, "workers"), Claims: &ledger{delay: time.Millisecond}},
				work(commands.Read), work(commands.Write), work(commands.Act))
			var answers []<-chan *protocol.Response
			for range rapid.IntRange(1, 30).Draw(rt, "requests") {
				caller := &node{n.Router, &protocol.Principal{ID: rapid.SampledFrom([]string{"a", "b"}).Draw(rt, "who")}}
				answers = append(answers, caller.submit(
					rapid.SampledFrom([]string{"1", "2", "3"}).Draw(rt, "id"),
					"test."+rapid.SampledFrom([]string{"read", "write", "act"}).Draw(rt, "effect"),
					rapid.SampledFrom([]string{`{"text":"x"}`, `{ "text":"x"}`, `{"text":"xxxx"}`, `{}`, `{"text":7}`}).Draw(rt, "params"),
					rapid.SampledFrom([]string{`"priority":"low"`, `"priority":"high"`, `"timeout":20`}).Draw(rt, "metadata"),
				))
				if rapid.Bool().Draw(rt, "wait") {
					time.Sleep(time.Duration(rapid.IntRange(1, 50).Draw(rt, "ms")) * time.Millisecond)
				}
			}
			for _, answer := range answers {
				<-answer
			}
			time.Sleep(time.Second)
			for _, answer := range answers {
				if len(answer) > 0 {
					rt.Fatal("a request was answered twice")
				}
			}
			mu.Lock()
			defer mu.Unlock()
			for request, times := range executed {
				if times > 1 {
					rt.Fatalf("%s ran %d times", request, times)
				}
			}
		})
	})
}

func TestAClockThatWasBrieflyAheadForgetsNoRequest(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := clock.New()
		runs := 0
		set, err := commands.NewSet(commands.New(commands.Spec{Name: "test.act", Summary: "Act.", Effect: commands.Act, Action: "test:act", Example: `{}`},
			func(context.Context, *commands.Call, struct{}) (struct{}, error) { runs++; return struct{}{}, nil }))
		if err != nil {
			t.Fatal(err)
		}
		r := commands.NewRouter(set, commands.RouterOptions{Authorizer: commands.AllowAll{}, Clock: c, Now: c.Now})
		defer r.Close(context.Background())
		who := &protocol.Principal{ID: "p"}
		ask := func(id string) *protocol.Error {
			body := fmt.Sprintf(`{"version":"0.6.3","id":%q,"timestamp":%d,"type":"request","command":"test.act","params":{},"metadata":{}}`, id, c.Now().UnixMilli())
			return r.Handle(t.Context(), commands.Inbound{Principal: who, Body: []byte(body)}).Err
		}
		if err := ask("first"); err != nil {
			t.Fatal(err)
		}
		c.Step(time.Hour)
		if err := ask("meanwhile"); err != nil { // what has expired is looked for now
			t.Fatal(err)
		}
		c.Step(-time.Hour)
		if err := ask("first"); err != nil || runs != 2 {
			t.Errorf("two requests ran %d times; the repeat: %v", runs, err)
		}
	})
}
