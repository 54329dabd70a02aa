package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/bubble"
	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/protocol"
)

// acting is a tool that acts.
func acting(name string, run func(ctx context.Context, x *Execution) (Output, error)) *Tool {
	return &Tool{Declaration: Declaration{Name: name, Effect: commands.Act}, Run: run}
}

// reading is a tool that only reads.
func reading(name string, run func(ctx context.Context, x *Execution) (Output, error)) *Tool {
	t := acting(name, run)
	t.Effect = commands.Read
	return t
}

func says(text string) func(context.Context, *Execution) (Output, error) {
	return func(context.Context, *Execution) (Output, error) { return Output{Text: text}, nil }
}

func fails(err error) func(context.Context, *Execution) (Output, error) {
	return func(context.Context, *Execution) (Output, error) { return Output{}, err }
}

func calls(names ...string) []*chat.ToolCall {
	list := make([]*chat.ToolCall, len(names))
	for i, name := range names {
		list[i] = &chat.ToolCall{ID: fmt.Sprint("call-", i), Name: name, Args: json.RawMessage(`{}`)}
	}
	return list
}

func texts(results []Result) []string {
	list := make([]string, len(results))
	for i, r := range results {
		list[i] = string(r.Status) + " " + r.Text
	}
	return list
}

// TestACallKnowsWhetherItIsRecorded has what a tool runs put on record with the call.
func TestACallKnowsWhetherItIsRecorded(t *testing.T) {
	var recorded bool
	box := toolbox(t, acting("look", func(_ context.Context, x *Execution) (Output, error) {
		recorded = x.Recorded
		return Output{}, nil
	}))
	for _, record := range []func(context.Context, Environment, *Result){nil, func(context.Context, Environment, *Result) {}} {
		e := &Executor{Record: record}
		e.Execute(t.Context(), box, Environment{Recorded: true}, calls("look")) // whatever a caller says
		if recorded != (record != nil) {
			t.Errorf("it is told %v", recorded)
		}
	}
}

func TestWhateverHappensIsAResult(t *testing.T) {
	deadline := fails(context.DeadlineExceeded)
	box := toolbox(t,
		acting("fine", says("It is done.")),
		acting("silent", func(context.Context, *Execution) (Output, error) { return Output{}, nil }),
		acting("json", func(context.Context, *Execution) (Output, error) {
			return Output{Content: json.RawMessage(`{"on":true}`)}, nil
		}),
		acting("own-failure", func(context.Context, *Execution) (Output, error) {
			return Output{Text: "no such file", IsError: true}, nil
		}),
		acting("refused", fails(protocol.Errorf(protocol.PermissionDenied, "you may not do that."))),
		acting("secretive", fails(errors.New("password is 1234"))),
		acting("late", deadline),
		acting("panicking", func(context.Context, *Execution) (Output, error) { panic("password is 1234") }),
		acting("partial", func(context.Context, *Execution) (Output, error) {
			return Output{Content: json.RawMessage(`{"done":1}`)}, protocol.Errorf(protocol.InvalidState, "the second failed")
		}),
		acting("unended", func(context.Context, *Execution) (Output, error) { return Output{Text: "a\xff"}, nil }),
		&Tool{Declaration: Declaration{Name: "strict", Strict: true, Parameters: []Parameter{{Name: "n", Kind: Integer}}}, Run: says("ran")},
		&Tool{Declaration: Declaration{Name: "forgiving", Forgiving: true, Parameters: []Parameter{{Name: "n", Kind: Integer}}}, Run: func(_ context.Context, x *Execution) (Output, error) {
			return Output{Text: fmt.Sprint(x.Faults[0].Reason, " of ", string(x.Raw), ": ", string(x.ArgumentsJSON))}, nil
		}},
		&Tool{Declaration: Declaration{Name: "denied", Risk: RiskDeny}, Run: says("ran")},
		&Tool{Declaration: Declaration{Name: "risky", Risk: RiskAsk}, Run: says("ran")},
	)
	for _, c := range []struct {
		name, arguments, text string
		status                Status
		code                  protocol.Code
	}{
		{"fine", ``, "It is done.", Success, ""},
		{"FINE", ``, "It is done.", Success, ""},
		{"silent", ``, "Done.", Success, ""},
		{"json", ``, `{"on":true}`, Success, ""},
		{"own-failure", ``, "Error: no such file", Failed, protocol.Internal},
		{"refused", ``, "Error: you may not do that (code 2003)", Failed, protocol.PermissionDenied},
		{"secretive", ``, "Error: internal error (code 5000)", Failed, protocol.Internal},
		{"panicking", ``, "Error: the tool is broken (code 5000)", Failed, protocol.Internal},
		{"late", ``, "Error: timed out (code 4007)", Failed, protocol.TimedOut},
		{"partial", ``, "Error: the second failed (code 3006)\nBefore it failed: {\"done\":1}", Failed, protocol.InvalidState},
		{"unended", ``, "a�", Success, ""},
		{"strict", `{"n":"1"}`, "Error: Invalid arguments for the tool \"strict\": n: string coerced to integer.\nThe arguments were: {\"n\":\"1\"}\nThey must fit: {\"additionalProperties\":false,\"properties\":{\"n\":{\"type\":\"integer\"}},\"type\":\"object\"}", Failed, protocol.InvalidParameter},
		{"forgiving", `{"n":"x"}`, `n: "x" is not an integer of {"n":"x"}: {}`, Success, ""},
		{"denied", ``, `Error: the tool "denied" may not be called by a model: it declares the risk "deny" (code 2003)`, Failed, protocol.PermissionDenied},
		{"risky", ``, `Error: the tool "risky" needs an approval, and there is no decider here (code 2003)`, Failed, protocol.PermissionDenied},
		{"fin", ``, `Error: Tool "fin" not found. Did you mean "fine"?`, Failed, protocol.NotFound},
		{"xyzzy.plugh", ``, `Error: Tool "xyzzy.plugh" not found.`, Failed, protocol.NotFound},
		{"fine", `{"n":`, "Error: Invalid arguments for the tool \"fine\": json_parse_error:unexpected end at offset 5.\nThe arguments were: {\"n\":\nThey must fit: {\"additionalProperties\":false,\"properties\":{},\"type\":\"object\"}", Failed, protocol.InvalidParameter},
	} {
		t.Run(c.name+c.arguments, func(t *testing.T) {
			call := &chat.ToolCall{ID: "7", Name: c.name, Raw: c.arguments}
			r := new(Executor).Execute(t.Context(), box, Environment{}, []*chat.ToolCall{call})[0]
			if r.CallID != "7" || r.Name != c.name || r.Status != c.status || r.Text != c.text || protocol.CodeOf(r.Err) != c.code {
				t.Errorf("got %+v", r)
			}
		})
	}
}

