package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// A picture of one red point, and a sound of silence.
var (
	picture = []byte("\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x02\x00\x00\x00\x90wS\xde\x00\x00\x00\x0cIDATx\x9cc\xf8\xcf\xc0\x00\x00\x03\x01\x01\x00\xc9\xfe\x92\xef\x00\x00\x00\x00IEND\xaeB`\x82")
	sound   = []byte("RIFF$\x00\x00\x00WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00\x40\x1f\x00\x00\x40\x1f\x00\x00\x01\x00\x08\x00data\x00\x00\x00\x00")
)

// nothingTaken is the schema of a tool without arguments.
var nothingTaken = json.RawMessage(`{"type":"object","properties":{}}`)

// newFixture is the server with the tools, resources and prompts that the suite asks for.
func newFixture() http.Handler {
	s := sdk.NewServer(&sdk.Implementation{Name: "fixture", Version: "1"}, &sdk.ServerOptions{
		SubscribeHandler:   func(context.Context, *sdk.SubscribeRequest) error { return nil },
		UnsubscribeHandler: func(context.Context, *sdk.UnsubscribeRequest) error { return nil },
	})
	addContents(s)
	addWork(s)
	addQuestions(s)
	addRounds(s)
	addPrompts(s)
	addResources(s)
	return sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, nil)
}

// A handler carries out a tool.
type handler = func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error)

func addTool(s *sdk.Server, name string, schema json.RawMessage, do handler) {
	s.AddTool(&sdk.Tool{Name: name, Description: "A tool of the conformance suite", InputSchema: schema}, do)
}

func text(format string, values ...any) *sdk.CallToolResult {
	return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: fmt.Sprintf(format, values...)}}}
}

// addContents adds tools that return every kind of content.
func addContents(s *sdk.Server) {
	image := &sdk.ImageContent{Data: picture, MIMEType: "image/png"}
	resource := func(name, media, text string) sdk.Content {
		return &sdk.EmbeddedResource{Resource: &sdk.ResourceContents{URI: "test://" + name, MIMEType: media, Text: text}}
	}
	for name, content := range map[string][]sdk.Content{
		"test_simple_text":       {&sdk.TextContent{Text: "This is a simple text response for testing."}},
		"test_image_content":     {image},
		"test_audio_content":     {&sdk.AudioContent{Data: sound, MIMEType: "audio/wav"}},
		"test_embedded_resource": {resource("embedded-resource", "text/plain", "This is an embedded resource content.")},
		"test_multiple_content_types": {
			&sdk.TextContent{Text: "Multiple content types test:"}, image, resource("mixed-content-resource", "application/json", `{"test":"data","value":123}`),
		},
	} {
		addTool(s, name, nothingTaken, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return &sdk.CallToolResult{Content: content}, nil
		})
	}
	addTool(s, "test_error_handling", nothingTaken, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		r := text("This tool intentionally returns an error for testing")
		r.IsError = true
		return r, nil
	})
	addTool(s, "json_schema_2020_12_tool", json.RawMessage(richSchema), func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return text("ok"), nil
	})
}

const richSchema = `{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object",
"$defs":{"address":{"$anchor":"addressDef","type":"object","properties":{"street":{"type":"string"},"city":{"type":"string"}}}},
"properties":{"name":{"type":"string"},"address":{"$ref":"#/$defs/address"},"contactMethod":{"type":"string","enum":["phone","email"]},"phone":{"type":"string"},"email":{"type":"string"}},
"allOf":[{"anyOf":[{"required":["phone"]},{"required":["email"]}]}],
"if":{"properties":{"contactMethod":{"const":"phone"}},"required":["contactMethod"]},"then":{"required":["phone"]},"else":{"required":["email"]},
"additionalProperties":false}`

// addWork adds tools that take their time.
func addWork(s *sdk.Server) {
	addTool(s, "test_tool_with_logging", nothingTaken, func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		for _, said := range []string{"Tool execution started", "Tool processing data", "Tool execution completed"} {
			_ = r.Session.Log(ctx, &sdk.LoggingMessageParams{Level: "info", Data: said}) // a client need not listen
			time.Sleep(50 * time.Millisecond)
		}
		return text("done"), nil
	})
	addTool(s, "test_tool_with_progress", nothingTaken, func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		for _, done := range []float64{0, 50, 100} {
			if token := r.Params.GetProgressToken(); token != nil {
				_ = r.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: token, Progress: done, Total: 100}) // likewise
			}
			time.Sleep(50 * time.Millisecond)
		}
		return text("done"), nil
	})
	addTool(s, "greet", json.RawMessage(`{"type":"object","properties":{"name":{"type":"string"}}}`),
		func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			var p struct{ Name string }
			_ = json.Unmarshal(r.Params.Arguments, &p)
			return text("Hello, %s!", p.Name), nil
		})
	addTool(s, "slow_compute", json.RawMessage(`{"type":"object","properties":{"seconds":{"type":"number"},"label":{"type":"string"}}}`), slowCompute)
	addTool(s, "confirm_delete", json.RawMessage(`{"type":"object","properties":{"filename":{"type":"string"}}}`),
		func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) { return text("deleted"), nil })
	addTool(s, "failing_job", nothingTaken, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		time.Sleep(time.Second)
		r := text("the job failed")
		r.IsError = true
		return r, nil
	})
	addTool(s, "protocol_error_job", nothingTaken, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		time.Sleep(time.Second)
		return nil, errors.New("the job broke")
	})
}

