package loop

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/llm/model"
	"github.com/aibridge/aibridge/llm/tools"
	"github.com/aibridge/aibridge/llm/wire/wiretest"
)

// TestAToolGetsWhatThePersonTyped though the provider never sees it, over two
// turns, with and without a stream.
func TestAToolGetsWhatThePersonTyped(t *testing.T) {
	call := func(pieces ...string) (chunks []string) {
		head := `"id":"c","function":{"name":"mail","arguments":""}`
		for _, piece := range append([]string{head}, pieces...) {
			if piece != head {
				piece = `"function":{"arguments":` + quoted(piece) + `}`
			}
			chunks = append(chunks, `{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,`+piece+`}]}}]}`)
		}
		return append(chunks, `{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}`, "[DONE]")
	}
	say := func(pieces ...string) (chunks []string) {
		for _, piece := range pieces {
			chunks = append(chunks, `{"choices":[{"delta":{"content":`+quoted(piece)+`}}]}`)
		}
		return append(chunks, `{"choices":[{"delta":{},"finish_reason":"stop"}]}`, "[DONE]")
	}
	for _, streamed := range []bool{false, true} {
		provider := wiretest.New(t,
			wiretest.Stream(call(`{"to":"[ema`, `il-1]","phone":"[phone-1`, `]"}`)...), wiretest.Stream(say("Sent to [em", "ail-1", "].")...),
			wiretest.Stream(call(`{"to":"[email-2]"}`)...), wiretest.Stream(say("And to [email-2].")...))
		service := model.New(model.Options{Transport: &http.Transport{DisableKeepAlives: true}})
		if _, err := service.Configure(model.Config{
			Providers: []model.ProviderConfig{{Name: "p", Wire: "openai", BaseURL: provider.URL}},
			Models:    []model.ModelConfig{{Name: "m", Routes: []model.Route{{Provider: "p"}}}},
			Redact:    []model.Redaction{{Kinds: []string{"email", "phone"}}},
			Probe:     -1,
		}); err != nil {
			t.Fatal(err)
		}
		var got []string
		mail := tool("mail", func(_ context.Context, x *tools.Execution) (tools.Output, error) {
			got = append(got, string(x.ArgumentsJSON))
			return tools.Output{Text: "queued for " + x.Arguments["to"].(string)}, nil
		})
		runner := New(Options{Model: service, Tools: tools.New(given{mail}), Executor: &tools.Executor{}})
		heard := ""
		var emit func(chat.Event) error
		if streamed {
			emit = func(e chat.Event) error {
				if e.Type == chat.TextDelta {
					heard += e.Text
				}
				return nil
			}
		}
		c := asking(nil)
		c.Request.Messages = []chat.Message{chat.TextMessage(chat.User, "Mail ann@x.org that I am at (212) 555-0187.")}
		answers := ""
		for _, next := range []string{"And bob@x.org, too.", ""} {
			turn, err := runner.Converse(t.Context(), c, emit)
			if err != nil {
				t.Fatal(err)
			}
			answers += turn.Answer.Text()
			c.Request.Messages = append(append(c.Request.Messages, turn.Messages...), chat.TextMessage(chat.User, next))
		}
		if want := "Sent to ann@x.org.And to bob@x.org."; answers != want || streamed && heard != want {
			t.Errorf("answered %q, heard %q", answers, heard)
		}
		if want := `{"phone":"(212) 555-0187","to":"ann@x.org"} {"to":"bob@x.org"}`; strings.Join(got, " ") != want && strings.Join(got, " ") != `{"to":"ann@x.org","phone":"(212) 555-0187"} {"to":"bob@x.org"}` {
			t.Errorf("the tool got %s", got)
		}
		var last struct{ Messages []json.RawMessage }
		for i, r := range provider.Requests() {
			if body := string(r.Body); strings.Contains(body, "x.org") || strings.Contains(body, "555") {
				t.Errorf("request %d tells %s", i+1, body)
			}
			_ = json.Unmarshal(r.Body, &last)
		}
		if talk := string(last.Messages[3]); len(last.Messages) != 8 || !strings.Contains(talk, "queued for [email-1]") {
			t.Errorf("the last request has %s", last.Messages)
		}
	}
}

func quoted(text string) string {
	raw, _ := json.Marshal(text)
	return string(raw)
}