func TestReadsRunSideBySideAndOthersInTheirOrder(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var log []string
		step := func(text string) {
			mu.Lock()
			defer mu.Unlock()
			log = append(log, text)
		}
		slow := func(took time.Duration) func(context.Context, *Execution) (Output, error) {
			return func(_ context.Context, x *Execution) (Output, error) {
				step("+" + x.CallID)
				time.Sleep(took)
				step("-" + x.CallID)
				return Output{Text: x.CallID}, nil
			}
		}
		box := toolbox(t, reading("long", slow(3*time.Second)), reading("short", slow(time.Second)), acting("act", slow(time.Second)))
		began := time.Now()
		results := new(Executor).Execute(t.Context(), box, Environment{}, calls("long", "short", "act", "act", "short", "nothing", "long"))
		for i, r := range results {
			if r.CallID != fmt.Sprint("call-", i) || (r.Status != Success) != (r.Name == "nothing") {
				t.Errorf("result %d is %s %s", i, r.CallID, r.Text)
			}
		}
		if took := time.Since(began); took != 8*time.Second {
			t.Errorf("they took %v", took)
		}
		acts := strings.Join(log[4:8], " ")
		if acts != "+call-2 -call-2 +call-3 -call-3" {
			t.Errorf("they ran %v", log)
		}
		became, elapsed := map[Status]int{}, time.Duration(0)
		for _, result := range results {
			became[result.Status]++
			elapsed += result.Elapsed
		}
		if len(results) != 7 || became[Success] != 6 || became[Failed] != 1 || elapsed != 10*time.Second {
			t.Errorf("%v of %d in %v", became, len(results), elapsed)
		}
	})
}

func TestNotMoreReadsRunAtOnceThanMay(t *testing.T) {
	var now, most atomic.Int32
	box := toolbox(t, reading("read", func(context.Context, *Execution) (Output, error) {
		if n := now.Add(1); n > most.Load() {
			most.Store(n)
		}
		defer now.Add(-1)
		return Output{}, nil
	}))
	e := &Executor{Parallel: 3}
	e.Execute(t.Context(), box, Environment{}, calls(strings.Split(strings.Repeat("read ", 50)+"read", " ")...))
	if most.Load() > 3 {
		t.Errorf("%d ran at once", most.Load())
	}
}

