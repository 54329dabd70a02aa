package gemini

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/llm/wire"
	"github.com/aibridge/aibridge/llm/wire/wiretest"
)

func provider(c *wire.Client) chat.Provider { return &Provider{Client: c} }

func hello() *chat.Request {
	return &chat.Request{Model: "m", Messages: []chat.Message{chat.TextMessage(chat.User, "hello")}, Tools: wiretest.Tools()}
}

func parts(list string, more ...string) string {
	return `{"candidates":[{"content":{"role":"model","parts":[` + list + `]}` + strings.Join(more, "") + `}],"modelVersion":"gemini-x"}`
}

func finish(reason string) string { return `,"finishReason":"` + reason + `","index":0` }

func TestAWholeConversationOnTheWire(t *testing.T) {
	own := chat.Opaque{Origin: Origin, Data: json.RawMessage(`{"thoughtSignature":"c2ln"}`)}
	everything, effort := wiretest.Everything(own), wiretest.Everything(own)
	effort.Options.ReasoningEffort = "low"
	effort.Options.ToolChoice = chat.ToolChoice{Mode: "required"}
	for name, test := range map[string]struct {
		dialect Dialect
		request *chat.Request
	}{
		"plain":    {Dialect{}, everything},
		"thinking": {Dialect{}, effort},
		"budget":   {Dialect{ThinkingBudget: true}, effort},
	} {
		s := wiretest.New(t, wiretest.Stream(parts(`{"text":"ok"}`, finish("STOP"))))
		var rec wiretest.Recorder
		if err := (&Provider{Client: s.Client(), Dialect: test.dialect}).Stream(context.Background(), test.request, rec.Emit); err != nil {
			t.Fatal(err)
		}
		if path := s.Requests()[0].Path; path != "/v1beta/models/model-1:streamGenerateContent?alt=sse" {
			t.Errorf("asked at %s", path)
		}
		wiretest.Golden(t, "request-"+name+".json", wiretest.Indent(s.Requests()[0].Body))
	}
}

// Signatures go back in the parts they came in, of parallel calls with the
// first, of calls one after the other with each; nobody invents any.
func TestSignaturesGoBackInTheirOwnParts(t *testing.T) {
	replies := []wiretest.Reply{
		wiretest.Stream(parts(`{"text":"Let me ","thought":true}`), parts(`{"text":"I "}`), parts(`{"text":"look."}`),
			parts(`{"functionCall":{"name":"fs.read","args":{"path":"a"}},"thoughtSignature":"AAA"},{"functionCall":{"name":"thermostat.read","args":{}}}`, finish("STOP"))),
		wiretest.Stream(parts(`{"functionCall":{"name":"fs.read","args":{"path":"b"},"id":"fc-7"},"thoughtSignature":"BBB"}`, finish("STOP"))),
		wiretest.Stream(parts(`{"text":"Done."}`), parts(`{"text":"","thoughtSignature":"CCC"}`, finish("STOP"))),
		wiretest.Stream(parts(`{"text":"ok"}`, finish("STOP"))),
	}
	s := wiretest.New(t, replies...)
	p := &Provider{Client: s.Client()}
	r := hello()
	for range replies {
		a, err := chat.Collect(t.Context(), p, r)
		if err != nil {
			t.Fatal(err)
		}
		r.Messages = append(r.Messages, a.Message())
		calls := a.Calls()
		for _, c := range calls {
			r.Messages = append(r.Messages, chat.Message{Role: chat.ToolRole, ToolCallID: c.ID, ToolName: c.Name, Segments: []chat.Segment{{Type: chat.Text, Text: "done"}}})
		}
		if len(calls) == 0 {
			r.Messages = append(r.Messages, chat.TextMessage(chat.User, "and now?"))
		}
	}
	var body struct{ Contents json.RawMessage }
	if err := json.Unmarshal(s.Requests()[3].Body, &body); err != nil {
		t.Fatal(err)
	}
	wiretest.Golden(t, "signatures.json", wiretest.Indent(body.Contents))
}