func slowCompute(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
	var p struct{ Seconds float64 }
	if err := json.Unmarshal(r.Params.Arguments, &p); err != nil {
		return nil, err
	}
	select {
	case <-time.After(time.Duration(p.Seconds * float64(time.Second))):
		return text("computed for %g seconds", p.Seconds), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// addQuestions adds tools that ask the client something before they have a result.
func addQuestions(s *sdk.Server) {
	addQuestion(s, "test_sampling", `{"type":"object","properties":{"prompt":{"type":"string"}},"required":["prompt"]}`, func(arguments json.RawMessage) sdk.InputRequest {
		var p struct{ Prompt string }
		_ = json.Unmarshal(arguments, &p)
		return &sdk.CreateMessageParams{MaxTokens: 100, Messages: []*sdk.SamplingMessage{{Role: "user", Content: &sdk.TextContent{Text: p.Prompt}}}}
	})
	addQuestion(s, "test_elicitation", `{"type":"object","properties":{"message":{"type":"string"}},"required":["message"]}`, func(arguments json.RawMessage) sdk.InputRequest {
		var p struct{ Message string }
		_ = json.Unmarshal(arguments, &p)
		return form(p.Message, `{"username":{"type":"string","description":"User's response"},"email":{"type":"string","description":"User's email address"}},"required":["username","email"]`)
	})
	addQuestion(s, "test_elicitation_sep1034_defaults", string(nothingTaken), func(json.RawMessage) sdk.InputRequest {
		return form("Say who you are", `{"name":{"type":"string","default":"John Doe"},"age":{"type":"integer","default":30},"score":{"type":"number","default":95.5},`+
			`"status":{"type":"string","enum":["active","inactive","pending"],"default":"active"},"verified":{"type":"boolean","default":true}}`)
	})
	addQuestion(s, "test_elicitation_sep1330_enums", string(nothingTaken), func(json.RawMessage) sdk.InputRequest {
		return form("Choose", `{"untitledSingle":{"type":"string","enum":["option1","option2","option3"]},`+
			`"titledSingle":{"type":"string","oneOf":[{"const":"value1","title":"First Option"},{"const":"value2","title":"Second Option"},{"const":"value3","title":"Third Option"}]},`+
			`"legacyEnum":{"type":"string","enum":["opt1","opt2","opt3"],"enumNames":["Option One","Option Two","Option Three"]},`+
			`"untitledMulti":{"type":"array","minItems":1,"maxItems":3,"items":{"type":"string","enum":["option1","option2","option3"]}},`+
			`"titledMulti":{"type":"array","minItems":1,"maxItems":3,"items":{"anyOf":[{"const":"value1","title":"First Choice"},{"const":"value2","title":"Second Choice"},{"const":"value3","title":"Third Choice"}]}}}`)
	})
}

// form asks for properties, which may be followed by other keywords.
func form(message, properties string) *sdk.ElicitParams {
	return &sdk.ElicitParams{Mode: "form", Message: message, RequestedSchema: json.RawMessage(`{"type":"object","properties":` + properties + `}`)}
}

// addQuestion adds a tool whose result is the answer to one question.
func addQuestion(s *sdk.Server, name, schema string, ask func(arguments json.RawMessage) sdk.InputRequest) {
	const key = "question"
	addTool(s, name, json.RawMessage(schema), func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		switch answer := r.Params.InputResponses[key].(type) {
		case *sdk.ElicitResult:
			content, err := json.Marshal(answer.Content)
			return text("Elicitation completed: action=%s, content=%s", answer.Action, content), err
		case *sdk.CreateMessageWithToolsResult:
			if len(answer.Content) > 0 {
				if said, ok := answer.Content[0].(*sdk.TextContent); ok {
					return text("LLM response: %s", said.Text), nil
				}
			}
			return text("LLM response"), nil
		}
		return &sdk.CallToolResult{InputRequests: sdk.InputRequestMap{key: ask(r.Params.Arguments)}}, nil
	})
}

// addRounds adds tools whose questions are asked in rounds.
func addRounds(s *sdk.Server) {
	const asks = "test_input_required_result_"
	name := form("What is your name?", `{"name":{"type":"string"}},"required":["name"]`)
	sure := form("Please confirm", `{"ok":{"type":"boolean"}},"required":["ok"]`)
	capital := &sdk.CreateMessageParams{MaxTokens: 100, Messages: []*sdk.SamplingMessage{{Role: "user", Content: &sdk.TextContent{Text: "What is the capital of France?"}}}}
	for tool, question := range map[string]sdk.InputRequest{"elicitation": name, "sampling": capital, "request_state": sure, "tampered_state": sure} {
		addQuestion(s, asks+tool, string(nothingTaken), func(json.RawMessage) sdk.InputRequest { return question })
	}
	addTool(s, asks+"multi_round", nothingTaken, func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		switch {
		case r.Params.InputResponses["colour"] != nil:
			return text("Both are known."), nil
		case r.Params.InputResponses["name"] != nil:
			return &sdk.CallToolResult{RequestState: "second", InputRequests: sdk.InputRequestMap{"colour": form("What is your favourite colour?", `{"color":{"type":"string"}},"required":["color"]`)}}, nil
		}
		return &sdk.CallToolResult{RequestState: "first", InputRequests: sdk.InputRequestMap{"name": name}}, nil
	})
	addTool(s, asks+"capabilities", nothingTaken, func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		if len(r.Params.InputResponses) > 0 {
			return text("done"), nil
		}
		questions := sdk.InputRequestMap{}
		if hello := r.Session.InitializeParams(); hello != nil && hello.Capabilities != nil {
			if hello.Capabilities.Sampling != nil {
				questions["capital"] = capital
			}
			if hello.Capabilities.Elicitation != nil {
				questions["name"] = name
			}
		}
		return &sdk.CallToolResult{InputRequests: questions}, nil
	})
}

