package anthropic

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/llm/wire"
	"github.com/aibridge/aibridge/llm/wire/wiretest"
)

func provider(c *wire.Client) chat.Provider {
	return &Provider{Client: c, Dialect: Dialect{Strict: true}}
}

func hello() *chat.Request {
	return &chat.Request{Model: "m", Messages: []chat.Message{chat.TextMessage(chat.User, "hello")}, Tools: wiretest.Tools()}
}

// events is a stream as the API names its events.
func events(data ...string) wiretest.Reply {
	var r wiretest.Reply
	for _, d := range data {
		var e struct{ Type string }
		_ = json.Unmarshal([]byte(d), &e)
		r.Pieces = append(r.Pieces, "event: "+e.Type+"\ndata: "+d+"\n\n")
	}
	return r
}

const (
	start = `{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"claude-x","content":[],"stop_reason":null,"usage":{"input_tokens":5,"cache_read_input_tokens":100,"cache_creation_input_tokens":20,"output_tokens":1}}}`
	stop  = `{"type":"message_stop"}`
)

func reason(r string) string {
	return `{"type":"message_delta","delta":{"stop_reason":"` + r + `","stop_sequence":null},"usage":{"output_tokens":9}}`
}

func TestAWholeConversationOnTheWire(t *testing.T) {
	own := chat.Opaque{Origin: Origin, Data: json.RawMessage(`{"type":"thinking","thinking":"Two rooms.","signature":"c2ln"}`)}
	everything := wiretest.Everything(own)
	effort := wiretest.Everything(own)
	effort.Options.ReasoningEffort = "high"
	for name, test := range map[string]struct {
		dialect Dialect
		request *chat.Request
	}{
		"plain":    {Dialect{Strict: true}, everything},
		"thinking": {Dialect{Strict: true}, effort},
		"budget":   {Dialect{Strict: true, ThinkingBudget: true, NoCache: true}, effort},
	} {
		s := wiretest.New(t, events(start, reason("end_turn"), stop))
		var rec wiretest.Recorder
		if err := (&Provider{Client: s.Client(), Dialect: test.dialect}).Stream(context.Background(), test.request, rec.Emit); err != nil {
			t.Fatal(err)
		}
		if path := s.Requests()[0].Path; path != "/v1/messages" {
			t.Errorf("asked at %s", path)
		}
		wiretest.Golden(t, "request-"+name+".json", wiretest.Indent(s.Requests()[0].Body))
	}
}

