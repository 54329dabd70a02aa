package wire_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/llm/wire"
	"github.com/aibridge/aibridge/llm/wire/anthropic"
	"github.com/aibridge/aibridge/llm/wire/gemini"
	"github.com/aibridge/aibridge/llm/wire/openai"
	"github.com/aibridge/aibridge/llm/wire/responses"
	"github.com/aibridge/aibridge/llm/wire/wiretest"
)

const (
	openaiOK    = `{"choices":[{"message":{"content":"ok"},"finish_reason":"stop"}]}`
	responsesOK = `{"status":"completed","output":[{"type":"message","content":[{"type":"output_text","text":"ok"}]}]}`
	anthropicOK = `{"type":"message","content":[{"type":"text","text":"ok"}],"stop_reason":"end_turn"}`
	geminiOK    = `{"candidates":[{"content":{"parts":[{"text":"ok"}]},"finishReason":"STOP"}]}`
)

// asked is a request with all that is optional.
func asked(model string, own chat.Opaque) *chat.Request {
	r := wiretest.Everything(own)
	r.Model, r.Options.ReasoningEffort = model, "low"
	return r
}

// TestARefusalThatNamesAnOptionalPartIsAskedOnceMoreWithout, in the words of
// the services, and the next request does without at once.
func TestARefusalThatNamesAnOptionalPartIsAskedOnceMoreWithout(t *testing.T) {
	for name, test := range map[string]struct {
		provider func(*wire.Client) chat.Provider
		model    string
		origin   string
		refusal  string
		ok       string
		part     string // of the first request, not of the others
		instead  string // of the others
	}{
		"strict tools": {
			func(c *wire.Client) chat.Provider { return &openai.Provider{Client: c} }, "gpt-4o", "", `{"error":{"message":"Unknown parameter: 'tools[0].function.strict'.","type":"invalid_request_error","param":"tools[0].function.strict"}}`, openaiOK, `"strict":true`, `"fs_read"`,
		},
		"strict tools, told by FastAPI": {
			func(c *wire.Client) chat.Provider {
				return &openai.Provider{Client: c, Dialect: openai.Dialect{Strict: true}}
			}, "own", "", `{"detail":[{"type":"extra_forbidden","loc":["body","tools",0,"function","strict"],"msg":"Extra inputs are not permitted"}]}`, openaiOK, `"strict":true`, `"fs_read"`,
		},
		"a schema that is too loose": {
			func(c *wire.Client) chat.Provider { return &openai.Provider{Client: c} }, "gpt-5", "", `{"error":{"message":"Invalid schema for response_format 'reading': In context=(), 'additionalProperties' is required to be supplied and to be false.","param":"response_format"}}`, openaiOK, `"strict":true`, `"json_schema"`,
		},
		"the limit of old": {
			func(c *wire.Client) chat.Provider { return &openai.Provider{Client: c} }, "house", "", `{"error":{"message":"Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.","param":"max_tokens"}}`, openaiOK, `"max_tokens":100`, `"max_completion_tokens":100`,
		},
		"the limit of today": {
			func(c *wire.Client) chat.Provider { return &openai.Provider{Client: c} }, "gpt-5", "", `{"error":{"message":"Unrecognized request argument supplied: max_completion_tokens"}}`, openaiOK, `"max_completion_tokens":100`, `"max_tokens":100`,
		},
		"counts of a stream": {
			func(c *wire.Client) chat.Provider { return &openai.Provider{Client: c} }, "own", "", `{"message":"stream_options is not supported"}`, openaiOK, `"stream_options"`, `"stream":true`,
		},
		"reasoning that went along": {
			func(c *wire.Client) chat.Provider {
				return &openai.Provider{Client: c, Dialect: openai.Dialect{ReplayReasoning: true}}
			}, "own", openai.Origin, `{"error":{"message":"property 'messages.2.reasoning_content' is unsupported"}}`, openaiOK, `"reasoning_content"`, `"I look."`,
		},
		"encrypted reasoning": {
			func(c *wire.Client) chat.Provider {
				return &responses.Provider{Client: c, Dialect: responses.Dialect{Reasoning: true}}
			}, "gpt-4o", "", `{"error":{"message":"Encrypted content is not supported with this model.","type":"invalid_request_error","param":"include"}}`, responsesOK, `reasoning.encrypted_content`, `"summary":"auto"`,
		},
		"summaries": {
			func(c *wire.Client) chat.Provider { return &responses.Provider{Client: c} }, "o3", "", `{"error":{"message":"Your organization must be verified to generate reasoning summaries.","param":"reasoning.summary"}}`, responsesOK, `"summary":"auto"`, `reasoning.encrypted_content`,
		},
		"effort": {
			func(c *wire.Client) chat.Provider { return &responses.Provider{Client: c} }, "gpt-4.1", "", `{"error":{"message":"Unsupported parameter: 'reasoning.effort' is not supported with this model.","param":"reasoning.effort"}}`, responsesOK, `"effort":"low"`, `"fs_read"`,
		},
		"too many strict tools": {
			func(c *wire.Client) chat.Provider { return &anthropic.Provider{Client: c} }, "claude-sonnet-4-5", "", `{"type":"error","error":{"type":"invalid_request_error","message":"The compiled grammar is too large, which would cause performance issues. Simplify your tool schemas or reduce the number of strict tools."}}`, anthropicOK, `"strict":true`, `"fs_read"`,
		},
		"adaptive thinking": {
			func(c *wire.Client) chat.Provider { return &anthropic.Provider{Client: c} }, "own", "", `{"type":"error","error":{"type":"invalid_request_error","message":"adaptive thinking is not supported on this model"}}`, anthropicOK, `"thinking":{"type":"adaptive"}`, `"fs_read"`,
		},
		"marks for the cache": {
			func(c *wire.Client) chat.Provider { return &anthropic.Provider{Client: c} }, "own", "", `{"type":"error","error":{"type":"invalid_request_error","message":"tools.1.custom.cache_control: Extra inputs are not permitted"}}`, anthropicOK, `"cache_control"`, `"fs_read"`,
		},
		"a level of thinking": {
			func(c *wire.Client) chat.Provider { return &gemini.Provider{Client: c} }, "own", "", `{"error":{"code":400,"message":"Thinking level is not supported for this model.","status":"INVALID_ARGUMENT"}}`, geminiOK, `"thinkingConfig"`, `"fs_read"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := wiretest.New(t, wiretest.JSON(400, test.refusal), wiretest.JSON(200, test.ok))
			p := test.provider(s.Client())
			r := asked(test.model, chat.Opaque{Origin: test.origin})
			for range 2 {
				if a, err := chat.Collect(t.Context(), p, r); err != nil || a.Text() != "ok" {
					t.Fatalf("got %+v, %v", a, err)
				}
			}
			requests := s.Requests()
			if len(requests) != 3 {
				t.Fatalf("it was asked %d times", len(requests))
			}
			if first := string(requests[0].Body); !strings.Contains(first, test.part) {
				t.Errorf("the first request has no %s: %s", test.part, first)
			}
			for i, again := range requests[1:] {
				if body := string(again.Body); strings.Contains(body, test.part) || !strings.Contains(body, test.instead) {
					t.Errorf("request %d: %s", i+2, body)
				}
			}
		})
	}
}

func TestARefusalIsAskedOnceMoreAtMost(t *testing.T) {
	for name, test := range map[string]struct {
		reply wiretest.Reply
		want  int // requests
	}{
		"one that names nothing":          {wiretest.JSON(400, `{"error":{"message":"no such field"}}`), 1},
		"one that names what is not in":   {wiretest.JSON(400, `{"error":{"message":"cache_control is wrong"}}`), 1},
		"one that goes on":                {wiretest.JSON(400, `{"error":{"message":"strict is wrong"}}`), 2},
		"one that is about something":     {wiretest.JSON(429, `{"error":{"message":"strict limits"}}`), 1},
		"one after the first word":        {wiretest.Stream(`{"choices":[{"delta":{"content":"a"}}]}`, `{"error":{"message":"strict is wrong","code":400}}`), 1},
		"one in the stream before a word": {wiretest.Stream(`{"error":{"message":"strict is wrong","code":400}}`), 2},
	} {
		s := wiretest.New(t, test.reply)
		p := &openai.Provider{Client: s.Client()}
		for round := range 2 { // nothing is learned of a retry that does not help
			if _, err := chat.Collect(t.Context(), p, asked("gpt-4o", chat.Opaque{})); err == nil {
				t.Errorf("%s: no error", name)
			}
			if n := len(s.Requests()); n != test.want*(round+1) {
				t.Errorf("%s: asked %d times after round %d", name, n, round+1)
			}
		}
	}
}

// TestStrictToolsAreBounded where a service bounds them: 45 of 60 tools fit.
func TestStrictToolsAreBounded(t *testing.T) {
	r := &chat.Request{Messages: []chat.Message{chat.TextMessage(chat.User, "hello")}}
	for i := range 60 {
		r.Tools = append(r.Tools, chat.Tool{Name: fmt.Sprintf("tool%02d", i), Parameters: json.RawMessage(`{"type":"object"}`), Strict: i%4 != 0})
	}
	for model, want := range map[string]int{"claude-sonnet-4-5": 20, "claude-3-5-haiku-latest": 0} {
		r.Model = model
		s := wiretest.New(t, wiretest.JSON(200, anthropicOK))
		if _, err := chat.Collect(t.Context(), &anthropic.Provider{Client: s.Client()}, r); err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(s.Requests()[0].Body), `"strict":true`); n != want {
			t.Errorf("%s gets %d strict tools", model, n)
		}
	}
	for model, want := range map[string]int{"gpt-4.1": 45, "gpt-3.5-turbo": 0, "qwen3-32b": 0} {
		r.Model = model
		for _, p := range []func(*wire.Client) chat.Provider{
			func(c *wire.Client) chat.Provider { return &openai.Provider{Client: c} },
			func(c *wire.Client) chat.Provider { return &responses.Provider{Client: c} },
		} {
			s := wiretest.New(t, wiretest.JSON(200, openaiOK))
			_, _ = chat.Collect(t.Context(), p(s.Client()), r)
			body := string(s.Requests()[0].Body)
			if n := strings.Count(body, `"strict":true`); n != want || strings.Contains(body, "encrypted") {
				t.Errorf("%s gets %d strict tools: %s", model, n, body)
			}
		}
	}
}