func TestACallEndsInItsTime(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		quick := acting("quick", func(ctx context.Context, _ *Execution) (Output, error) {
			<-ctx.Done()
			return Output{}, ctx.Err()
		})
		quick.Timeout = 2 * time.Second
		released := make(chan struct{})
		deaf := acting("deaf", func(context.Context, *Execution) (Output, error) {
			<-released
			return Output{Text: "too late"}, nil
		})
		box := toolbox(t, quick, deaf)
		results := new(Executor).Execute(t.Context(), box, Environment{}, calls("quick", "deaf"))
		for i, want := range []string{
			"Error: timed out after 2s; whether it has taken effect is not known (code 4007)",
			"Error: timed out after 2m0s; whether it has taken effect is not known (code 4007)",
		} {
			if results[i].Text != want || results[i].Status != Failed {
				t.Errorf("got %s %s", results[i].Status, results[i].Text)
			}
		}
		if results[0].Elapsed != 2*time.Second || results[1].Elapsed != 121*time.Second {
			t.Errorf("they took %v and %v", results[0].Elapsed, results[1].Elapsed)
		}
		close(released)
	})
}

func TestWhatIsCancelledIsSkipped(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	box := toolbox(t,
		acting("first", says("ran")),
		acting("second", func(ctx context.Context, _ *Execution) (Output, error) {
			cancel()
			<-ctx.Done()
			return Output{}, ctx.Err()
		}),
	)
	results := new(Executor).Execute(ctx, box, Environment{}, calls("first", "second", "first"))
	want := []string{"Success ran", "Skipped Error: cancelled (code 4013)", "Skipped Error: not run: the turn was cancelled before it."}
	if got := texts(results); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %q", got)
	}
	for _, r := range results[1:] {
		if protocol.CodeOf(r.Err) != protocol.Cancelled {
			t.Errorf("%v", r.Err)
		}
	}
}

func TestPassingFailuresAreTriedAgainWhereThatDoesNoHarm(t *testing.T) {
	unavailable, busy := protocol.Errorf(protocol.TargetUnavailable, "gone"), protocol.BusyFor(3*time.Second, "busy")
	for name, c := range map[string]struct {
		tool     Declaration
		err      error
		attempts int
		took     time.Duration
	}{
		"a read":                        {Declaration{Effect: commands.Read}, unavailable, 3, 750 * time.Millisecond},
		"what may be repeated":          {Declaration{Effect: commands.Act, Idempotent: true}, unavailable, 3, 750 * time.Millisecond},
		"what may have taken effect":    {Declaration{Effect: commands.Act}, unavailable, 1, 0},
		"what was not begun":            {Declaration{Effect: commands.Act}, busy, 3, 6 * time.Second},
		"what will not get better":      {Declaration{Effect: commands.Read}, protocol.Errorf(protocol.NotFound, "no"), 1, 0},
		"what there is no time left to": {Declaration{Effect: commands.Act, Timeout: 4 * time.Second}, busy, 2, 3 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				n := 0
				c.tool.Name = "tool"
				box := toolbox(t, &Tool{Declaration: c.tool, Run: func(context.Context, *Execution) (Output, error) {
					n++
					return Output{}, c.err
				}})
				r := new(Executor).Execute(t.Context(), box, Environment{}, calls("tool"))[0]
				if n != c.attempts || r.Elapsed != c.took || !errors.Is(r.Err, c.err) {
					t.Errorf("%d attempts in %v, %v", n, r.Elapsed, r.Err)
				}
			})
		})
	}
	n := 0
	box := toolbox(t, reading("moody", func(context.Context, *Execution) (Output, error) {
		if n++; n < 3 {
			return Output{}, unavailable
		}
		return Output{Text: "there"}, nil
	}))
	e := &Executor{Backoff: time.Millisecond}
	if r := e.Execute(t.Context(), box, Environment{}, calls("moody"))[0]; r.Status != Success || r.Text != "there" {
		t.Errorf("got %s %s", r.Status, r.Text)
	}
}

func TestAFatalErrorEndsTheTurn(t *testing.T) {
	box := toolbox(t, acting("expired", fails(protocol.Errorf(protocol.CredentialInvalid, "the key has expired"))), acting("other", says("ran")))
	results := new(Executor).Execute(t.Context(), box, Environment{}, calls("other", "expired", "other"))
	if !results[1].Fatal || results[1].Status != Failed || results[0].Fatal {
		t.Errorf("got %+v", results[1])
	}
	if results[2].Status != Skipped || results[2].Text != "Error: not run: an earlier call showed that none can succeed now." {
		t.Errorf("got %+v", results[2])
	}
	for _, code := range protocol.Codes() {
		fatal := code == protocol.NotAuthenticated || code == protocol.CredentialInvalid || code == protocol.BudgetSpent || code == protocol.ShuttingDown
		if got := ClassOf(protocol.Errorf(code, "")); (got == Fatal) != fatal || !fatal && (got == Passing) != (code.Retry() != protocol.RetryNever) {
			t.Errorf("%s is of class %d", string(code), got)
		}
	}
}