func TestAnswersAreRead(t *testing.T) {
	begin := func(index, block string) string {
		return `{"type":"content_block_start","index":` + index + `,"content_block":` + block + `}`
	}
	delta := func(index, delta string) string {
		return `{"type":"content_block_delta","index":` + index + `,"delta":` + delta + `}`
	}
	end := func(index string) string { return `{"type":"content_block_stop","index":` + index + `}` }
	text := func(index, s string) string { return delta(index, `{"type":"text_delta","text":"`+s+`"}`) }
	wiretest.Everyone(t, provider, hello(), map[string]wiretest.Reply{
		"text": events(start, begin("0", `{"type":"text","text":""}`), `{"type":"ping"}`, text("0", "Hel"), text("0", "lo"), end("0"), reason("end_turn"), stop),
		"two texts": events(start, begin("0", `{"type":"text","text":""}`), text("0", "a"), end("0"),
			begin("1", `{"type":"text","text":""}`), text("1", "b"), end("1"), reason("stop_sequence"), stop),
		"thinking, text and calls": events(start,
			begin("0", `{"type":"thinking","thinking":"","signature":""}`), delta("0", `{"type":"thinking_delta","thinking":"h"}`),
			delta("0", `{"type":"thinking_delta","thinking":"m"}`), delta("0", `{"type":"signature_delta","signature":"c2lnbmF0dXJl"}`), end("0"),
			begin("1", `{"type":"redacted_thinking","data":"ZW5jcnlwdGVk"}`), end("1"),
			begin("2", `{"type":"text","text":""}`), text("2", "I look."), end("2"),
			begin("3", `{"type":"tool_use","id":"toolu_1","name":"fs_read","input":{}}`), delta("3", `{"type":"input_json_delta","partial_json":""}`),
			delta("3", `{"type":"input_json_delta","partial_json":"{\"path\":"}`), delta("3", `{"type":"input_json_delta","partial_json":" \"a\"}"}`), end("3"),
			begin("4", `{"type":"tool_use","id":"toolu_2","name":"thermostat_read","input":{}}`), end("4"),
			reason("tool_use"), stop),
		"a tool of the server": events(start,
			begin("0", `{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{}}`), delta("0", `{"type":"input_json_delta","partial_json":"{\"query\":\"x\"}"}`), end("0"),
			begin("1", `{"type":"web_search_tool_result","tool_use_id":"srvtoolu_1","content":[{"type":"web_search_result","encrypted_content":"abc"}]}`), end("1"),
			begin("2", `{"type":"text","text":""}`), text("2", "Found."), end("2"), reason("end_turn"), stop),
		"split characters":   events(start, begin("0", `{"type":"text","text":""}`), text("0", "\xf0\x9f"), text("0", "\x98\x80"), text("0", `\ud83d`), text("0", `\ude00`), end("0"), reason("end_turn"), stop),
		"broken arguments":   events(start, begin("0", `{"type":"tool_use","id":"t","name":"fs_read","input":{}}`), delta("0", `{"type":"input_json_delta","partial_json":"{\"pa"}`), end("0"), reason("max_tokens"), stop),
		"a refusal":          events(start, `{"type":"message_delta","delta":{"stop_reason":"refusal","stop_details":{"type":"refusal","explanation":"no"}},"usage":{"output_tokens":0}}`, stop),
		"a pause":            events(start, reason("pause_turn"), stop),
		"an unknown end":     events(start, reason("dunno"), stop),
		"overloaded":         events(start, begin("0", `{"type":"text","text":""}`), text("0", "a"), `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`),
		"cut":                events(start, begin("0", `{"type":"text","text":""}`), text("0", "a")),
		"cut in a call":      events(start, begin("0", `{"type":"tool_use","id":"t","name":"fs_read","input":{}}`), reason("tool_use"), stop),
		"cut before the end": events(start, reason("end_turn")),
		"a delta of nothing": events(start, text("7", "a")),
		"not JSON":           events(start, `{"type":`),
		"blocks of a kind to come": events(start,
			begin("0", `{"type":"compaction","content":null}`), delta("0", `{"type":"compaction_delta","content":"All "}`), delta("0", `{"type":"compaction_delta","content":"of it."}`), end("0"),
			begin("1", `{"type":"fallback","from":{"model":"a"},"to":{"model":"b"}}`), end("1"), begin("2", `{"type":"text","text":""}`),
			delta("2", `{"type":"citations_delta","citation":{"type":"char_location"}}`), text("2", "Yes."), end("2"), reason("end_turn"), stop),
		"an answer in the first event":   events(`{"type":"message_start","message":{"model":"claude-x","content":[{"type":"text","text":"hi"},{"type":"tool_use","id":"t","name":"fs_read","input":{"path":"x"}}],"stop_reason":"tool_use","usage":{"input_tokens":3,"output_tokens":4,"output_tokens_details":{"thinking_tokens":2}}}}`, stop),
		"told to begin twice":            events(start, start, begin("0", `{"type":"text","text":""}`), text("0", "ok"), end("0"), reason("end_turn"), stop),
		"in one piece, without a reason": wiretest.JSON(200, `{"type":"message","model":"claude-x","content":[{"type":"text","text":"hi"}],"stop_reason":null,"usage":{"input_tokens":3,"output_tokens":4}}`),
		"in one piece":                   wiretest.JSON(200, `{"id":"m","type":"message","model":"claude-x","content":[{"type":"thinking","thinking":"hm","signature":"s"},{"type":"text","text":"hi"},{"type":"tool_use","id":"t","name":"fs_read","input":{"path":"x"}}],"stop_reason":"tool_use","usage":{"input_tokens":3,"output_tokens":4}}`),
		"400, too long":                  wiretest.JSON(400, `{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 210000 tokens > 200000 maximum"}}`),
		"400":                            wiretest.JSON(400, `{"type":"error","error":{"type":"invalid_request_error","message":"tools.0.name: too long"}}`),
		"401":                            wiretest.JSON(401, `{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key sk-secret-key"}}`),
		"404":                            wiretest.JSON(404, `{"type":"error","error":{"type":"not_found_error","message":"model: m"}}`),
		"413":                            wiretest.JSON(413, `{"type":"error","error":{"type":"request_too_large","message":"too large"}}`),
		"429":                            {Status: 429, Header: map[string]string{"Retry-After": "12", "Content-Type": "application/json"}, Pieces: []string{`{"type":"error","error":{"type":"rate_limit_error","message":"slow"}}`}},
		"529":                            wiretest.JSON(529, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`),
	})
}

func TestModelsAreListedPageByPage(t *testing.T) {
	s := wiretest.New(t,
		wiretest.JSON(200, `{"data":[{"id":"a","display_name":"A"}],"has_more":true,"last_id":"a"}`),
		wiretest.JSON(200, `{"data":[{"id":"b","display_name":"B"}],"has_more":false,"last_id":"b"}`))
	models, err := (&Provider{Client: s.Client()}).Models(t.Context())
	if err != nil || len(models) != 2 || models[1].Name != "B" || s.Requests()[1].Path != "/v1/models?after_id=a&limit=1000" {
		t.Errorf("got %v, %v", models, err)
	}
}

func TestQuirks(t *testing.T) { wiretest.Quirks(t, provider, hello()) }

func FuzzAnswer(f *testing.F) {
	wiretest.Seeds(f)
	for _, r := range []wiretest.Reply{
		events(start, `{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"t","name":"fs_read","input":{}}}`, `{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{}"}}`, `{"type":"content_block_stop","index":0}`, reason("tool_use"), stop),
		wiretest.JSON(200, `{"type":"message","content":[{"type":"thinking","thinking":"hm","signature":"s"}],"stop_reason":"end_turn","usage":{}}`),
	} {
		var all []byte
		for _, p := range r.Pieces {
			all = append(all, p...)
		}
		f.Add(all)
	}
	f.Fuzz(func(t *testing.T, data []byte) { wiretest.Fuzz(t, provider, hello(), data) })
}

// TestATalk has signed and redacted thinking, parallel calls, a call in the
// next round, and a second question.
func TestATalk(t *testing.T) {
	block := func(index, begin string, deltas ...string) (all []string) {
		all = append(all, `{"type":"content_block_start","index":`+index+`,"content_block":`+begin+`}`)
		for _, d := range deltas {
			all = append(all, `{"type":"content_block_delta","index":`+index+`,"delta":`+d+`}`)
		}
		return append(all, `{"type":"content_block_stop","index":`+index+`}`)
	}
	input := func(text string) string { return `{"type":"input_json_delta","partial_json":"` + text + `"}` }
	says := func(r string, blocks ...[]string) wiretest.Reply {
		all := []string{start}
		for _, b := range blocks {
			all = append(all, b...)
		}
		return events(append(all, reason(r), stop)...)
	}
	r := hello()
	r.Options.ReasoningEffort = "high"
	wiretest.Talk(t, provider, r,
		says("tool_use",
			block("0", `{"type":"thinking","thinking":"","signature":""}`, `{"type":"thinking_delta","thinking":"Two rooms."}`, `{"type":"signature_delta","signature":"EqQBCgIYAhIM+/=="}`),
			block("1", `{"type":"redacted_thinking","data":"EmwKAhgB+/=="}`),
			block("2", `{"type":"text","text":""}`, `{"type":"text_delta","text":"I look."}`),
			block("3", `{"type":"tool_use","id":"toolu_1","name":"thermostat_read","input":{}}`, input(`{\"room\": \"ha`), input(`ll\"}`)),
			block("4", `{"type":"tool_use","id":"toolu_2","name":"fs_read","input":{}}`, input(`{\"path\": \"a\"}`))),
		says("tool_use", block("0", `{"type":"tool_use","id":"toolu_3","name":"fs_read","input":{}}`, input(`{\"path\": \"b\"}`))),
		says("end_turn", block("0", `{"type":"text","text":""}`, `{"type":"text_delta","text":"21 degrees."}`)),
		says("end_turn", block("0", `{"type":"text","text":""}`, `{"type":"text_delta","text":"Still 21."}`)))
}

func TestABlockThatIsNoneIsRefused(t *testing.T) {
	s := wiretest.New(t, events(start, `{"type":"content_block_start","index":0,"content_block":null}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{}"}}`, `{"type":"content_block_stop","index":0}`))
	_, err := chat.Collect(t.Context(), provider(s.Client()), hello())
	if refused := new(chat.Error); !errors.As(err, &refused) || refused.Kind != chat.BadResponse {
		t.Errorf("the answer is taken for one: %v", err)
	}
}

// A result of a tool with media that the API does not take does not end the conversation.
func TestMediaOfToolsDoNotEndAConversation(t *testing.T) {
	t.Parallel()
	m := chat.Message{Role: chat.ToolRole, ToolCallID: "1", Segments: []chat.Segment{
		{Type: chat.Text, Text: "done"}, {Type: chat.Audio, MIMEType: "audio/wav", Data: "aGk="}, {Type: chat.Image, MIMEType: "image/svg+xml", Data: "aGk="},
	}}
	blocks, err := said(m)
	if err != nil || len(blocks) != 3 {
		t.Fatalf("%v, %+v", err, blocks)
	}
	for _, b := range blocks {
		if _, ok := b.(textBlock); !ok {
			t.Errorf("%+v is sent", b)
		}
	}
	m.Role = chat.User
	if _, err := said(m); err == nil {
		t.Error("audio of a user is left out without a word")
	}
}
