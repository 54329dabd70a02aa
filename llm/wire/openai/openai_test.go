package openai

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/llm/wire"
	"github.com/aibridge/aibridge/llm/wire/wiretest"
)

func ask(t testing.TB, dialect Dialect, r *chat.Request, replies ...wiretest.Reply) (string, *wiretest.Server) {
	t.Helper()
	s := wiretest.New(t, replies...)
	p := &Provider{Client: s.Client(), Dialect: dialect}
	var rec wiretest.Recorder
	err := p.Stream(context.Background(), r, rec.Emit)
	return wiretest.Tell(rec.Events, err), s
}

func hello() *chat.Request {
	return &chat.Request{Model: "m", Messages: []chat.Message{chat.TextMessage(chat.User, "hello")}, Tools: wiretest.Tools()}
}

func TestAWholeConversationOnTheWire(t *testing.T) {
	for name, dialect := range map[string]Dialect{
		"plain":    {Strict: true},
		"newer":    {Strict: true, MaxCompletionTokens: true},
		"deepseek": {ReplayReasoning: true, JSONObject: true, NoStrict: true, NoStreamUsage: true, NoParallel: true},
	} {
		_, s := ask(t, dialect, wiretest.Everything(chat.Opaque{Origin: Origin}), wiretest.Stream(`{"choices":[{"delta":{"content":"ok"},"finish_reason":"stop"}]}`, "[DONE]"))
		r := s.Requests()[0]
		if r.Path != "/chat/completions" {
			t.Errorf("asked at %s", r.Path)
		}
		wiretest.Golden(t, "request-"+name+".json", wiretest.Indent(r.Body))
	}
}

func TestReasoningGoesBackOnlyOnceATurnHadCalls(t *testing.T) {
	r := hello()
	r.Messages = append(r.Messages, chat.TextMessage(chat.Assistant, "hi"), chat.TextMessage(chat.User, "and?"))
	_, s := ask(t, Dialect{ReplayReasoning: true}, r, wiretest.Stream("[DONE]"))
	if body := string(s.Requests()[0].Body); strings.Contains(body, "reasoning_content") {
		t.Errorf("asked %s", body)
	}
}

