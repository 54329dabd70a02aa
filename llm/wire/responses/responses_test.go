package responses

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/llm/wire"
	"github.com/aibridge/aibridge/llm/wire/wiretest"
)

func provider(c *wire.Client) chat.Provider {
	return &Provider{Client: c, Dialect: Dialect{Reasoning: true, Strict: true}}
}

func hello() *chat.Request {
	return &chat.Request{Model: "m", Messages: []chat.Message{chat.TextMessage(chat.User, "hello")}, Tools: wiretest.Tools()}
}

const usage = `"usage":{"input_tokens":10,"input_tokens_details":{"cached_tokens":4},"output_tokens":6,"output_tokens_details":{"reasoning_tokens":3}}`

const completed = `{"type":"response.completed","response":{"model":"gpt-x","status":"completed",` + usage + `}}`

func added(index, item string) string {
	return `{"type":"response.output_item.added","output_index":` + index + `,"item":` + item + `}`
}

func done(index, item string) string {
	return `{"type":"response.output_item.done","output_index":` + index + `,"item":` + item + `}`
}

func delta(kind, index, text string) string {
	return `{"type":"response.` + kind + `.delta","output_index":` + index + `,"delta":"` + text + `"}`
}

func TestAWholeConversationOnTheWire(t *testing.T) {
	r := wiretest.Everything(chat.Opaque{Origin: Origin, Data: json.RawMessage(`{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"c2ln"}`)})
	r.Options.ReasoningEffort = "medium"
	for name, dialect := range map[string]Dialect{"plain": {Reasoning: true, Strict: true}, "simple": {NoReasoning: true, Strict: true}} {
		s := wiretest.New(t, wiretest.Stream(completed))
		var rec wiretest.Recorder
		if err := (&Provider{Client: s.Client(), Dialect: dialect}).Stream(context.Background(), r, rec.Emit); err != nil {
			t.Fatal(err)
		}
		if path := s.Requests()[0].Path; path != "/responses" {
			t.Errorf("asked at %s", path)
		}
		wiretest.Golden(t, "request-"+name+".json", wiretest.Indent(s.Requests()[0].Body))
	}
}

func TestReasoningAndPhasesGoBack(t *testing.T) {
	reasoning := `{"type":"reasoning","id":"rs_1","status":"completed","summary":[{"type":"summary_text","text":"hm"}],"encrypted_content":"SECRET"}`
	message := `{"type":"message","id":"msg_1","status":"completed","role":"assistant","phase":"commentary","content":[{"type":"output_text","text":"I look.","annotations":[]}]}`
	call := `{"type":"function_call","id":"fc_1","call_id":"call_1","name":"fs_read","arguments":"{\"path\":\"a\"}","status":"completed"}`
	s := wiretest.New(t, wiretest.Stream(done("0", reasoning), done("1", message), done("2", call), completed), wiretest.Stream(completed))
	p := &Provider{Client: s.Client()}
	r := hello()
	a, err := chat.Collect(t.Context(), p, r)
	if err != nil {
		t.Fatal(err)
	}
	r.Messages = append(r.Messages, a.Message(), chat.Message{Role: chat.ToolRole, ToolCallID: "call_1", Segments: []chat.Segment{{Type: chat.Text, Text: "x"}}})
	if _, err := chat.Collect(t.Context(), p, r); err != nil {
		t.Fatal(err)
	}
	var body struct{ Input json.RawMessage }
	if err := json.Unmarshal(s.Requests()[1].Body, &body); err != nil {
		t.Fatal(err)
	}
	wiretest.Golden(t, "replay.json", wiretest.Indent(body.Input))
}

