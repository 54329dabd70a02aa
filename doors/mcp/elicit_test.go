package mcp_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/llm/tools"
)

// A person answers forms, and remembers them.
type person struct {
	forms  []*sdk.ElicitParams
	answer sdk.ElicitResult
}

func (p *person) options() *sdk.ClientOptions {
	return &sdk.ClientOptions{ElicitationHandler: func(_ context.Context, r *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
		p.forms = append(p.forms, r.Params)
		answer := p.answer
		return &answer, nil
	}}
}

func textOf(r *sdk.CallToolResult) string { return r.Content[0].(*sdk.TextContent).Text }

// everyWay runs a test in versions with and without sessions, by the short way of calls
// and by that of the SDK, which calls that ask for progress take.
func everyWay(t *testing.T, f func(t *testing.T, version string, meta sdk.Meta)) {
	for _, version := range []string{"2025-11-25", "2026-07-28"} {
		for way, meta := range map[string]sdk.Meta{"short": nil, "long": {"progressToken": "p"}} {
			t.Run(version+" "+way, func(t *testing.T) { f(t, version, meta) })
		}
	}
}

func TestAClientAsksItsUserForWhatACallLacks(t *testing.T) {
	everyWay(t, func(t *testing.T, version string, meta sdk.Meta) {
		w := newWorld(t)
		p := &person{answer: sdk.ElicitResult{Action: "accept", Content: map[string]any{"celsius": 21.5}}}
		c := w.connect(t, "ada", version, p.options())
		r, err := c.CallTool(t.Context(), &sdk.CallToolParams{Meta: meta, Name: "thermostat.set", Arguments: map[string]any{}})
		if err != nil || r.IsError || jsonOf(r.StructuredContent) != `{"target":21.5}` {
			t.Fatalf("call: %v %s", err, jsonOf(r))
		}
		if len(p.forms) != 1 || !strings.Contains(p.forms[0].Message, "thermostat.set needs celsius") {
			t.Fatalf("forms: %s", jsonOf(p.forms))
		}
		if form := jsonOf(p.forms[0].RequestedSchema); form != `{"properties":{"celsius":{"type":"number"}},"required":["celsius"],"type":"object"}` {
			t.Errorf("form: %s", form)
		}
		// A call that lacks nothing asks nobody.
		if r, err := c.CallTool(t.Context(), &sdk.CallToolParams{Meta: meta, Name: "thermostat.set", Arguments: map[string]any{"celsius": 7}}); err != nil || r.IsError || len(p.forms) != 1 {
			t.Errorf("a whole call: %v %s, %d forms", err, jsonOf(r), len(p.forms))
		}
		p.answer = sdk.ElicitResult{Action: "decline"}
		r, err = c.CallTool(t.Context(), &sdk.CallToolParams{Meta: meta, Name: "thermostat.set", Arguments: map[string]any{}})
		if err != nil || !r.IsError || !strings.Contains(textOf(r), "the user was asked and gave no value") {
			t.Errorf("declined: %v %s", err, jsonOf(r))
		}
	})
}

// A session's client that names no mode can ask by forms, one that names another cannot.
func TestAClientThatCannotAskHasItsModelReadWhatIsMissing(t *testing.T) {
	everyWay(t, func(t *testing.T, version string, meta sdk.Meta) {
		w := newWorld(t)
		p := &person{}
		pages := p.options()
		pages.Capabilities = &sdk.ClientCapabilities{Elicitation: &sdk.ElicitationCapabilities{URL: &sdk.URLElicitationCapabilities{}}}
		for name, options := range map[string]*sdk.ClientOptions{"nothing": nil, "pages": pages} {
			c := w.connect(t, "ada", version, options)
			r, err := c.CallTool(t.Context(), &sdk.CallToolParams{Meta: meta, Name: "thermostat.set", Arguments: map[string]any{}})
			if err != nil || !r.IsError || !strings.Contains(textOf(r), "missing_required:celsius") || len(p.forms) > 0 {
				t.Errorf("%s: %v %s, %d forms", name, err, jsonOf(r), len(p.forms))
			}
		}
	})
}