// addPrompts adds the prompts.
func addPrompts(s *sdk.Server) {
	said := func(contents ...sdk.Content) (*sdk.GetPromptResult, error) {
		result := &sdk.GetPromptResult{}
		for _, c := range contents {
			result.Messages = append(result.Messages, &sdk.PromptMessage{Role: "user", Content: c})
		}
		return result, nil
	}
	s.AddPrompt(&sdk.Prompt{Name: "test_simple_prompt", Description: "A prompt of the conformance suite"}, func(context.Context, *sdk.GetPromptRequest) (*sdk.GetPromptResult, error) {
		return said(&sdk.TextContent{Text: "This is a simple prompt for testing."})
	})
	s.AddPrompt(&sdk.Prompt{Name: "test_prompt_with_arguments", Description: "A prompt of the conformance suite", Arguments: []*sdk.PromptArgument{{Name: "arg1", Required: true}, {Name: "arg2", Required: true}}},
		func(_ context.Context, r *sdk.GetPromptRequest) (*sdk.GetPromptResult, error) {
			return said(&sdk.TextContent{Text: fmt.Sprintf("Prompt with arguments: arg1='%s', arg2='%s'", r.Params.Arguments["arg1"], r.Params.Arguments["arg2"])})
		})
	s.AddPrompt(&sdk.Prompt{Name: "test_prompt_with_embedded_resource", Description: "A prompt of the conformance suite", Arguments: []*sdk.PromptArgument{{Name: "resourceUri", Required: true}}},
		func(_ context.Context, r *sdk.GetPromptRequest) (*sdk.GetPromptResult, error) {
			return said(&sdk.EmbeddedResource{Resource: &sdk.ResourceContents{
				URI: r.Params.Arguments["resourceUri"], MIMEType: "text/plain", Text: "Embedded resource content for testing.",
			}}, &sdk.TextContent{Text: "Please process the embedded resource above."})
		})
	s.AddPrompt(&sdk.Prompt{Name: "test_prompt_with_image", Description: "A prompt of the conformance suite"}, func(context.Context, *sdk.GetPromptRequest) (*sdk.GetPromptResult, error) {
		return said(&sdk.ImageContent{Data: picture, MIMEType: "image/png"}, &sdk.TextContent{Text: "Please analyze the image above."})
	})
}

// addResources adds the resources.
func addResources(s *sdk.Server) {
	read := func(media string, of func(uri string) ([]byte, string)) sdk.ResourceHandler {
		return func(_ context.Context, r *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
			blob, text := of(r.Params.URI)
			return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{URI: r.Params.URI, MIMEType: media, Blob: blob, Text: text}}}, nil
		}
	}
	s.AddResource(&sdk.Resource{URI: "test://static-text", Name: "static-text", MIMEType: "text/plain"},
		read("text/plain", func(string) ([]byte, string) { return nil, "This is the content of the static text resource." }))
	s.AddResource(&sdk.Resource{URI: "test://static-binary", Name: "static-binary", MIMEType: "image/png"},
		read("image/png", func(string) ([]byte, string) { return picture, "" }))
	s.AddResource(&sdk.Resource{URI: "test://watched-resource", Name: "watched-resource", MIMEType: "text/plain"},
		read("text/plain", func(string) ([]byte, string) { return nil, "This is the content of the resource that is watched." }))
	s.AddResourceTemplate(&sdk.ResourceTemplate{URITemplate: "test://template/{id}/data", Name: "template", MIMEType: "application/json"},
		read("application/json", func(uri string) ([]byte, string) {
			id := strings.TrimSuffix(strings.TrimPrefix(uri, "test://template/"), "/data")
			return nil, fmt.Sprintf(`{"id":%q,"templateTest":true,"data":"Data for ID: %s"}`, id, id)
		}))
}
