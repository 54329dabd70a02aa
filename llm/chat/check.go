package chat

import (
	"encoding/json"
	"fmt"
	"mime"

	"github.com/google/uuid"
)

// A Fault is a fault of a conversation, with its place.
type Fault struct {
	Path   string // such as messages[2].segments[0].mimeType
	Reason string
}

func (f *Fault) Error() string { return f.Path + " " + f.Reason }

// Complete checks a conversation that a caller sent and gives ids to calls that have
// none. Every call must be answered by one tool message, at once and in the order of the
// calls.
func Complete(list []Message) error {
	var open []*ToolCall // calls without an answer, of the current round
	seen := make(map[string]bool)
	for i := range list {
		m := &list[i]
		at := fmt.Sprintf("messages[%d]", i)
		if m.Role == ToolRole {
			if len(open) == 0 {
				return &Fault{at, "answers no call"}
			}
			if m.ToolCallID == "" {
				m.ToolCallID = open[0].ID
			}
			if m.ToolCallID != open[0].ID {
				return &Fault{at + ".tool_call_id", "must be that of the next call without an answer, " + open[0].ID}
			}
			m.ToolName = open[0].Name
			open = open[1:]
		} else if len(open) > 0 {
			return &Fault{at, "stands before the answer to the call " + open[0].ID}
		}
		switch m.Role {
		case System, User, Assistant, ToolRole:
		default:
			return &Fault{at + ".role", "must be system, user, assistant or tool"}
		}
		for j := range m.Segments {
			s := &m.Segments[j]
			if err := s.check(fmt.Sprintf("%s.segments[%d]", at, j), m.Role); err != nil {
				return err
			}
			if s.Type != Call {
				continue
			}
			if s.ToolCall.ID == "" {
				s.ToolCall.ID = uuid.NewString()
			}
			if seen[s.ToolCall.ID] {
				return &Fault{fmt.Sprintf("%s.segments[%d].toolCall.id", at, j), "is used twice"}
			}
			seen[s.ToolCall.ID] = true
			open = append(open, s.ToolCall)
		}
	}
	if len(open) > 0 {
		return &Fault{"messages", "end before the answer to the call " + open[0].ID}
	}
	return nil
}

func (s *Segment) check(at string, role Role) error {
	switch s.Type {
	case Text:
	case Reasoning:
		if role != Assistant {
			return &Fault{at, "is reasoning, which only the assistant has"}
		}
	case Image, Audio, Video:
		if s.Data == "" {
			return &Fault{at + ".data", "is missing"}
		}
		if _, _, err := mime.ParseMediaType(s.MIMEType); err != nil {
			return &Fault{at + ".mimeType", "must be a media type such as image/png"}
		}
	case UI:
		if len(s.UI) == 0 {
			return &Fault{at + ".ui", "is missing"}
		}
	case Call:
		switch {
		case role != Assistant:
			return &Fault{at, "is a call, which only the assistant makes"}
		case s.ToolCall == nil || s.ToolCall.Name == "":
			return &Fault{at + ".toolCall.name", "is missing"}
		}
		return s.ToolCall.check(at + ".toolCall.args")
	default:
		return &Fault{at + ".type", "must be text, image, audio, video, ui, tool_call or reasoning"}
	}
	return nil
}

func (c *ToolCall) check(at string) error {
	var object map[string]json.RawMessage
	switch {
	case len(c.Args) == 0 || string(c.Args) == "null":
		c.Args = nil
		if c.Raw == "" {
			c.Args = json.RawMessage("{}")
		}
	case json.Unmarshal(c.Args, &object) != nil:
		return &Fault{at, "must be an object"}
	}
	return nil
}