func TestOnlyWhatAFormMayAskForIsAsked(t *testing.T) {
	for name, test := range map[string]struct {
		schema, arguments string
		asked             bool
	}{
		"a choice":             {`{"properties":{"mode":{"type":"string","enum":["eco","max"]}},"required":["mode"]}`, `{}`, true},
		"two of three":         {`{"properties":{"a":{"type":"string"},"b":{"type":"boolean"},"c":{"type":"integer"}},"required":["a","b"]}`, `{"c":1}`, true},
		"one is there":         {`{"properties":{"a":{"type":"string"},"b":{"type":"boolean"}},"required":["a","b"]}`, `{"a":"x"}`, true},
		"nothing required":     {`{"properties":{"a":{"type":"string"}}}`, `{}`, false},
		"a secret":             {`{"properties":{"pin":{"type":"string","format":"password"}},"required":["pin"]}`, `{}`, false},
		"never shown":          {`{"properties":{"pin":{"type":"string","writeOnly":true}},"required":["pin"]}`, `{}`, false},
		"an object":            {`{"properties":{"at":{"type":"object"}},"required":["at"]}`, `{}`, false},
		"an object among them": {`{"properties":{"a":{"type":"string"},"at":{"type":"object"}},"required":["a","at"]}`, `{}`, false},
		"a slip of the model":  {`{"properties":{"celsius":{"type":"number"}},"required":["celsius"]}`, `{"celsuis":20}`, false},
		"of another type too":  {`{"properties":{"a":{"type":"string"},"n":{"type":"integer"}},"required":["a"]}`, `{"n":"many"}`, false},
		"no declaration of it": {`{"properties":{},"required":["ghost"]}`, `{}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			ran := make(chan string, 1)
			w.source.add("", &tools.Tool{
				Declaration: tools.Declaration{Name: "test.it", Effect: commands.Act, Schema: json.RawMessage(strings.Replace(test.schema, "{", `{"type":"object",`, 1)), Untrusted: true},
				Run: func(_ context.Context, x *tools.Execution) (tools.Output, error) {
					ran <- string(x.ArgumentsJSON)
					return tools.Output{Text: "done"}, nil
				},
			})
			p := &person{answer: sdk.ElicitResult{Action: "cancel"}}
			c := w.connect(t, "ada", "2026-07-28", p.options())
			if _, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: "test.it", Arguments: json.RawMessage(test.arguments)}); err != nil {
				t.Fatal(err)
			}
			if asked := len(p.forms) == 1; asked != test.asked {
				t.Errorf("asked: %v", asked)
			}
			if len(p.forms) == 1 && !strings.Contains(p.forms[0].Message, "is from whoever offers the tool") {
				t.Errorf("a stranger's words are not marked: %s", p.forms[0].Message)
			}
		})
	}
}

// What a client adds beyond what it was asked for is no argument.
func TestAnAnswerGivesOnlyWhatWasAsked(t *testing.T) {
	w := newWorld(t)
	got := make(chan string, 1)
	w.source.add("", &tools.Tool{
		Declaration: tools.Declaration{Name: "door.unlock", Effect: commands.Act, Schema: json.RawMessage(
			`{"type":"object","properties":{"door":{"type":"string"},"force":{"type":"boolean"}},"required":["door"]}`)},
		Run: func(_ context.Context, x *tools.Execution) (tools.Output, error) {
			got <- string(x.ArgumentsJSON)
			return tools.Output{Text: "done"}, nil
		},
	})
	p := &person{answer: sdk.ElicitResult{Action: "accept", Content: map[string]any{"door": "back", "force": true}}}
	c := w.connect(t, "ada", "2026-07-28", p.options())
	if r, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: "door.unlock", Arguments: map[string]any{}}); err != nil || r.IsError {
		t.Fatalf("%v %s", err, jsonOf(r))
	}
	if arguments := <-got; arguments != `{"door":"back"}` {
		t.Errorf("arguments: %s", arguments)
	}
}