func TestAnswersAreRead(t *testing.T) {
	usage := `{"candidates":[{"content":{"parts":[{"text":"!"}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":10,"candidatesTokenCount":3,"thoughtsTokenCount":4,"cachedContentTokenCount":6,"totalTokenCount":17}}`
	wiretest.Everyone(t, provider, hello(), map[string]wiretest.Reply{
		"text":                wiretest.Stream(parts(`{"text":"Hel"}`), parts(`{"text":"lo"}`), usage),
		"thoughts":            wiretest.Stream(parts(`{"text":"hm","thought":true}`), parts(`{"text":"yes"}`, finish("STOP"))),
		"a signed text":       wiretest.Stream(parts(`{"text":"a"}`), parts(`{"text":"b","thoughtSignature":"S"}`), parts(`{"text":"c"}`, finish("STOP"))),
		"an empty signed end": wiretest.Stream(parts(`{"text":"a"}`), parts(`{"text":"","thoughtSignature":"S"}`, finish("STOP"))),
		"parallel calls":      wiretest.Stream(parts(`{"functionCall":{"name":"fs.read","args":{"path":"a"}},"thoughtSignature":"S"},{"functionCall":{"name":"fs.read"}}`, finish("STOP"))),
		"calls with ids":      wiretest.Stream(parts(`{"functionCall":{"id":"x","name":"fs.read","args":{}}}`, finish("STOP"))),
		"an image":            wiretest.Stream(parts(`{"inlineData":{"mimeType":"image/png","data":"aGk="}}`, finish("STOP"))),
		"sound":               wiretest.Stream(parts(`{"inlineData":{"mimeType":"audio/mp3","data":"aGk="}}`, finish("STOP"))),
		"split characters":    wiretest.Stream(parts(`{"text":"\ud83d"}`), parts(`{"text":"\ude00"}`, finish("STOP"))),
		"too long":            wiretest.Stream(parts(`{"text":"a"}`, finish("MAX_TOKENS"))),
		"unsafe":              wiretest.Stream(parts(`{"text":"a"}`, finish("SAFETY"))),
		"a blocked prompt":    wiretest.Stream(`{"promptFeedback":{"blockReason":"PROHIBITED_CONTENT"},"usageMetadata":{"promptTokenCount":4}}`),
		"a malformed call":    wiretest.Stream(`{"candidates":[{"content":{},"finishReason":"MALFORMED_FUNCTION_CALL","finishMessage":"bad call"}]}`),
		"cut":                 wiretest.Stream(parts(`{"text":"a"}`)),
		"not JSON":            wiretest.Stream(`{"candi`),
		"an error in between": wiretest.Stream(parts(`{"text":"a"}`), `{"error":{"code":503,"message":"overloaded","status":"UNAVAILABLE"}}`),
		"in one piece":        wiretest.JSON(200, `[`+parts(`{"text":"a"}`)+`,`+parts(`{"text":"b"}`, finish("STOP"))+`]`),
		"without a reason":    wiretest.JSON(200, parts(`{"text":"a"}`)),
		"nothing at all":      wiretest.JSON(200, `{"usageMetadata":{"promptTokenCount":4}}`),
		"arguments of null":   wiretest.Stream(parts(`{"functionCall":{"name":"fs.read","args":null}}`, finish("STOP"))),
		"400":                 wiretest.JSON(400, `{"error":{"code":400,"message":"API key not valid: sk-secret-key","status":"INVALID_ARGUMENT","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"API_KEY_INVALID"}]}}`),
		"400, too long":       wiretest.JSON(400, `[{"error":{"code":400,"message":"The input token count (1300000) exceeds the maximum number of tokens allowed (1048575).","status":"INVALID_ARGUMENT"}}]`),
		"404":                 wiretest.JSON(404, `{"error":{"code":404,"message":"models/m is not found","status":"NOT_FOUND"}}`),
		"429":                 wiretest.JSON(429, `[{"error":{"code":429,"message":"quota","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"31s"}]}}]`),
		"503":                 wiretest.JSON(503, `{"error":{"code":503,"message":"overloaded","status":"UNAVAILABLE"}}`),
	})
}

func TestModelsAreListedPageByPage(t *testing.T) {
	s := wiretest.New(t,
		wiretest.JSON(200, `{"models":[{"name":"models/a","displayName":"A","version":"001"}],"nextPageToken":"n x"}`),
		wiretest.JSON(200, `{"models":[{"name":"models/b"}]}`))
	models, err := (&Provider{Client: s.Client()}).Models(t.Context())
	if err != nil || len(models) != 2 || models[0] != (chat.Model{ID: "a", Name: "A", Version: "001"}) || !strings.Contains(s.Requests()[1].Path, "pageToken=n+x") {
		t.Errorf("got %v, %v", models, err)
	}
}

func TestQuirks(t *testing.T) { wiretest.Quirks(t, provider, hello()) }

func FuzzAnswer(f *testing.F) {
	wiretest.Seeds(f)
	f.Add([]byte("data: " + parts(`{"text":"a","thoughtSignature":"S"},{"functionCall":{"name":"f","args":{}}}`, finish("STOP")) + "\n\n"))
	f.Add([]byte(`[` + parts(`{"inlineData":{"mimeType":"image/png","data":"aGk="}}`, finish("STOP")) + `]`))
	f.Fuzz(func(t *testing.T, data []byte) { wiretest.Fuzz(t, provider, hello(), data) })
}

// TestATalk has thoughts, a signature on the first of parallel calls and on
// the call of the next round, one on an empty end, and a second question.
func TestATalk(t *testing.T) {
	wiretest.Talk(t, provider, hello(),
		wiretest.Stream(parts(`{"text":"Two rooms.","thought":true}`), parts(`{"text":"I look."}`),
			parts(`{"functionCall":{"name":"thermostat.read","args":{"room":"hall"}},"thoughtSignature":"AbC+/=="},{"functionCall":{"name":"fs.read","args":{"path":"a"}}}`, finish("STOP"))),
		wiretest.Stream(parts(`{"functionCall":{"name":"fs.read","args":{"path":"b"}},"thoughtSignature":"DeF+/=="}`, finish("STOP"))),
		wiretest.Stream(parts(`{"text":"21 "}`), parts(`{"text":"degrees."}`), parts(`{"text":"","thoughtSignature":"GhI+/=="}`, finish("STOP"))),
		wiretest.Stream(parts(`{"text":"Still 21."}`, finish("STOP"))))
}