func TestAnswersAreRead(t *testing.T) {
	message := `{"type":"message","id":"msg_1","role":"assistant","content":[]}`
	whole := `{"type":"message","id":"msg_1","role":"assistant","content":[{"type":"output_text","text":"Hello"}]}`
	call := func(id, arguments string) string {
		return `{"type":"function_call","id":"fc","call_id":"` + id + `","name":"fs_read","arguments":"` + arguments + `"}`
	}
	thought := `{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"hm"}],"encrypted_content":"E"}`
	wiretest.Everyone(t, provider, hello(), map[string]wiretest.Reply{
		"text": wiretest.Stream(`{"type":"response.created","response":{"status":"in_progress"}}`, added("0", message), delta("output_text", "0", "Hel"), delta("output_text", "0", "lo"), done("0", whole), completed),
		"reasoning": wiretest.Stream(added("0", `{"type":"reasoning","id":"rs_1","summary":[]}`), `{"type":"response.reasoning_summary_part.added","output_index":0}`, delta("reasoning_summary_text", "0", "h"), delta("reasoning_summary_text", "0", "m"), done("0", thought),
			added("1", message), delta("output_text", "1", "Hello"), done("1", whole), completed),
		"reasoning without deltas":   wiretest.Stream(done("0", thought), completed),
		"reasoning that is not kept": wiretest.Stream(done("0", `{"type":"reasoning","id":"rs_1","content":[],"encrypted_content":null,"summary":[{"type":"summary_text","text":"one"},{"type":"summary_text","text":"two"}]}`), done("1", whole), completed),
		"reasoning in full":          wiretest.JSON(200, `{"model":"gpt-oss","status":"completed","output":[{"type":"reasoning","id":"rs_1","summary":[],"content":[{"type":"reasoning_text","text":"hm"}]},`+whole+`],"usage":{"input_tokens":9,"output_tokens":2,"input_tokens_details":{"cached_tokens":1,"cache_write_tokens":5}}}`),
		"an end that says little":    wiretest.Stream(`{"type":"response.created","response":{"id":"r","model":"grok-x"}}`, added("0", message), delta("output_text", "0", "Hello"), done("0", whole), `{"type":"response.completed","response":{"incomplete_details":{"reason":"max_output_tokens"}}}`),
		"an error without a code":    wiretest.Stream(`{"type":"error","error":{"type":"server_error","code":null,"message":"An error occurred"}}`),
		"calls, interleaved": wiretest.Stream(added("0", call("a", "")), added("1", call("b", "")), delta("function_call_arguments", "1", "{}"), delta("function_call_arguments", "0", `{\"path\":`), delta("function_call_arguments", "0", `\"x\"}`),
			done("1", call("b", "{}")), done("0", call("a", `{\"path\":\"x\"}`)), completed),
		"calls in one piece":   wiretest.Stream(done("0", call("a", `{\"path\":\"x\"}`)), completed),
		"the same id twice":    wiretest.Stream(done("0", call("a", "{}")), done("1", call("a", "{}")), completed),
		"broken arguments":     wiretest.Stream(done("0", call("a", `{\"pa`)), completed),
		"a refusal":            wiretest.Stream(added("0", message), delta("refusal", "0", "I won't"), done("0", `{"type":"message","content":[{"type":"refusal","refusal":"I won't"}]}`), completed),
		"another kind of item": wiretest.Stream(done("0", `{"type":"web_search_call","id":"ws_1","status":"completed"}`), completed),
		"too long":             wiretest.Stream(added("0", message), delta("output_text", "0", "Hel"), `{"type":"response.incomplete","response":{"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},`+usage+`}}`),
		"too long in a call":   wiretest.Stream(added("0", call("a", "")), delta("function_call_arguments", "0", `{\"pa`), `{"type":"response.incomplete","response":{"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"}}}`),
		"a filter":             wiretest.Stream(`{"type":"response.incomplete","response":{"status":"incomplete","incomplete_details":{"reason":"content_filter"}}}`),
		"a failure":            wiretest.Stream(`{"type":"response.failed","response":{"status":"failed","error":{"code":"server_error","message":"oops"}}}`),
		"rate limited midway":  wiretest.Stream(`{"type":"error","code":"rate_limit_exceeded","message":"slow"}`),
		"cut":                  wiretest.Stream(added("0", message), delta("output_text", "0", "Hel")),
		"an item without end":  wiretest.Stream(added("0", message), delta("output_text", "0", "Hel"), completed),
		"not JSON":             wiretest.Stream(`{"type":`),
		"in one piece":         wiretest.JSON(200, `{"model":"gpt-x","status":"completed","output":[`+thought+`,`+whole+`,`+call("a", "{}")+`],`+usage+`}`),
		"401":                  wiretest.JSON(401, `{"error":{"message":"bad key sk-secret-key","code":"invalid_api_key"}}`),
		"429":                  {Status: 429, Header: map[string]string{"Retry-After-Ms": "1500"}, Pieces: []string{`{"error":{"message":"slow","type":"tokens","code":"rate_limit_exceeded"}}`}},
	})
}

