package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/aibridge/aibridge/commands"
	mcpdoor "github.com/aibridge/aibridge/doors/mcp"
	"github.com/aibridge/aibridge/llm/tools"
	"github.com/aibridge/aibridge/protocol"
)

// guide adds a tool that asks the caller twice, one after the other, and one that asks two
// things at once.
func guide(w *world) (ended chan error) {
	ended = make(chan error, 64)
	ask := func(ctx context.Context, method, params string) string {
		a := tools.AskerOf(ctx)
		if a == nil || !a.Answers(method) {
			return "nobody is asked"
		}
		answer, err := a.Ask(ctx, method, json.RawMessage(params))
		if err != nil {
			return "not answered"
		}
		var said struct {
			Content any `json:"content"`
		}
		_ = json.Unmarshal(answer, &said)
		return jsonOf(said.Content)
	}
	const (
		form  = `{"mode":"form","message":"Your name?","requestedSchema":{"type":"object","properties":{"name":{"type":"string"}}}}`
		query = `{"maxTokens":10,"messages":[{"role":"user","content":{"type":"text","text":"Greet"}}]}`
	)
	declared := func(name string) tools.Declaration {
		return tools.Declaration{Name: name, Effect: commands.Act, Schema: json.RawMessage(`{"type":"object"}`)}
	}
	w.source.add("", &tools.Tool{Declaration: declared("guide.plan"), Asks: true, Run: func(ctx context.Context, _ *tools.Execution) (tools.Output, error) {
		text := ask(ctx, "elicitation/create", form) + " " + ask(ctx, "sampling/createMessage", query)
		ended <- ctx.Err()
		return tools.Output{Text: text}, ctx.Err()
	}})
	w.source.add("", &tools.Tool{Declaration: declared("guide.both"), Asks: true, Run: func(ctx context.Context, _ *tools.Execution) (tools.Output, error) {
		var name, words string
		var both sync.WaitGroup
		both.Go(func() { name = ask(ctx, "elicitation/create", form) })
		both.Go(func() { words = ask(ctx, "sampling/createMessage", query) })
		both.Wait()
		ended <- ctx.Err()
		return tools.Output{Text: name + " " + words}, ctx.Err()
	}})
	return ended
}

// The official SDK calls again by itself, by the short way of calls and by its own.
func TestAToolAsksAClientWithoutSessions(t *testing.T) {
	for way, meta := range map[string]sdk.Meta{"short": nil, "long": {"progressToken": "p"}} {
		t.Run(way, func(t *testing.T) {
			w := newWorld(t)
			guide(w)
			p := &person{answer: sdk.ElicitResult{Action: "accept", Content: map[string]any{"name": "Ada"}}}
			options := p.options()
			options.CreateMessageHandler = func(context.Context, *sdk.CreateMessageRequest) (*sdk.CreateMessageResult, error) {
				return &sdk.CreateMessageResult{Model: "m", Role: "assistant", Content: &sdk.TextContent{Text: "hello"}}, nil
			}
			c := w.connect(t, "ada", "2026-07-28", options)
			for _, tool := range []string{"guide.plan", "guide.both"} {
				r, err := c.CallTool(t.Context(), &sdk.CallToolParams{Meta: maps.Clone(meta), Name: tool, Arguments: map[string]any{}})
				if err != nil || r.IsError || !strings.Contains(textOf(r), `{"name":"Ada"}`) || !strings.Contains(textOf(r), "hello") {
					t.Errorf("%s: %v %s", tool, err, jsonOf(r))
				}
			}
			if len(p.forms) != 2 || p.forms[0].Message != "Your name?" {
				t.Errorf("forms: %s", jsonOf(p.forms))
			}
			alone := w.connect(t, "ada", "2026-07-28", nil)
			if r, err := alone.CallTool(t.Context(), &sdk.CallToolParams{Meta: maps.Clone(meta), Name: "guide.plan", Arguments: map[string]any{}}); err != nil || textOf(r) != "nobody is asked nobody is asked" {
				t.Errorf("a client that answers nothing: %v %s", err, jsonOf(r))
			}
		})
	}
}

// A roundAnswer is an answer in the version without sessions.
type roundAnswer struct {
	Result struct {
		Type     string                             `json:"resultType"`
		State    string                             `json:"requestState"`
		Requests map[string]struct{ Method string } `json:"inputRequests"`
		Content  []struct{ Text string }            `json:"content"`
	} `json:"result"`
	Error *struct {
		Code int `json:"code"`
	} `json:"error"`
}

const (
	canBoth = `,"elicitation":{},"sampling":{}`
	toAda   = `{"action":"accept","content":{"name":"Ada"}}`
	hello   = `{"role":"assistant","model":"m","content":{"type":"text","text":"hello"}}`
)

