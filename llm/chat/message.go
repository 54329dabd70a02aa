package chat

import "encoding/json"

// Role is the role of the author of a [Message].
type Role string

// The roles. There is no developer role: adapters use the roles of their provider.
const (
	System    Role = "system"
	User      Role = "user"
	Assistant Role = "assistant"
	ToolRole  Role = "tool" // the result of one tool call
)

// A Message is one turn, or part of one. The order of its segments is that of
// the wire.
type Message struct {
	Role     Role      `json:"role"`
	Segments []Segment `json:"segments"`

	// Only of role tool: id of the answered call, its tool, and whether the tool
	// failed.
	ToolCallID string `json:"tool_call_id,omitempty"`
	ToolName   string `json:"tool_name,omitempty"`
	Failed     bool   `json:"failed,omitempty"`
}

// Kind is the kind of content of a [Segment].
type Kind string

// The kinds of segments.
const (
	Text      Kind = "text"
	Image     Kind = "image"
	Audio     Kind = "audio"
	Video     Kind = "video"
	UI        Kind = "ui"
	Call      Kind = "tool_call"
	Reasoning Kind = "reasoning"
)

// A Segment is a piece of content. Which fields it has depends on its kind.
type Segment struct {
	Type     Kind            `json:"type" doc:"kind of content: text, image, audio, video, ui, tool_call or reasoning; it decides which other fields there are"`
	Text     string          `json:"text,omitempty" doc:"of text: the text; of reasoning: the part that may be read; absent in other kinds"`
	Data     string          `json:"data,omitempty" doc:"of image, audio and video: the content in base64, or its URL; absent in other kinds"`
	MIMEType string          `json:"mimeType,omitempty" doc:"media type of data, such as image/png; absent without data"`
	UI       json.RawMessage `json:"ui,omitempty" doc:"of ui: a component to render, any JSON; absent in other kinds"`
	ToolCall *ToolCall       `json:"toolCall,omitempty" doc:"of tool_call: the call that the model wants; absent in other kinds"`
	Opaque   *Opaque         `json:"opaque,omitempty" doc:"state of the provider that belongs to this segment, to be sent back with it; absent if there is none"`
}

// A ToolCall is a model's wish to run a tool.
type ToolCall struct {
	ID   string          `json:"id" doc:"id of the call, unique in the answer; made by the bridge if the provider gives none"`
	Name string          `json:"name" doc:"name of the tool, as the model was told it"`
	Args json.RawMessage `json:"args" doc:"arguments, a JSON object; null if the model wrote none that can be read"`
	Raw  string          `json:"raw,omitempty" doc:"arguments byte for byte as the model wrote them; absent if args says the same"`
}

// Opaque is data that only its provider understands and requires back byte for byte: a
// thought signature, a signed thinking block, encrypted reasoning. It goes back only to
// its origin.
type Opaque struct {
	Origin string          `json:"origin" doc:"wire format and model family that data goes back to, such as anthropic"`
	Data   json.RawMessage `json:"data" doc:"JSON that goes back to the provider byte for byte; only the provider understands it"`
}

// TextMessage is a message of one text.
func TextMessage(role Role, text string) Message {
	return Message{Role: role, Segments: []Segment{{Type: Text, Text: text}}}
}
