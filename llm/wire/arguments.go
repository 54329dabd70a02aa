package wire

import (
	"bytes"
	"encoding/json"

	"github.com/google/uuid"

	"github.com/aibridge/aibridge/llm/chat"
)

// NewCall returns a call with the arguments that a model wrote. Arguments that are not
// a JSON object stay in Raw, for the executor to report; absent ones are an empty
// object.
func NewCall(id, name, arguments string) *chat.ToolCall {
	c := &chat.ToolCall{ID: id, Name: name}
	trimmed := bytes.TrimSpace([]byte(arguments))
	switch {
	case len(trimmed) == 0:
		c.Args = json.RawMessage("{}")
	case string(trimmed) == "null":
		c.Args, c.Raw = json.RawMessage("{}"), arguments
	case trimmed[0] == '{' && json.Valid(trimmed):
		c.Args = json.RawMessage(trimmed)
		if len(trimmed) < len(arguments) {
			c.Raw = arguments
		}
	default:
		c.Raw = arguments
	}
	return c
}

// Arguments is the JSON text of a call's arguments for a provider.
func Arguments(c *chat.ToolCall) string { return string(ArgumentsObject(c)) }

// ArgumentsObject is the same for wires that carry an object. Arguments that are no
// object are wrapped in one: the model sees its own text, and the service can parse the
// history.
func ArgumentsObject(c *chat.ToolCall) json.RawMessage {
	if len(c.Args) > 0 {
		return c.Args
	}
	if c.Raw == "" {
		return json.RawMessage("{}")
	}
	wrapped, _ := json.Marshal(map[string]string{"_raw": c.Raw})
	return wrapped
}

// An IDs makes the ids of one answer's calls unique. The zero value is ready to use.
type IDs struct{ seen map[string]bool }

// Unique returns the id, or a new one if there is none or it was used.
func (s *IDs) Unique(id string) string {
	if s.seen == nil {
		s.seen = make(map[string]bool)
	}
	if id == "" || s.seen[id] {
		id = uuid.NewString()
	}
	s.seen[id] = true
	return id
}

// Written are the arguments of a call in the forms of services: a string or, unquoted,
// an object.
type Written struct{ Text }

// UnmarshalJSON implements [encoding/json.Unmarshaler].
func (w *Written) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '{' {
		w.Text = append(w.Text[:0], data...)
		return nil
	}
	return w.Text.UnmarshalJSON(data)
}
