package chat

import "encoding/json"

// Role says who speaks in a [Message].
type Role string

// The roles. There is no developer role: adapters say what a provider wants.
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

	// Of role tool alone: the call it answers, and whether the tool failed.
	ToolCallID string `json:"tool_call_id,omitempty"`
	ToolName   string `json:"tool_name,omitempty"`
	Failed     bool   `json:"failed,omitempty"`
}

// Kind says what a [Segment] holds.
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
	Type     Kind            `json:"type"`
	Text     string          `json:"text,omitempty"`     // of text, and what may be read of reasoning
	Data     string          `json:"data,omitempty"`     // of media: base64, or a URL
	MIMEType string          `json:"mimeType,omitempty"` // of media, required
	UI       json.RawMessage `json:"ui,omitempty"`       // a component to render
	ToolCall *ToolCall       `json:"toolCall,omitempty"`
	Opaque   *Opaque         `json:"opaque,omitempty"`
}

// A ToolCall is a model's wish to run a tool.
type ToolCall struct {
	ID   string          `json:"id"` // unique in its answer; made here if the provider gives none
	Name string          `json:"name"`
	Args json.RawMessage `json:"args"` // an object; null if Raw is none

	// Raw are the arguments to the byte as the model wrote them, if they
	// differ from Args, as when they are no JSON.
	Raw string `json:"raw,omitempty"`
}

// Opaque is what a provider wants back to the byte and nobody else
// understands: a thought signature, a signed thinking block, encrypted
// reasoning. It goes back only to where it came from.
type Opaque struct {
	Origin string          `json:"origin"` // wire and model family, such as "anthropic"
	Data   json.RawMessage `json:"data"`
}

// TextMessage is a message of one text.
func TextMessage(role Role, text string) Message {
	return Message{Role: role, Segments: []Segment{{Type: Text, Text: text}}}
}
