package chat

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// wireMessage is the JSON of a message: with segments, or in the older shape with
// content and toolCalls.
type wireMessage struct {
	Role       Role            `json:"role"`
	Segments   []Segment       `json:"segments"`
	Content    json.RawMessage `json:"content"`
	ToolCalls  []ToolCall      `json:"toolCalls"`
	ToolCallID string          `json:"tool_call_id"`
	ToolName   string          `json:"tool_name"`
	Failed     bool            `json:"failed"`
}

// UnmarshalJSON implements [json.Unmarshaler]. It reads the older shape too,
// with content (text, or a list of segments) and toolCalls beside it.
func (m *Message) UnmarshalJSON(data []byte) error {
	var w wireMessage
	if err := json.Unmarshal(data, &w); err != nil {
		return err
	}
	*m = Message{Role: w.Role, Segments: w.Segments, ToolCallID: w.ToolCallID, ToolName: w.ToolName, Failed: w.Failed}
	if err := m.addContent(w.Content); err != nil {
		return err
	}
	for i := range w.ToolCalls {
		m.Segments = append(m.Segments, Segment{Type: Call, ToolCall: &w.ToolCalls[i]})
	}
	return nil
}

func (m *Message) addContent(content json.RawMessage) error {
	content = bytes.TrimSpace(content)
	switch {
	case len(content) == 0 || string(content) == "null":
		return nil
	case content[0] == '"':
		var text string
		if err := json.Unmarshal(content, &text); err != nil {
			return err
		}
		m.Segments = append(m.Segments, Segment{Type: Text, Text: text})
		return nil
	}
	var list []Segment
	if err := json.Unmarshal(content, &list); err != nil {
		return fmt.Errorf("content is neither text nor a list of segments: %w", err)
	}
	m.Segments = append(m.Segments, list...)
	return nil
}