func TestAGateDecidesAboutEveryCall(t *testing.T) {
	ran := 0
	count := func(context.Context, *Execution) (Output, error) { ran++; return Output{}, nil }
	group := acting("group", count)
	group.Resolve = func(_ context.Context, x *Execution) error {
		x.Roster, x.Risk, x.ArgumentsJSON = []string{"a", "b"}, Stricter(x.Risk, RiskAsk), json.RawMessage(`{"skill_ids":["a","b"]}`)
		return nil
	}
	lost := acting("lost", count)
	lost.Resolve = func(context.Context, *Execution) error { return protocol.Errorf(protocol.NotFound, "no such group") }
	box := toolbox(t, acting("plain", count), group, lost)

	var asked []string
	e := &Executor{Gate: func(_ context.Context, tool *Tool, x *Execution) error {
		asked = append(asked, fmt.Sprint(tool.Name, " ", tool.Risk, " ", x.Risk, " ", x.Roster, " ", string(x.ArgumentsJSON)))
		if tool.Risk == RiskAsk {
			return protocol.Errorf(protocol.PermissionDenied, "nobody agreed")
		}
		return nil
	}}
	got := texts(e.Execute(t.Context(), box, Environment{}, calls("plain", "group", "lost")))
	want := []string{"Success Done.", "Failed Error: nobody agreed (code 2003)", "Failed Error: no such group (code 3001)"}
	if fmt.Sprint(got) != fmt.Sprint(want) || ran != 1 {
		t.Errorf("got %q, %d ran", got, ran)
	}
	if fmt.Sprint(asked) != `[plain   [] {} group ask ask [a b] {"skill_ids":["a","b"]}]` {
		t.Errorf("asked %q", asked)
	}
	if r := new(Executor).Execute(t.Context(), box, Environment{}, calls("group"))[0]; r.Status != Failed || ran != 1 {
		t.Errorf("without a gate: %s %s", r.Status, r.Text)
	}
	e.Gate = func(context.Context, *Tool, *Execution) error { panic("broken") }
	if r := e.Execute(t.Context(), box, Environment{}, calls("plain"))[0]; r.Status != Failed || ran != 1 {
		t.Errorf("with a broken gate: %s %s", r.Status, r.Text)
	}
}

func TestCallsWithinCallsAreBounded(t *testing.T) {
	var box *Toolbox
	e := new(Executor)
	depth := 0
	box = toolbox(t, reading("again", func(ctx context.Context, x *Execution) (Output, error) {
		depth = x.Depth
		r := e.Execute(ctx, box, x.Environment, calls("again"))[0]
		return r.Output, r.Err
	}))
	r := e.Execute(t.Context(), box, Environment{}, calls("again"))[0]
	if depth != MaxDepth || protocol.CodeOf(r.Err) != protocol.LimitReached {
		t.Errorf("%d deep, %v", depth, r.Err)
	}
}

func TestLongResultsAreCutWhereACharacterEnds(t *testing.T) {
	e := &Executor{MaxText: 10}
	box := toolbox(t, acting("long", says(strings.Repeat("é", 10))))
	if r := e.Execute(t.Context(), box, Environment{}, calls("long"))[0]; r.Text != "ééééé\n[10 of 20 bytes were left out]" {
		t.Errorf("got %q", r.Text)
	}
	e.MaxText = 9
	if r := e.Execute(t.Context(), box, Environment{}, calls("long"))[0]; r.Text != "éééé\n[12 of 20 bytes were left out]" {
		t.Errorf("got %q", r.Text)
	}
}

func TestTheRecordKeepsWhatTheModelWrote(t *testing.T) {
	const raw = "{ \"n\" : \"5\", // five\n \"more\":[1], }"
	var seen *Execution
	box := toolbox(t, &Tool{Declaration: Declaration{Name: "note", Parameters: []Parameter{{Name: "n", Kind: Integer, Required: true}}}, Run: func(_ context.Context, x *Execution) (Output, error) {
		seen = x
		return Output{}, nil
	}})
	env := Environment{Principal: &protocol.Principal{ID: "ada"}, Session: "s", TraceID: "t", Task: "k"}
	r := new(Executor).Execute(t.Context(), box, env, []*chat.ToolCall{{ID: "1", Name: "note", Raw: raw}})[0]
	if string(seen.Raw) != raw || string(seen.ArgumentsJSON) != `{"n":5}` || seen.Arguments["n"] != int64(5) || len(seen.Warnings) != 2 || r.Warning != "string coerced to integer; unknown_parameter:more" {
		t.Errorf("got %+v", seen)
	}
	if seen.Principal != env.Principal || seen.Session != "s" || seen.TraceID != "t" || seen.Task != "k" || seen.Depth != 1 || seen.CallID != "1" {
		t.Errorf("got %+v", seen.Environment)
	}
}
