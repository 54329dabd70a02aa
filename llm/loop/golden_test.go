package loop

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/llm/model"
	"github.com/aibridge/aibridge/llm/tools"
	"github.com/aibridge/aibridge/llm/wire/wiretest"
)

// An utterance is an answer of a scripted provider on one of the wires: a text
// and calls, "name {json}", with ids that begin with a number.
type utterance func(n int, text string, calls []string) wiretest.Reply

func body(v any) wiretest.Reply {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return wiretest.JSON(http.StatusOK, string(raw))
}

type object = map[string]any

// cut splits a call into id, name on the wire, and arguments.
func cut(n, i int, call string) (id, name, arguments string) {
	name, arguments, _ = strings.Cut(call, " ")
	return fmt.Sprintf("call_%d_%d", n, i), name, arguments
}

var dotted = strings.NewReplacer("thermostat_", "thermostat.", "oven_", "oven.")

var wires = map[string]utterance{
	"openai": func(n int, text string, calls []string) wiretest.Reply {
		message := object{"role": "assistant", "content": text}
		reason := "stop"
		var list []any
		for i, c := range calls {
			id, name, arguments := cut(n, i, c)
			list, reason = append(list, object{"id": id, "type": "function", "function": object{"name": name, "arguments": arguments}}), "tool_calls"
		}
		message["tool_calls"] = list
		return body(object{"model": "m-1", "choices": []any{object{"message": message, "finish_reason": reason}}, "usage": object{"prompt_tokens": 10, "completion_tokens": 5}})
	},
	"responses": func(n int, text string, calls []string) wiretest.Reply {
		var output []any
		if text != "" {
			output = append(output, object{"type": "message", "role": "assistant", "content": []any{object{"type": "output_text", "text": text}}})
		}
		for i, c := range calls {
			id, name, arguments := cut(n, i, c)
			output = append(output, object{"type": "function_call", "call_id": id, "name": name, "arguments": arguments})
		}
		return body(object{"model": "m-1", "status": "completed", "output": output, "usage": object{"input_tokens": 10, "output_tokens": 5}})
	},
	"anthropic": func(n int, text string, calls []string) wiretest.Reply {
		var content []any
		reason := "end_turn"
		if text != "" {
			content = append(content, object{"type": "text", "text": text})
		}
		for i, c := range calls {
			id, name, arguments := cut(n, i, c)
			content, reason = append(content, object{"type": "tool_use", "id": id, "name": name, "input": json.RawMessage(arguments)}), "tool_use"
		}
		return body(object{"type": "message", "model": "m-1", "content": content, "stop_reason": reason, "usage": object{"input_tokens": 10, "output_tokens": 5}})
	},
	"gemini": func(n int, text string, calls []string) wiretest.Reply {
		var parts []any
		if text != "" {
			parts = append(parts, object{"text": text})
		}
		for i, c := range calls {
			_, name, arguments := cut(n, i, c)
			name = dotted.Replace(name) // this wire allows dots
			parts = append(parts, object{"functionCall": object{"name": name, "args": json.RawMessage(arguments)}})
		}
		return body([]any{object{
			"candidates":    []any{object{"content": object{"role": "model", "parts": parts}, "finishReason": "STOP"}},
			"usageMetadata": object{"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15},
			"modelVersion":  "m-1",
		}})
	},
}

// A story is what a model says, answer by answer, under limits.
type story struct {
	limits Limits
	says   []line
}

var stories = map[string]story{
	"done": {Limits{}, []line{
		{text: "I look.", calls: []string{`thermostat_read {"room":"hall"}`, `thermostat_read {"room":"attic"}`}},
		{text: "It is 21 degrees in both."},
	}},
	"rounds": {Limits{Rounds: 2}, []line{
		{calls: []string{`thermostat_read {"room":"hall"}`}}, {calls: []string{`thermostat_read {"room":"attic"}`}}, {text: "As far as I know, 21 degrees."},
	}},
	"calls": {Limits{Calls: 1}, []line{
		{calls: []string{`thermostat_read {"room":"hall"}`, `thermostat_read {"room":"attic"}`}}, {text: "21 degrees in the hall."},
	}},
	"tokens": {Limits{Tokens: 30}, []line{
		{text: "I look.", calls: []string{`thermostat_read {"room":"hall"}`}}, {text: "And once more.", calls: []string{`thermostat_read {"room":"attic"}`}},
	}},
	"time": {Limits{Time: 2 * time.Second}, []line{
		{text: "I look.", calls: []string{`thermostat_read {"room":"far away"}`, `thermostat_read {"room":"hall"}`}},
	}},
	"repeats": {Limits{}, []line{
		{calls: []string{`oven_heat {"celsius":200}`}}, {calls: []string{`oven_heat {"celsius":200}`}}, {calls: []string{`oven_heat {"celsius":200}`, `thermostat_read {"room":"hall"}`}},
		{text: "The oven does not answer."},
	}},
	"ask_user": {Limits{}, []line{
		{calls: []string{`oven_heat {"celsius":1}`, `oven_heat {"celsius":2}`}}, {calls: []string{`oven_heat {"celsius":3}`, `no_such_tool {}`, `oven_heat {"celsius":"hot"}`}},
		{text: "The oven fails. Shall I go on?"},
	}},
	"halted": {Limits{}, []line{
		{calls: []string{`oven_heat {"celsius":1}`, `oven_heat {"celsius":2}`, `oven_heat {"celsius":3}`, `oven_heat {"celsius":4}`, `thermostat_read {"room":"hall"}`}},
		{text: "Again.", calls: []string{`oven_heat {"celsius":5}`, `oven_heat {"celsius":6}`, `oven_heat {"celsius":7}`, `thermostat_read {"room":"hall"}`, `oven_heat {"celsius":8}`}},
	}},
}

var madeHere = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f-]{27}`)

// TestEveryLimitOnEveryWire compares what a provider is asked at last, and what
// came of it, with golden files. The order of what is in a conversation is the
// loop's; how it is written is the wire's.
func TestEveryLimitOnEveryWire(t *testing.T) {
	read := declared("thermostat.read", `{"type":"object","properties":{"room":{"type":"string"}},"required":["room"]}`)
	read.Run = func(ctx context.Context, x *tools.Execution) (tools.Output, error) {
		if x.Arguments["room"] == "far away" {
			<-ctx.Done()
			return tools.Output{}, ctx.Err()
		}
		return tools.Output{Content: json.RawMessage(`{"celsius":21}`)}, nil
	}
	oven := declared("oven.heat", `{"type":"object","properties":{"celsius":{"type":"number"}},"required":["celsius"]}`)
	oven.Run = bad.Run
	for wire, speak := range wires {
		for name, story := range stories {
			t.Run(wire+"/"+name, func(t *testing.T) {
				t.Parallel()
				var replies []wiretest.Reply
				for n, l := range story.says {
					replies = append(replies, speak(n, l.text, l.calls))
				}
				server := wiretest.New(t, replies...)
				service := model.New(model.Options{Transport: &http.Transport{DisableKeepAlives: true}})
				if _, err := service.Configure(model.Config{
					Providers: []model.ProviderConfig{{Name: "p", Wire: wire, BaseURL: server.URL}},
					Models:    []model.ModelConfig{{Name: "m", Routes: []model.Route{{Provider: "p"}}}}, Probe: -1,
				}); err != nil {
					t.Fatal(err)
				}
				r := New(Options{Model: service, Tools: tools.New(given{read, oven}), Executor: &tools.Executor{}, Limits: story.limits})
				turn, err := r.Converse(t.Context(), asking(nil), nil)
				if err != nil {
					t.Fatal(err)
				}
				whole(t, turn)
				requests := server.Requests()
				if len(requests) != len(story.says) {
					t.Errorf("asked %d times", len(requests))
				}
				wiretest.Golden(t, name+"."+wire+".txt", summary(t, turn, requests[len(requests)-1].Body))
			})
		}
	}
}

func declared(name, schema string) *tools.Tool {
	d := tool(name, nil)
	d.Schema = json.RawMessage(schema)
	return d
}

// summary is the reply, the conversation it ended with, and the last request
// as it went over the wire, without the declarations of the tools.
func summary(t *testing.T, turn *Turn, request []byte) string {
	t.Helper()
	use := *turn.Tools
	use.Elapsed = 0
	for i := range use.Calls {
		use.Calls[i].ElapsedMS = 0
	}
	outcome, err := json.MarshalIndent(object{"text": turn.Answer.Text(), "finish": turn.Answer.Finish, "tools": use}, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(request, &fields); err != nil {
		t.Fatal(err)
	}
	delete(fields, "tools")
	sent, err := json.MarshalIndent(fields, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("outcome %s\n\nmessages\n%s\nlast request %s\n", outcome, told(append([]chat.Message{chat.TextMessage(chat.User, "Do it.")}, turn.Messages...)), sent)
	return madeHere.ReplaceAllString(text, "<made>")
}
