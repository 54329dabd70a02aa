package loop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/bubble"
	"github.com/aibridge/aibridge/internal/leaks"
	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/llm/model"
	"github.com/aibridge/aibridge/llm/tools"
	"github.com/aibridge/aibridge/protocol"
)

func TestMain(m *testing.M) { leaks.Verify(m) }

var alice = &protocol.Principal{Kind: protocol.KindOperator, ID: "alice", Space: protocol.DefaultSpace}

// A scripted model answers with its script, the last line again and again, and checks
// that every conversation it is shown is whole.
type scripted struct {
	t      testing.TB
	script []line

	mu    sync.Mutex
	asked []chat.Request
}

// A line is an answer: a text, and calls written as "name {json}".
type line struct {
	text  string
	calls []string
	hangs bool
	err   error
}

func (m *scripted) Ask(ctx context.Context, q model.Question, emit func(chat.Event) error) (*model.Reply, error) {
	m.mu.Lock()
	n := len(m.asked)
	m.asked = append(m.asked, q.Request)
	l := m.script[min(n, len(m.script)-1)]
	m.mu.Unlock()
	if err := chat.Complete(slices.Clone(q.Request.Messages)); err != nil {
		m.t.Errorf("asked with a broken conversation: %v", err)
	}
	if l.hangs {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	if l.err != nil {
		return nil, l.err
	}
	a := &chat.Answer{Finish: chat.Finish{Reason: chat.EndTurn, Usage: chat.Usage{Input: 10, Output: 5}}}
	if l.text != "" {
		a.Segments = append(a.Segments, chat.Segment{Type: chat.Text, Text: l.text})
	}
	for i, c := range l.calls {
		name, args, _ := strings.Cut(c, " ")
		call := &chat.ToolCall{ID: fmt.Sprintf("call_%d", i), Name: name, Args: json.RawMessage(args)} // counted anew, as some do
		if args == "" {
			call.Args = json.RawMessage("{}")
		}
		a.Segments = append(a.Segments, chat.Segment{Type: chat.Call, ToolCall: call})
		a.Finish.Reason = chat.ToolUse
	}
	if emit != nil {
		for i, s := range a.Segments {
			e := chat.Event{Type: chat.TextDelta, Index: i, Text: s.Text}
			if s.Type == chat.Call {
				e = chat.Event{Type: chat.ToolCallEnd, Index: i, Call: s.ToolCall}
			}
			if err := emit(e); err != nil {
				return nil, err
			}
		}
		if err := emit(chat.Event{Type: chat.Finished, Index: len(a.Segments), Finish: &a.Finish}); err != nil {
			return nil, err
		}
	}
	return &model.Reply{Answer: a, Usage: a.Finish.Usage, Model: "m", Cost: 1, Took: time.Second, From: "provider"}, nil
}

// last is the last question to the model.
func (m *scripted) last() chat.Request {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.asked[len(m.asked)-1]
}

// told are the messages in short, one a line.
func told(messages []chat.Message) string {
	var b strings.Builder
	for _, m := range messages {
		fmt.Fprintf(&b, "%s:", m.Role)
		for _, s := range m.Segments {
			if s.Type == chat.Call {
				fmt.Fprintf(&b, " [%s]", s.ToolCall.Name)
			} else {
				text, _, _ := strings.Cut(s.Text, " (code")
				fmt.Fprintf(&b, " %.60s", text)
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}

type given []*tools.Tool

func (g given) Tools(context.Context, tools.Environment) ([]*tools.Tool, error) { return g, nil }
func (g given) Revision() string                                                { return "1" }

func tool(name string, run func(ctx context.Context, x *tools.Execution) (tools.Output, error)) *tools.Tool {
	return &tools.Tool{Declaration: tools.Declaration{Name: name, Description: "For tests.", Schema: json.RawMessage(`{"type":"object"}`), Effect: commands.Act}, Run: run}
}

var (
	fine = tool("fine", func(context.Context, *tools.Execution) (tools.Output, error) { return tools.Output{Text: "ok"}, nil })
	bad  = tool("bad", func(context.Context, *tools.Execution) (tools.Output, error) {
		return tools.Output{}, protocol.Errorf(protocol.InvalidState, "broken")
	})
)

// talk runs a script.
type talk struct {
	*scripted
	*Runner
}

func newTalk(t testing.TB, l Limits, script []line, list ...*tools.Tool) *talk {
	t.Helper()
	m := &scripted{t: t, script: script}
	if len(list) == 0 {
		list = []*tools.Tool{fine, bad}
	}
	return &talk{m, New(Options{Model: m, Tools: tools.New(given(list)), Executor: &tools.Executor{}, Limits: l})}
}

func (k *talk) converse(ctx context.Context, health *Health) (*Turn, error) {
	return k.Converse(ctx, asking(health), nil)
}

func asking(health *Health) Conversation {
	return Conversation{
		Question: model.Question{Principal: alice, Request: chat.Request{Messages: []chat.Message{chat.TextMessage(chat.User, "Do it.")}}},
		Tools:    []string{"*"}, Health: health, TraceID: "trace",
	}
}

// whole checks that a turn can be gone on with.
func whole(t testing.TB, turn *Turn) {
	t.Helper()
	list := append([]chat.Message{chat.TextMessage(chat.User, "Do it.")}, turn.Messages...)
	if err := chat.Complete(list); err != nil {
		t.Errorf("the conversation is broken: %v\n%s", err, told(list))
	}
}

func TestCallsAreAnsweredInOrderUntilThereIsAnAnswer(t *testing.T) {
	k := newTalk(t, Limits{}, []line{{"I look.", []string{"fine {}", "bad {}", "fine {}"}, false, nil}, {calls: []string{"fine {}"}}, {text: "Done."}})
	var events []string
	c := asking(nil)
	c.Tell = func(name string, data any) { events = append(events, name) }
	turn, err := k.Converse(t.Context(), c, nil)
	if err != nil {
		t.Fatal(err)
	}
	whole(t, turn)
	if got, want := told(turn.Messages), `assistant: I look. [fine] [bad] [fine]
tool: ok
tool: Error: broken
tool: ok
assistant: [fine]
tool: ok
assistant: Done.
`; got != want {
		t.Errorf("got\n%s", got)
	}
	use := turn.Tools
	if turn.Answer.Text() != "Done." || turn.Usage.Total() != 45 || turn.Cost != 3 || turn.Took != 3*time.Second || use.Rounds != 3 || use.Success != 3 || use.Failed != 1 || use.Stop != "" {
		t.Errorf("got %+v %+v", turn.Reply, use)
	}
	if use.Calls[1].Code != protocol.InvalidState || use.Calls[1].Status != "Failed" {
		t.Errorf("reported %+v", use.Calls[1])
	}
	if got := strings.Join(events, " "); got != "llm.tool_call llm.tool_call llm.tool_call llm.tool_result llm.tool_result llm.tool_result llm.tool_call llm.tool_result" {
		t.Errorf("heard %s", got)
	}
	first, again := turn.Messages[0].Segments[1].ToolCall.ID, turn.Messages[4].Segments[0].ToolCall.ID
	if first == again {
		t.Error("an id is used twice")
	}
}

func TestStreamsAreOne(t *testing.T) {
	k := newTalk(t, Limits{}, []line{{"I look.", []string{"fine {}"}, false, nil}, {text: "Done."}})
	var fold chat.Folder
	var kinds []string
	if _, err := k.Converse(t.Context(), asking(nil), func(e chat.Event) error {
		kinds = append(kinds, fmt.Sprint(e.Index, " ", e.Type))
		return fold.Add(e)
	}); err != nil {
		t.Fatal(err)
	}
	a, err := fold.Answer()
	if err != nil || a.Text() != "I look.Done." || a.Finish.Usage.Total() != 30 {
		t.Errorf("got %+v, %v", a, err)
	}
	if got := strings.Join(kinds, ", "); got != "0 text_delta, 1 tool_call_end, 2 text_delta, 3 finish" {
		t.Errorf("heard %s", got)
	}
	gone := errors.New("gone")
	if _, err := k.Converse(t.Context(), asking(nil), func(chat.Event) error { return gone }); !errors.Is(err, gone) {
		t.Errorf("a listener that has gone: %v", err)
	}
}

func TestRoundsAreLimited(t *testing.T) {
	for name, test := range map[string]struct {
		max, limit, want int
		obeys            bool
	}{"the default": {0, 0, 10, true}, "fewer": {3, 0, 3, true}, "more than the limit": {50, 4, 4, true}, "a model that does not listen": {2, 0, 2, false}} {
		script := []line{}
		for range test.want {
			script = append(script, line{calls: []string{"fine {}"}})
		}
		if test.obeys {
			script = append(script, line{text: "As far as I know."})
		}
		k := newTalk(t, Limits{Rounds: test.limit}, script)
		c := asking(nil)
		c.MaxRounds = test.max
		turn, err := k.Converse(t.Context(), c, nil)
		if err != nil {
			t.Fatal(err)
		}
		whole(t, turn)
		r := k.last()
		if turn.Tools.Stop != "rounds" || turn.Tools.Rounds != test.want+1 || turn.Tools.Success != test.want || r.Options.ToolChoice.Mode != "none" || len(r.Tools) != 2 {
			t.Errorf("%s: %+v", name, turn.Tools)
		}
		if said := r.Messages[len(r.Messages)-1]; said.Role != chat.User || !strings.Contains(told([]chat.Message{said}), fmt.Sprintf("limit of %d rounds", test.want)) {
			t.Errorf("%s: the model was told %s", name, told([]chat.Message{said}))
		}
		if end := turn.Messages[len(turn.Messages)-1]; !test.obeys && (turn.Tools.Skipped != 1 || end.Role != chat.ToolRole || !end.Failed) {
			t.Errorf("%s: ends with %s", name, told(turn.Messages))
		}
	}
}

func TestCallsAreLimited(t *testing.T) {
	k := newTalk(t, Limits{Calls: 3}, []line{{calls: []string{"fine {}", "fine {}"}}, {calls: []string{"fine {}", "fine {}", "fine {}"}}, {text: "Enough."}})
	turn, err := k.converse(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	whole(t, turn)
	if turn.Tools.Stop != "calls" || turn.Tools.Success != 3 || turn.Tools.Skipped != 2 || turn.Answer.Text() != "Enough." || !strings.Contains(told(turn.Messages), "Skipped: the limit of 3 calls is reached.") {
		t.Errorf("%+v\n%s", turn.Tools, told(turn.Messages))
	}
}

func TestTokensAreLimited(t *testing.T) {
	k := newTalk(t, Limits{Tokens: 40}, []line{{"a", []string{"fine {}"}, false, nil}})
	turn, err := k.converse(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	whole(t, turn)
	if turn.Tools.Stop != "tokens" || turn.Tools.Rounds != 3 || turn.Tools.Skipped != 1 || turn.Usage.Total() != 45 || turn.Answer.Finish.Detail == "" {
		t.Errorf("%+v", turn.Tools)
	}
}

func TestTimeIsLimited(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		slow := tool("slow", func(ctx context.Context, _ *tools.Execution) (tools.Output, error) {
			<-ctx.Done()
			return tools.Output{}, ctx.Err()
		})
		for name, script := range map[string][]line{
			"while it thinks":   {{"I look.", []string{"fine {}"}, false, nil}, {hangs: true}},
			"while a tool runs": {{"I look.", []string{"slow {}", "fine {}"}, false, nil}},
		} {
			for _, left := range []time.Duration{0, 10 * time.Second} {
				k := newTalk(t, Limits{Time: time.Minute}, script, fine, slow)
				ctx, cancel := t.Context(), func() {}
				want := time.Minute
				if left > 0 {
					ctx, cancel = context.WithTimeout(ctx, left)
					want = left - margin
				}
				start := time.Now()
				turn, err := k.converse(ctx, nil)
				cancel()
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				whole(t, turn)
				if took := time.Since(start); turn.Tools.Stop != "time" || took != want || turn.Answer.Text() != "I look." {
					t.Errorf("%s: %+v after %s", name, turn.Tools, took)
				}
			}
		}
		k := newTalk(t, Limits{Time: time.Minute}, []line{{hangs: true}})
		if turn, err := k.converse(t.Context(), nil); protocol.CodeOf(err) != protocol.TimedOut || len(turn.Messages) != 0 {
			t.Errorf("without a word: %v", err)
		}
	})
}

func TestCancellationLeavesAWholeConversation(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	last := tool("last", func(context.Context, *tools.Execution) (tools.Output, error) {
		cancel()
		return tools.Output{Text: "ok"}, nil
	})
	k := newTalk(t, Limits{}, []line{{calls: []string{"last {}", "fine {}", "fine {}"}}}, fine, last)
	turn, err := k.converse(ctx, nil)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	whole(t, turn)
	var states []string
	for _, m := range turn.Messages[1:] {
		states = append(states, fmt.Sprint(m.Failed))
	}
	if got := strings.Join(states, " "); got != "false true true" || !strings.Contains(told(turn.Messages), "not run") {
		t.Errorf("got %s\n%s", got, told(turn.Messages))
	}
}

func TestThreeIdenticalFailuresAreWarnedOfBehindTheResults(t *testing.T) {
	k := newTalk(t, Limits{}, []line{
		{calls: []string{`bad {"a":1}`, `bad {"a":2}`, "fine {}"}}, {calls: []string{`bad { "a": 1 }`, "fine {}"}}, {calls: []string{`bad {"a":1}`, "fine {}"}}, {text: "I stop."},
	})
	turn, err := k.converse(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	whole(t, turn)
	messages := k.last().Messages
	warning, before := messages[len(messages)-1], messages[len(messages)-2]
	if warning.Role != chat.User || before.Role != chat.ToolRole || !strings.Contains(warning.Segments[0].Text, "The call of bad with the same arguments has failed 3 times") || len(turn.Tools.Notices) != 1 || turn.Tools.Stop != "" {
		t.Errorf("%+v\n%s", turn.Tools, told(messages))
	}
}

func TestASuccessForgivesTheSameCall(t *testing.T) {
	n := 0
	moody := tool("moody", func(context.Context, *tools.Execution) (tools.Output, error) {
		if n++; n%3 == 0 {
			return tools.Output{Text: "ok"}, nil
		}
		return tools.Output{}, protocol.Errorf(protocol.InvalidState, "not now")
	})
	k := newTalk(t, Limits{}, []line{{calls: []string{"moody {}", "moody {}", "moody {}"}}, {calls: []string{"moody {}", "moody {}", "moody {}"}}, {text: "."}}, moody)
	if turn, err := k.converse(t.Context(), nil); err != nil || len(turn.Tools.Notices) != 0 {
		t.Errorf("%+v, %v", turn.Tools, err)
	}
}

func TestAfterFiveFailuresInARowTheUserIsAsked(t *testing.T) {
	k := newTalk(t, Limits{}, []line{{calls: []string{"fine {}", `bad {"n":1}`, `bad {"n":2}`}}, {calls: []string{`bad {"n":3}`, `bad {"n":4}`, `bad {"n":5}`}}, {text: "It fails. What shall I do?"}})
	turn, err := k.converse(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	whole(t, turn)
	r := k.last()
	if turn.Tools.Stop != "ask_user" || turn.Answer.Text() != "It fails. What shall I do?" || r.Options.ToolChoice.Mode != "none" || !strings.Contains(told(r.Messages), "user: 5 calls of tools have failed in a row") {
		t.Errorf("%+v\n%s", turn.Tools, told(r.Messages))
	}
}

func TestTooManyErrorsLockTheConversation(t *testing.T) {
	k := newTalk(t, Limits{}, []line{
		{calls: []string{`bad {"n":1}`, `bad {"n":2}`, `bad {"n":3}`, `bad {"n":4}`, "fine {}", `bad {"n":5}`, `bad {"n":6}`, `bad {"n":7}`, "fine {}"}},
		{calls: []string{`bad {"n":8}`}},
	})
	health := new(Health)
	turn, err := k.converse(t.Context(), health)
	if err != nil {
		t.Fatal(err)
	}
	whole(t, turn)
	if turn.Tools.Stop != "halted" || turn.Tools.Detail != "8 of the last 10 calls of tools failed" || turn.Answer.Finish.Reason != chat.Broken || len(k.asked) != 2 || health.Locked == "" {
		t.Errorf("%+v", turn.Tools)
	}
	if _, err := k.converse(t.Context(), health); protocol.CodeOf(err) != protocol.InvalidState || len(k.asked) != 2 {
		t.Errorf("locked: %v", err)
	}
	if _, err := k.converse(t.Context(), new(Health)); err != nil {
		t.Errorf("reset: %v", err)
	}
}

func TestHealthIsCountedInAWindow(t *testing.T) {
	for pattern, locks := range map[string]bool{
		"xxxxxxxx": false, "xxxxxxxx..": true, "xxxxxxx...": false, "..xxxxxxxx": true, "x.x.x.x.x.x.x.x.x.x.": false, "..........xxxxxxx": false, "..........xxxxxxxx": true,
	} {
		h := new(Health)
		for _, c := range pattern {
			h.note(c == 'x', Limits{}.WithDefaults())
		}
		if (h.Locked != "") != locks {
			t.Errorf("%s: %q", pattern, h.Locked)
		}
	}
}

func TestAFatalResultEndsTheTurn(t *testing.T) {
	spent := tool("spent", func(context.Context, *tools.Execution) (tools.Output, error) {
		return tools.Output{}, protocol.Errorf(protocol.BudgetSpent, "nothing left")
	})
	k := newTalk(t, Limits{}, []line{{calls: []string{"spent {}", "fine {}"}}}, spent, fine)
	turn, err := k.converse(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	whole(t, turn)
	if turn.Tools.Stop != "fatal" || len(k.asked) != 1 || !strings.Contains(turn.Tools.Detail, "nothing left") || turn.Tools.Skipped != 1 {
		t.Errorf("%+v", turn.Tools)
	}
}

func TestAFailingModelLeavesWhatWasDone(t *testing.T) {
	down := protocol.Errorf(protocol.LLMUnavailable, "down").With("reason", "overloaded")
	k := newTalk(t, Limits{}, []line{{calls: []string{"fine {}"}}, {err: down}})
	turn, err := k.converse(t.Context(), nil)
	if protocol.CodeOf(err) != protocol.LLMUnavailable || len(turn.Messages) != 2 {
		t.Errorf("got %v, %s", err, told(turn.Messages))
	}
	shown, _ := errors.AsType[*protocol.Error](err)
	if use, ok := shown.Details["tools"].(ToolUse); !ok || use.Success != 1 || shown.Details["reason"] != "overloaded" || len(down.Details) != 1 {
		t.Errorf("told %v", shown.Details)
	}
	whole(t, turn)
}

// Who asked for a loop learns that its model has acted, before it does: a call that only
// reads is none of that, and neither is one that is refused.
func TestALoopTellsThatItActs(t *testing.T) {
	looks := tool("looks", fine.Run)
	looks.Effect = commands.Read
	acted := false
	acts := tool("acts", func(context.Context, *tools.Execution) (tools.Output, error) {
		if !acted {
			t.Error("nobody was told before it")
		}
		return tools.Output{Text: "ok"}, nil
	})
	for call, want := range map[string]bool{"looks {}": false, "missing {}": false, "acts {}": true} {
		acted = false
		c := asking(nil)
		c.Acted = func() { acted = true }
		if _, err := newTalk(t, Limits{}, []line{{calls: []string{call}}, {text: "done"}}, looks, acts).Converse(t.Context(), c, nil); err != nil {
			t.Fatal(err)
		}
		if acted != want {
			t.Errorf("%s: told %v", call, acted)
		}
	}
}

// TestLoopsWithinLoopsAreBounded has a tool ask the model again, as commands
// of the bridge do that are tools.
func TestLoopsWithinLoopsAreBounded(t *testing.T) {
	var k *talk
	deepest := 0
	again := tool("again", func(ctx context.Context, x *tools.Execution) (tools.Output, error) {
		deepest = max(deepest, x.Depth)
		c := asking(nil)
		c.Depth, c.TraceID = x.Depth, protocol.NewID() // a trace of its own makes no difference
		_, err := k.Converse(ctx, c, nil)
		return tools.Output{Text: "ok"}, err
	})
	k = newTalk(t, Limits{Depth: 3, Rounds: 1}, []line{{calls: []string{"again {}"}}}, again)
	turn, err := k.converse(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(k.asked) != 6 || deepest != 3 || turn.Tools.Success != 1 {
		t.Errorf("asked %d times, %d deep", len(k.asked), deepest)
	}
	if len(k.open) != 0 {
		t.Errorf("left open: %v", k.open)
	}
}

// TestLoopsOfOnePrincipalAreBounded has loops side by side, of one trace and
// of many.
func TestLoopsOfOnePrincipalAreBounded(t *testing.T) {
	bob := &protocol.Principal{Kind: protocol.KindAgent, ID: "bob", Space: protocol.DefaultSpace}
	for name, trace := range map[string]func() string{
		"one trace": func() string { return "trace" }, "many traces": protocol.NewID,
	} {
		t.Run(name, func(t *testing.T) {
			began, release := make(chan struct{}), make(chan struct{})
			wait := tool("wait", func(context.Context, *tools.Execution) (tools.Output, error) {
				began <- struct{}{}
				<-release
				return tools.Output{Text: "ok"}, nil
			})
			const most = 17 // more than loops may be deep
			script := slices.Repeat([]line{{calls: []string{"wait {}"}}}, most)
			k := newTalk(t, Limits{Running: most}, append(script, line{text: "Done."}), wait)
			conversation := func(who *protocol.Principal, tools ...string) error {
				c := asking(nil)
				c.Principal, c.TraceID, c.Tools = who, trace(), tools
				_, err := k.Converse(t.Context(), c, nil)
				return err
			}
			ended := make(chan error, most)
			for range most {
				go func() { ended <- conversation(alice, "*") }()
				<-began
			}
			err := protocol.AsError(conversation(alice, "*"))
			if err == nil || err.Code != protocol.Busy || err.RetryAfter() <= 0 || err.Details["limit"] != most {
				t.Errorf("one too many: %v", err)
			}
			if err := conversation(alice); err != nil {
				t.Errorf("without tools: %v", err)
			}
			if err := conversation(bob, "*"); err != nil {
				t.Errorf("somebody else: %v", err)
			}
			close(release)
			for range most {
				if err := <-ended; err != nil {
					t.Error(err)
				}
			}
			if err := conversation(alice, "*"); err != nil || len(k.open) != 0 {
				t.Errorf("afterwards: %v, %v", err, k.open)
			}
		})
	}
}

func TestTheMostRelevantToolsAreOffered(t *testing.T) {
	var list []*tools.Tool
	for i := range 40 {
		list = append(list, tool(fmt.Sprintf("thing%d.work", i), fine.Run))
	}
	lamp := tool("lamp.switch", fine.Run)
	lamp.Description = "Do it: switch a lamp."
	k := newTalk(t, Limits{Offered: 8}, []line{{text: "."}}, append(list, lamp)...)
	turn, err := k.converse(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	offered := k.last().Tools
	if len(offered) != 8 || !slices.ContainsFunc(offered, func(c chat.Tool) bool { return c.Name == "lamp.switch" }) || len(turn.Tools.Notices) != 1 {
		t.Errorf("offered %d, %v", len(offered), turn.Tools.Notices)
	}
}
