package wiretest

import (
	"encoding/json"

	"github.com/aibridge/aibridge/llm/chat"
)

// Conversation has everything a wire must carry: system texts, an image,
// reasoning of this wire and of another, text and parallel calls in one
// answer, results that are objects, texts and failures, an answer between two
// rounds of tools, and a call that is no JSON.
func Conversation(own chat.Opaque) []chat.Message {
	elsewhere := &chat.Opaque{Origin: "elsewhere", Data: json.RawMessage(`{"secret":"of another"}`)}
	return []chat.Message{
		chat.TextMessage(chat.System, "You run a house."),
		chat.TextMessage(chat.System, "Be brief."),
		{Role: chat.User, Segments: []chat.Segment{
			{Type: chat.Text, Text: "How warm is it <here> & there?"},
			{Type: chat.Image, MIMEType: "image/png", Data: "aGVsbG8="},
		}},
		{Role: chat.Assistant, Segments: []chat.Segment{
			{Type: chat.Reasoning, Text: "Two rooms.", Opaque: &own},
			{Type: chat.Reasoning, Text: "Not mine.", Opaque: elsewhere},
			{Type: chat.Text, Text: "I look."},
			{Type: chat.Call, ToolCall: &chat.ToolCall{ID: "call_1", Name: "thermostat.read", Args: json.RawMessage(`{"room":"hall"}`)}},
			{Type: chat.Call, ToolCall: &chat.ToolCall{ID: "call_2", Name: "thermostat.read", Args: json.RawMessage(`{"room":"attic"}`)}},
		}},
		{Role: chat.ToolRole, ToolCallID: "call_1", ToolName: "thermostat.read", Segments: []chat.Segment{{Type: chat.Text, Text: `{"celsius":21}`}}},
		{Role: chat.ToolRole, ToolCallID: "call_2", ToolName: "thermostat.read", Failed: true, Segments: []chat.Segment{{Type: chat.Text, Text: "offline"}}},
		{Role: chat.Assistant, Segments: []chat.Segment{
			{Type: chat.Call, ToolCall: &chat.ToolCall{ID: "call_3", Name: "fs.read", Raw: `{"path":`}},
		}},
		{Role: chat.ToolRole, ToolCallID: "call_3", ToolName: "fs.read", Segments: []chat.Segment{
			{Type: chat.Text, Text: "json_parse_error"}, {Type: chat.Image, MIMEType: "image/jpeg", Data: "d29ybGQ="},
		}},
		chat.TextMessage(chat.Assistant, "21 degrees in the hall."),
		chat.TextMessage(chat.User, "Thanks. And now?"),
	}
}

// Tools are the tools of the conversation.
func Tools() []chat.Tool {
	return []chat.Tool{
		{Name: "fs.read", Description: "Read a file", Parameters: json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"}},"required":["path"],"additionalProperties":false}`), Strict: true},
		{Name: "thermostat.read", Description: "Read the temperature of a room", Parameters: json.RawMessage(`{"type":"object","properties":{"room":{"type":"string"}}}`)},
	}
}

// Everything is a request with all options.
func Everything(own chat.Opaque) *chat.Request {
	temperature, top, serial := 0.5, 0.9, false
	return &chat.Request{
		Model:    "model-1",
		Messages: Conversation(own),
		Tools:    Tools(),
		Options: chat.Options{
			Temperature:       &temperature,
			TopP:              &top,
			MaxTokens:         100,
			ToolChoice:        chat.ToolChoice{Mode: "tool", Name: "fs.read"},
			ParallelToolCalls: &serial,
			Format:            json.RawMessage(`{"type":"object"}`),
			FormatName:        "reading",
		},
	}
}