// calls calls a tool, without the extension about tasks.
func (w *world) calls(t *testing.T, who, tool, can, more string) (a roundAnswer) {
	t.Helper()
	w.Take(t.Context(), mcpdoor.Message{
		Principal: &protocol.Principal{Kind: protocol.KindOperator, ID: who}, Client: "c",
		Body: []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + tool + `","arguments":{},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
			`"io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{"x":{}` + can + `}}` + more + `}}`),
		Reply: func(b []byte) {
			if err := json.Unmarshal(b, &a); err != nil {
				t.Errorf("%s: %v", b, err)
			}
		},
	})
	return a
}

// key is the key of the one question of an answer that asks by a method.
func (a *roundAnswer) key(t *testing.T, method string) (key string) {
	t.Helper()
	for k, r := range a.Result.Requests {
		if r.Method == method {
			key = k
		}
	}
	if a.Result.Type != "input_required" || key == "" || a.Result.State == "" {
		t.Fatalf("nobody asks by %s: %s", method, jsonOf(a))
	}
	return key
}

func resumed(state, key, value string) string {
	return fmt.Sprintf(`,"requestState":%q,"inputResponses":{%q:%s,"more":{"action":"accept"}}`, state, key, value)
}

func TestACallGoesOnWhereItsClientWasAsked(t *testing.T) {
	w := newWorld(t)
	ended := guide(w)
	first := w.calls(t, "ada", "guide.plan", canBoth, "")
	key := first.key(t, "elicitation/create")
	for name, again := range map[string]roundAnswer{
		"a state that was changed": w.calls(t, "ada", "guide.plan", canBoth, resumed(first.Result.State+"-", key, toAda)),
		"somebody else's":          w.calls(t, "eve", "guide.plan", canBoth, resumed(first.Result.State, key, toAda)),
		"that of another tool":     w.calls(t, "ada", "guide.both", canBoth, resumed(first.Result.State, key, toAda)),
	} {
		if again.Error == nil || again.Error.Code != -32602 {
			t.Errorf("%s: %s", name, jsonOf(again))
		}
	}
	missing := w.calls(t, "ada", "guide.plan", canBoth, resumed(first.Result.State, "other", toAda))
	if missing.key(t, "elicitation/create") != key || missing.Result.State == first.Result.State {
		t.Errorf("asked again: %s", jsonOf(missing))
	}
	second := w.calls(t, "ada", "guide.plan", canBoth, resumed(missing.Result.State, key, toAda))
	question := second.key(t, "sampling/createMessage")
	if used := w.calls(t, "ada", "guide.plan", canBoth, resumed(missing.Result.State, key, toAda)); used.Error == nil {
		t.Errorf("a state that was used: %s", jsonOf(used))
	}
	last := w.calls(t, "ada", "guide.plan", canBoth, resumed(second.Result.State, question, hello))
	if last.Result.Type != "complete" || len(last.Result.Content) != 1 || !strings.Contains(last.Result.Content[0].Text, "Ada") || !strings.Contains(last.Result.Content[0].Text, "hello") {
		t.Errorf("at last: %s", jsonOf(last))
	}
	if err := <-ended; err != nil {
		t.Errorf("the call ended with %v", err)
	}
	both := w.calls(t, "ada", "guide.both", canBoth, "")
	for rounds := 0; both.Result.Type == "input_required" && rounds < 2; rounds++ { // one, unless the machine is slow
		answers := map[string]json.RawMessage{}
		for k, r := range both.Result.Requests {
			answers[k] = json.RawMessage(map[string]string{"elicitation/create": toAda, "sampling/createMessage": hello}[r.Method])
		}
		more := fmt.Sprintf(`,"requestState":%q,"inputResponses":%s`, both.Result.State, jsonOf(answers))
		both = w.calls(t, "ada", "guide.both", canBoth, more)
	}
	if both.Result.Type != "complete" || !strings.Contains(both.Result.Content[0].Text, "Ada") || !strings.Contains(both.Result.Content[0].Text, "hello") {
		t.Errorf("two questions at once: %s", jsonOf(both))
	}
	if samples := w.calls(t, "ada", "guide.both", `,"sampling":{}`, ""); len(samples.Result.Requests) != 1 || samples.key(t, "sampling/createMessage") == "" {
		t.Errorf("a client without forms: %s", jsonOf(samples))
	}
}

// Callers that never answer have a bounded number of calls that wait, which end with the
// door.
func TestCallsThatWaitForTheirClientsAreBounded(t *testing.T) {
	w := newWorld(t)
	ended := guide(w)
	waits := 0
	for range 200 {
		a := w.calls(t, "ada", "guide.both", canBoth, "")
		if a.Result.Type == "input_required" {
			waits++
			continue
		}
		if len(a.Result.Content) != 1 || a.Result.Content[0].Text != "not answered not answered" {
			t.Fatalf("one too many: %s", jsonOf(a))
		}
		<-ended
		break
	}
	if waits == 0 || waits == 200 {
		t.Fatalf("%d calls wait", waits)
	}
	w.stop()
	for range waits {
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("a call ended with %v", err)
		}
	}
}