func TestAnswersAreRead(t *testing.T) {
	done := "[DONE]"
	finish := func(reason string) string { return `{"choices":[{"delta":{},"finish_reason":"` + reason + `"}]}` }
	call := func(fields string) string {
		return `{"choices":[{"index":0,"delta":{"tool_calls":[{` + fields + `}]}}]}`
	}
	wiretest.Everyone(t, provider, hello(), map[string]wiretest.Reply{
		"text": wiretest.Stream(`{"model":"gpt-x","choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}`,
			`{"choices":[{"index":0,"delta":{"content":"Hel"}}]}`, `{"choices":[{"index":0,"delta":{"content":"lo"}}]}`, finish("stop"),
			`{"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":3},"completion_tokens_details":{"reasoning_tokens":1}}}`, done),
		"reasoning, then text": wiretest.Stream(`{"choices":[{"delta":{"reasoning_content":"hm"}}]}`, `{"choices":[{"delta":{"reasoning":"m"}}]}`,
			`{"choices":[{"delta":{"content":"yes"}}]}`, finish("stop"), done),
		"parallel calls, interleaved": wiretest.Stream(
			call(`"index":0,"id":"a","type":"function","function":{"name":"fs_read","arguments":""}`),
			call(`"index":1,"id":"b","type":"function","function":{"name":"thermostat_read","arguments":"{\"ro"}`),
			call(`"index":0,"function":{"arguments":"{\"path\":"}`), call(`"index":1,"function":{"arguments":"om\":\"x\"}"}`),
			call(`"index":0,"function":{"arguments":"\"a\"}"}`), finish("tool_calls"), done),
		"calls without index": wiretest.Stream(
			call(`"id":"a","function":{"name":"fs_read","arguments":"{}"}`), call(`"id":"b","function":{"name":"fs_read","arguments":"{\"path\":\"b\"}"}`), finish("stop"), done),
		"calls without ids": wiretest.Stream(
			call(`"index":0,"function":{"name":"fs_read","arguments":"{}"}`), call(`"index":1,"function":{"name":"fs_read","arguments":"{}"}`), finish("tool_calls"), done),
		"duplicate ids": wiretest.Stream(
			call(`"index":0,"id":"a","function":{"name":"fs_read","arguments":"{}"}`), call(`"index":1,"id":"a","function":{"name":"fs_read","arguments":"{}"}`), finish("tool_calls"), done),
		"one index for all": wiretest.Stream(
			call(`"index":0,"id":"a","function":{"name":"fs_read","arguments":"{}"}`), call(`"index":0,"id":"b","function":{"name":"fs_read","arguments":"{}"}`), finish("tool_calls"), done),
		"arguments that are no JSON":   wiretest.Stream(call(`"index":0,"id":"a","function":{"name":"fs_read","arguments":"{\"path\": tru"}`), finish("tool_calls"), done),
		"arguments that are an object": wiretest.Stream(call(`"index":0,"id":"a","function":{"name":"fs_read","arguments":{"path":"x"}}`), finish("tool_calls"), done),
		"an unknown tool":              wiretest.Stream(call(`"index":0,"id":"a","function":{"name":"what_ever","arguments":"[]"}`), finish("tool_calls"), done),
		"split characters":             wiretest.Stream("{\"choices\":[{\"delta\":{\"content\":\"\xf0\x9f\"}}]}", "{\"choices\":[{\"delta\":{\"content\":\"\x98\x80\"}}]}", `{"choices":[{"delta":{"content":"\ud83d"}}]}`, `{"choices":[{"delta":{"content":"\ude00!"}}]}`, finish("stop"), done),
		"a refusal":                    wiretest.Stream(`{"choices":[{"delta":{"refusal":"I "}}]}`, `{"choices":[{"delta":{"refusal":"won't"}}]}`, finish("stop"), done),
		"a filter":                     wiretest.Stream(`{"choices":[{"delta":{"content":"a"}}]}`, finish("content_filter"), done),
		"too long":                     wiretest.Stream(`{"choices":[{"delta":{"content":"a"}}]}`, finish("length"), done),
		"an unknown end":               wiretest.Stream(`{"choices":[{"delta":{"content":"a"}}]}`, finish("dunno"), done),
		"no reason, but done":          wiretest.Stream(`{"choices":[{"delta":{"content":"a"}}]}`, done),
		"a reason, but not done":       wiretest.Stream(`{"choices":[{"delta":{"content":"a"}}]}`, finish("stop")),
		"nothing at all":               wiretest.Stream(done),
		"cut between events":           wiretest.Stream(`{"choices":[{"delta":{"content":"a"}}]}`),
		"cut within an event":          {Pieces: []string{"data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n", "data: {\"choi"}, Cut: true},
		"not JSON":                     wiretest.Stream(`{"choices":[{"delta":{"content":"a"}}]}`, `{"choices":`),
		"an error in the stream":       wiretest.Stream(`{"choices":[{"delta":{"content":"a"}}]}`, `{"error":{"message":"server had a problem","type":"server_error"}}`),
		"in one piece":                 wiretest.JSON(200, `{"model":"m1","choices":[{"message":{"role":"assistant","content":"hi","tool_calls":[{"id":"a","type":"function","function":{"name":"fs_read","arguments":"{\"path\":\"x\"}"}}]},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":1,"completion_tokens":2}}`),
		"401":                          wiretest.JSON(401, `{"error":{"message":"Incorrect API key provided: sk-secret-key","type":"invalid_request_error","code":"invalid_api_key"}}`),
		"404":                          wiretest.JSON(404, `{"error":{"message":"model 'm' not found","code":"model_not_found"}}`),
		"429 with Retry-After":         {Status: 429, Header: map[string]string{"Retry-After": "7", "Content-Type": "application/json"}, Pieces: []string{`{"error":{"message":"slow down","code":"rate_limit_exceeded"}}`}},
		"429 with a strange one":       {Status: 429, Header: map[string]string{"Retry-After": "1e300"}, Pieces: []string{`slow`}},
		"400, too long in the stream":  wiretest.Stream(`{"object":"error","message":"This model's maximum context length is 4096 tokens. However, you requested 5048.","type":"BadRequestError","code":400}`),
		"400, too long":                wiretest.JSON(400, `{"error":{"message":"maximum context length","code":"context_length_exceeded"}}`),
		"500 in HTML":                  {Status: 500, Header: map[string]string{"Content-Type": "text/html"}, Pieces: []string{"<html>oops</html>"}},
		"503":                          wiretest.JSON(503, `{"detail":"loading"}`),
		"200 in HTML":                  {Header: map[string]string{"Content-Type": "text/html"}, Pieces: []string{"<html>hello</html>"}},
		"content in parts": wiretest.Stream(`{"choices":[{"delta":{"role":"assistant","content":""}}]}`,
			`{"choices":[{"delta":{"content":[{"type":"thinking","thinking":[{"type":"text","text":"Cold"},{"type":"text","text":"?"}]}]}}]}`,
			`{"choices":[{"delta":{"content":[{"type":"thinking","thinking":" Yes."},{"type":"text","text":"Turn it "}]}}]}`, `{"choices":[{"delta":{"content":"up."}}]}`, finish("stop"), done),
		"an image": wiretest.Stream(`{"choices":[{"delta":{"content":"Look: ","images":[{"type":"image_url","image_url":{"url":"data:image/png;base64,aGVsbG8="}}]}}]}`,
			`{"choices":[{"delta":{"content":[{"type":"image_url","image_url":"https://pictures.example/a.png"}]}}]}`, finish("stop"), done),
		"the older function call": wiretest.Stream(`{"choices":[{"delta":{"role":"assistant","content":null,"function_call":{"name":"fs_read","arguments":""}}}]}`,
			`{"choices":[{"delta":{"function_call":{"arguments":"{\"path\":"}}}]}`, `{"choices":[{"delta":{"function_call":{"arguments":"\"x\"}"}}}]}`, finish("function_call"), done),
		"id and name with every piece": wiretest.Stream(
			call(`"index":0,"id":"a","function":{"name":"fs_read","arguments":"{\"path\":"}`), call(`"index":0,"id":"a","function":{"name":"fs_read","arguments":"\"x\"}"}`),
			call(`"index":0,"id":"a","function":{"name":"fs_read","arguments":""}`), finish("tool_calls"), done),
		"one index and no id for all": wiretest.Stream(
			call(`"index":0,"function":{"name":"fs_read","arguments":"{\"path\":\"a\"}"}`), call(`"index":0,"function":{"name":"fs_read","arguments":"{\"path\":\"b\"}"}`), finish("stop"), done),
		"arguments that are null": wiretest.Stream(call(`"index":0,"id":"a","function":{"name":"fs_read","arguments":"null"}`), finish("tool_calls"), done),
		"nothing in lists": wiretest.Stream(`{"id":"","model":"","object":"","choices":[]}`, `{"choices":[{"delta":{"content":"","reasoning_content":"hm","tool_calls":[]}}]}`,
			`{"model":"m1","choices":[{"delta":{"content":"hi","reasoning_content":"","tool_calls":null,"images":null},"finish_reason":"stop"}],"usage":null}`, done),
		"reasoning that is counted apart": wiretest.JSON(200, `{"choices":[{"message":{"content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":30,"completion_tokens":2,"total_tokens":57,"completion_tokens_details":{"reasoning_tokens":25}}}`),
		"usage with the choice":           wiretest.Stream(`{"choices":[{"delta":{"content":"hi"},"finish_reason":"stop","usage":{"prompt_tokens":9,"completion_tokens":3,"total_tokens":12,"cached_tokens":4}}]}`, done),
		"usage of a strange kind":         wiretest.Stream(`{"choices":[{"delta":{"content":"hi"},"finish_reason":"stop"}],"x_groq":{"id":"r"}}`, `{"choices":[],"usage":{"prompt_tokens":7.0,"completion_tokens":"many","prompt_tokens_details":null}}`, done),
		"in one piece, without a reason":  wiretest.JSON(200, `{"choices":[{"message":{"role":"assistant","content":"hi","function_call":null,"tool_calls":null}}]}`),
		"comments, CRLF and a BOM": {Pieces: []string{"\ufeff: PROCESSING\r\n\r\n", "event: message\r\nid: 1\r\ndata:{\"choices\":[{\"delta\":\r\ndata: {\"content\":\"hi\"}}]}\r\n\r\n", ": PROCESSING\r\n\r\n",
			"data:{\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\r\n\r\ndata:[DONE]\r\n\r\n"}},
		"an error after the end":      wiretest.Stream(`{"choices":[{"delta":{"reasoning":"We"},"finish_reason":"length"}]}`, `{"error":{"code":400,"message":"Token limit reached"},"choices":[{"delta":{"content":""},"finish_reason":null}]}`, done),
		"an error of the choice":      wiretest.JSON(200, `{"choices":[{"error":{"code":502,"message":"upstream went away"},"message":{"content":""},"finish_reason":"error"}]}`),
		"an error as an object":       wiretest.Stream(`{"object":"error","message":"too many tokens","type":"BadRequestError","code":400}`, done),
		"an error by its type":        wiretest.Stream(`{"choices":[{"delta":{"content":"a"}}]}`, `{"type":"error","message":"worker died"}`, done),
		"an error by the event":       {Pieces: []string{"event: error\ndata: {\"message\":\"gone\",\"code\":503}\n\n"}},
		"the limit in other words":    wiretest.Stream(`{"choices":[{"delta":{"content":"a"}}]}`, finish("model_length"), done),
		"events of the other choices": wiretest.Stream(`{"choices":[{"index":1,"delta":{"content":"x"}},{"index":0,"delta":{"content":"a"}}]}`, finish("stop"), done),
	})
}