func TestWhatTheWireHasNoPlaceFor(t *testing.T) {
	seed := int64(1)
	for name, change := range map[string]func(*chat.Request){
		"stop": func(r *chat.Request) { r.Options.Stop = []string{"x"} },
		"seed": func(r *chat.Request) { r.Options.Seed = &seed },
		"video": func(r *chat.Request) {
			r.Messages[0].Segments = []chat.Segment{{Type: chat.Video, MIMEType: "video/mp4", Data: "eA=="}}
		},
		"role": func(r *chat.Request) { r.Messages[0].Role = "developer" },
	} {
		r := hello()
		change(r)
		err := (&Provider{}).Stream(t.Context(), r, func(chat.Event) error { return nil })
		if failure, ok := err.(*chat.Error); !ok || failure.Kind != chat.BadRequest { //nolint:errorlint // it is that very type
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestQuirks(t *testing.T) { wiretest.Quirks(t, provider, hello()) }

func FuzzAnswer(f *testing.F) {
	wiretest.Seeds(f)
	f.Add([]byte("data: " + added("0", `{"type":"function_call","call_id":"a","name":"f"}`) + "\n\ndata: " + delta("function_call_arguments", "0", "{}") + "\n\ndata: " + completed + "\n\n"))
	f.Add([]byte(`{"status":"completed","output":[{"type":"message","phase":"p","content":[{"type":"output_text","text":"x"}]}]}`))
	f.Fuzz(func(t *testing.T, data []byte) { wiretest.Fuzz(t, provider, hello(), data) })
}

// TestATalk has encrypted reasoning, a commentary, parallel calls, a call in
// the next round, and a second question.
func TestATalk(t *testing.T) {
	thought := func(id string) string {
		return `{"type":"reasoning","id":"` + id + `","summary":[{"type":"summary_text","text":"Two rooms."}],"encrypted_content":"gAAAA+/=="}`
	}
	text := func(phase, said string) string {
		return `{"type":"message","id":"msg_1","status":"completed","role":"assistant","phase":"` + phase + `","content":[{"type":"output_text","text":"` + said + `","annotations":[]}]}`
	}
	call := func(id, name, arguments string) string {
		return `{"type":"function_call","id":"fc_` + id + `","call_id":"` + id + `","name":"` + name + `","arguments":"` + arguments + `","status":"completed"}`
	}
	wiretest.Talk(t, provider, hello(),
		wiretest.Stream(done("0", thought("rs_1")), added("1", text("commentary", "")), delta("output_text", "1", "I look."), done("1", text("commentary", "I look.")),
			added("2", call("call_1", "thermostat_read", "")), added("3", call("call_2", "fs_read", "")), delta("function_call_arguments", "3", `{\"path\":\"a\"}`), delta("function_call_arguments", "2", `{\"room\":\"hall\"}`),
			done("3", call("call_2", "fs_read", `{\"path\":\"a\"}`)), done("2", call("call_1", "thermostat_read", `{\"room\":\"hall\"}`)), completed),
		wiretest.Stream(done("0", thought("rs_2")), done("1", call("call_3", "fs_read", `{\"path\":\"b\"}`)), completed),
		wiretest.Stream(added("0", text("final_answer", "")), delta("output_text", "0", "21 degrees."), done("0", text("final_answer", "21 degrees.")), completed),
		wiretest.Stream(done("0", text("final_answer", "Still 21.")), completed))
}
