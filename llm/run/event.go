package run

import (
	"fmt"
	"strings"

	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/llm/parked"
	"github.com/aibridge/aibridge/llm/run/fault"
)

// The events of a run. Events of the same message have the same id: C03 is the model's
// answer in its third turn, C03.1 the first call of it. A later event replaces an
// earlier one with the same id, except for a delta, which adds to it.
const (
	eventPhase   = "run.phase"
	eventNode    = "run.node"
	eventTurn    = "run.turn"
	eventAnswer  = "run.answer"
	eventDelta   = "run.delta"
	eventMessage = "run.message"
	eventTool    = "run.tool"
)

type phaseEvent struct {
	Phase     Phase      `json:"phase"`
	Code      fault.Code `json:"stop_reason,omitempty"`
	Reason    string     `json:"reason,omitempty"`
	Message   string     `json:"message,omitempty"`
	Questions []Question `json:"questions,omitempty"`

	Waiting *parked.WaitingEvent `json:"waiting,omitempty"`
}

type nodeEvent struct {
	Node  string `json:"node_id"`
	Type  string `json:"type"`
	Title string `json:"title,omitempty"`
	Agent string `json:"agent_id,omitempty"`
}

type turnEvent struct {
	Message string `json:"message_id"`
	Node    string `json:"node_id,omitempty"`
	n       int
}

// An answerEvent is the event of a turn's answer, with the usage of the run so far.
type answerEvent struct {
	Message string  `json:"message_id"`
	Turns   int     `json:"turns"`
	Tokens  int     `json:"tokens"`
	Cost    float64 `json:"cost,omitempty"`
}

type deltaEvent struct {
	Message string `json:"message_id"`
	Text    string `json:"text"`
}

type messageEvent struct {
	Message string    `json:"message_id"`
	Role    chat.Role `json:"role"`
	Text    string    `json:"text"`
	Final   bool      `json:"final,omitempty"`
}

type toolEvent struct {
	Message  string     `json:"message_id"`
	CallID   string     `json:"tool_call_id"`
	Tool     string     `json:"tool"`
	About    string     `json:"about,omitempty"`
	State    string     `json:"state"` // started, ok or failed
	Code     fault.Code `json:"code,omitempty"`
	Replayed bool       `json:"replayed,omitempty"`
	Duration float64    `json:"duration_ms,omitempty"`
}

func toolBegan(turn string, i int, c *chat.ToolCall) toolEvent {
	return toolEvent{Message: fmt.Sprintf("%s.%d", turn, i+1), CallID: c.ID, Tool: c.Name, About: about(string(argsJSON(c))), State: "started"}
}

func toolEnded(turn string, i int, h *handled) toolEvent {
	e := toolEvent{
		Message: fmt.Sprintf("%s.%d", turn, i+1), CallID: h.ToolCallID, Tool: h.ToolName, About: about(string(h.Args)),
		State: "ok", Code: h.code, Replayed: h.Replayed, Duration: h.DurationMS,
	}
	if h.code != "" {
		e.State = "failed"
	}
	return e
}

// maxAbout is the part of a call's arguments that an event shows, in bytes.
const maxAbout = 120

func about(args string) string {
	if len(args) > maxAbout {
		args = strings.ToValidUTF8(args[:maxAbout], "") + "…"
	}
	return args
}