func provider(c *wire.Client) chat.Provider {
	return &Provider{Client: c, Dialect: Dialect{Strict: true}}
}

func TestModelsAreListed(t *testing.T) {
	s := wiretest.New(t, wiretest.JSON(200, `{"object":"list","data":[{"id":"a"},{"id":"b","name":"B"}]}`))
	models, err := (&Provider{Client: s.Client()}).Models(t.Context())
	if raw, _ := json.Marshal(models); err != nil || string(raw) != `[{"ID":"a","Name":"","Version":""},{"ID":"b","Name":"B","Version":""}]` {
		t.Errorf("got %s, %v", raw, err)
	}
}

func TestQuirks(t *testing.T) { wiretest.Quirks(t, provider, hello()) }

func FuzzAnswer(f *testing.F) {
	wiretest.Seeds(f)
	f.Add([]byte("data: {\"choices\":[{\"delta\":{\"content\":\"a\",\"tool_calls\":[{\"index\":0,\"id\":\"a\",\"function\":{\"name\":\"f\",\"arguments\":\"{\"}}]},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n"))
	f.Add([]byte(`{"error":{"message":"m","code":429}}`))
	f.Add([]byte(`{"choices":[{"message":{"content":null,"tool_calls":[{"function":{"name":"f","arguments":{}}}]},"finish_reason":"stop"}],"usage":null,"data":[{"id":"a"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) { wiretest.Fuzz(t, provider, hello(), data) })
}

func TestAServiceThatSendsReasoningGetsItBack(t *testing.T) {
	s := wiretest.New(t,
		wiretest.Stream(`{"choices":[{"delta":{"reasoning_content":"Look."}}]}`, `{"choices":[{"delta":{"content":"21","tool_calls":[{"index":0,"id":"c1","function":{"name":"fs_read","arguments":"{}"}}]},"finish_reason":"tool_calls"}]}`, "[DONE]"),
		wiretest.Stream(`{"choices":[{"delta":{"content":"ok"},"finish_reason":"stop"}]}`, "[DONE]"))
	p := &Provider{Client: s.Client()}
	r := &chat.Request{Model: "m", Messages: []chat.Message{chat.TextMessage(chat.User, "a")}, Tools: wiretest.Tools()}
	a, err := chat.Collect(t.Context(), p, r)
	if err != nil {
		t.Fatal(err)
	}
	r.Messages = append(r.Messages, chat.TextMessage(chat.Assistant, "before"), a.Message(),
		chat.Message{Role: chat.ToolRole, ToolCallID: "c1", ToolName: "fs.read", Segments: []chat.Segment{{Type: chat.Text, Text: "x"}}})
	if _, err := chat.Collect(t.Context(), p, r); err != nil {
		t.Fatal(err)
	}
	var second struct {
		Messages []struct {
			Role      string
			Reasoning *string `json:"reasoning_content"`
		}
	}
	if err := json.Unmarshal(s.Requests()[1].Body, &second); err != nil {
		t.Fatal(err)
	}
	m := second.Messages
	if m[1].Reasoning == nil || *m[1].Reasoning != "" || m[2].Reasoning == nil || *m[2].Reasoning != "Look." || m[3].Reasoning != nil {
		t.Errorf("got %s", s.Requests()[1].Body)
	}
}

// TestATalk is one with DeepSeek: reasoning, parallel calls whose arguments
// interleave, a call in the next round, and a second question.
func TestATalk(t *testing.T) {
	call := func(index, id, name, arguments string) string {
		return `{"choices":[{"index":0,"delta":{"tool_calls":[{"index":` + index + `,"id":"` + id + `","type":"function","function":{"name":"` + name + `","arguments":"` + arguments + `"}}]}}]}`
	}
	end := func(reason string) string {
		return `{"model":"deepseek-chat","choices":[{"index":0,"delta":{},"finish_reason":"` + reason + `"}],"usage":{"prompt_tokens":20,"completion_tokens":9,"prompt_cache_hit_tokens":16,"completion_tokens_details":{"reasoning_tokens":3}}}`
	}
	wiretest.Talk(t, provider, hello(),
		wiretest.Stream(`{"choices":[{"index":0,"delta":{"role":"assistant","content":null,"reasoning_content":"Two "}}]}`, `{"choices":[{"index":0,"delta":{"reasoning_content":"rooms."}}]}`,
			`{"choices":[{"index":0,"delta":{"content":"I look."}}]}`, call("0", "call_0", "thermostat_read", ""), call("1", "call_1", "fs_read", ""),
			call("1", "", "", `{\"path\":`), call("0", "", "", `{\"room\":\"hall\"}`), call("1", "", "", ` \"a\"}`), end("tool_calls"), "[DONE]"),
		wiretest.Stream(call("0", "call_2", "fs_read", `{\"path\":\"b\"}`), end("tool_calls"), "[DONE]"),
		wiretest.Stream(`{"choices":[{"index":0,"delta":{"reasoning_content":"Done."}}]}`, `{"choices":[{"index":0,"delta":{"content":"21 degrees."}}]}`, end("stop"), "[DONE]"),
		wiretest.Stream(`{"choices":[{"index":0,"delta":{"content":"Still 21."}}]}`, end("stop"), "[DONE]"))
}

func TestWhatAServiceKeepsGoesBackToItAlone(t *testing.T) {
	s := wiretest.New(t,
		wiretest.Stream(
			`{"choices":[{"delta":{"reasoning":"Cold","reasoning_details":[{"type":"reasoning.text","text":"Co","index":0,"format":null}]}}]}`,
			`{"choices":[{"delta":{"reasoning_details":[{"type":"reasoning.text","text":"ld","index":0},{"type":"reasoning.text","signature":"s1","index":0}]}}]}`,
			`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"fs_read","arguments":"{}"},"extra_content":{"google":{"thought_signature":"t1"}}}],"reasoning_details":[{"type":"reasoning.encrypted","data":"e1","id":"c1","index":0}]},"finish_reason":"tool_calls"}]}`, "[DONE]"),
		wiretest.Stream(`{"choices":[{"delta":{"content":"ok"},"finish_reason":"stop"}]}`, "[DONE]"))
	p := &Provider{Client: s.Client()}
	r := &chat.Request{Model: "m", Messages: []chat.Message{chat.TextMessage(chat.User, "a")}, Tools: wiretest.Tools()}
	a, err := chat.Collect(t.Context(), p, r)
	if err != nil {
		t.Fatal(err)
	}
	r.Messages = append(r.Messages, a.Message(),
		chat.Message{Role: chat.ToolRole, ToolCallID: "c1", ToolName: "fs.read", Segments: []chat.Segment{{Type: chat.Text, Text: "x"}}})
	if _, err := chat.Collect(t.Context(), p, r); err != nil {
		t.Fatal(err)
	}
	second := string(s.Requests()[1].Body)
	for _, want := range []string{
		`"reasoning_details":[{"format":null,"index":0,"signature":"s1","text":"Cold","type":"reasoning.text"},{"data":"e1","id":"c1","index":0,"type":"reasoning.encrypted"}]`,
		`"extra_content":{"google":{"thought_signature":"t1"}}`,
	} {
		if !strings.Contains(second, want) {
			t.Errorf("the second request has no %s: %s", want, second)
		}
	}
	elsewhere := *s.Client()
	elsewhere.BaseURL = "http://localhost:1"
	body, err := (&Provider{Client: &elsewhere}).encode(r, wire.NamesOf(r), new(wire.Parts))
	if err != nil || strings.Contains(string(body), "reasoning_details") || strings.Contains(string(body), "extra_content") || !strings.Contains(string(body), `"fs_read"`) {
		t.Errorf("another service gets %s (%v)", body, err)
	}
}

func TestDetailsOfAnotherFormAreKeptAsTheyAre(t *testing.T) {
	var d details
	var pieces []json.RawMessage
	for _, piece := range []string{
		`{"type":{"a":1},"text":"a"}`, `{"type":{"a":1},"text":"b"}`, `{"type":"t","index":[0]}`, `{"type":"t","index":[0]}`,
		`"text"`, `{"text":1}`, `{"text":"c"}`, `{"text":"d"}`,
	} {
		pieces = append(pieces, json.RawMessage(piece))
	}
	if err := d.add(pieces); err != nil {
		t.Fatal(err)
	}
	kept, err := d.kept("here")
	if want := `[{"text":"a","type":{"a":1}},{"text":"b","type":{"a":1}},{"index":[0],"type":"t"},{"index":[0],"type":"t"},{"text":"cd"}]`; err != nil || string(kept.Data) != want {
		t.Errorf("kept %s (%v), want %s", kept.Data, err, want)
	}
}

func TestAnswersThatDoNotEndAreGivenUp(t *testing.T) {
	long := strings.Repeat("no ", 100_000)
	for name, piece := range map[string]delta{
		"a refusal":              {Refusal: wire.Text(long)},
		"calls that say nothing": {ToolCalls: make([]callDelta, 1000)},
		"details":                {ReasoningDetails: []json.RawMessage{json.RawMessage(`{"text":"` + long + `"}`)}},
	} {
		for i := range piece.ToolCalls {
			piece.ToolCalls[i].Function.Name = "f"
		}
		d := &decoder{names: wire.NamesOf(hello()), out: wire.NewStream(func(chat.Event) error { return nil }), reasons: new(atomic.Bool)}
		var err error
		for range 100 {
			if err = d.choice(choice{Delta: piece}); err != nil {
				break
			}
		}
		if refused := new(chat.Error); !errors.As(err, &refused) || refused.Kind != chat.BadResponse {
			t.Errorf("%s: %v", name, err)
		}
	}
}
