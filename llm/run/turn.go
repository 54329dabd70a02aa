package run

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/llm/run/fault"
)

// A Turn is one question to the model, with its answer and the calls in it.
type Turn struct {
	ID          string       `json:"id" doc:"C01, C02 and so on"`
	At          time.Time    `json:"at" doc:"time at which the model was asked"`
	Node        string       `json:"nodeId,omitempty" doc:"step the run was in"`
	PhaseBefore Phase        `json:"phaseBefore" enum:"Running,WaitingUser,WaitingApproval,Completed,Failed" doc:"phase before the turn"`
	Request     TurnRequest  `json:"request" doc:"question to the model"`
	Response    TurnResponse `json:"response" doc:"answer"`
	ToolRuns    []ToolRun    `json:"toolRuns,omitempty" doc:"the calls of the answer, in their order; missing if the bridge stopped before their end"`
	UIAfter     *UIAfter     `json:"uiAfter,omitempty" doc:"state of the run after the turn"`
}

// A TurnRequest is a request to a model, in the format of OpenAI's protocol.
type TurnRequest struct {
	Messages []json.RawMessage `json:"messages" doc:"system, user, assistant and tool messages"`
	Tools    []json.RawMessage `json:"tools" doc:"the tools it was offered"`
}

// A TurnResponse is the answer of a model.
type TurnResponse struct {
	Assistant    json.RawMessage `json:"assistant" doc:"the assistant message"`
	Segments     []chat.Segment  `json:"segments" doc:"the same with all that the provider sent: reasoning, media, opaque fields"`
	Model        string          `json:"model,omitempty" doc:"name of the model"`
	Provider     string          `json:"provider,omitempty" doc:"name of the provider that runs it"`
	FinishReason string          `json:"finishReason,omitempty" doc:"reason for the end of the answer"`
	Usage        chat.Usage      `json:"usage" doc:"tokens by kind"`
	Cost         float64         `json:"cost,omitempty" doc:"in the currency of the configured prices"`
	DurationMS   float64         `json:"durationMs" doc:"milliseconds the model took"`
}

// A ToolRun is one call of a tool with its result.
type ToolRun struct {
	ToolCallID string          `json:"toolCallId" doc:"id of the call"`
	ToolName   string          `json:"toolName" doc:"the tool"`
	Args       json.RawMessage `json:"args" doc:"its arguments; a text if they were no JSON"`
	Result     json.RawMessage `json:"result" doc:"text that the model read"`
	At         time.Time       `json:"at,omitzero" doc:"time at which it was begun"`
	DurationMS float64         `json:"durationMs" doc:"milliseconds it took"`
	Replayed   bool            `json:"replayed,omitempty" doc:"the call ran before a crash and was not repeated: the result is the first one"`
	Warning    string          `json:"warning,omitempty" doc:"change of the arguments"`
}

// UIAfter is the state of a run after a turn.
type UIAfter struct {
	Phase      Phase      `json:"phase" enum:"Running,WaitingUser,WaitingApproval,Completed,Failed" doc:"phase of the run"`
	StopReason fault.Code `json:"stopReason,omitempty" doc:"code of the stop; absent if the run completed or has a question"`
}

func turnID(n int) string { return fmt.Sprintf("C%02d", n) }

// openAIMessage is a message in the format of OpenAI's protocol.
type openAIMessage struct {
	Role       chat.Role        `json:"role"`
	Content    *string          `json:"content"`
	ToolCalls  []openAIToolCall `json:"tool_calls,omitempty"`
	ToolCallID string           `json:"tool_call_id,omitempty"`
}

type openAIToolCall struct {
	ID       string         `json:"id"`
	Type     string         `json:"type"`
	Function openAIFunction `json:"function"`
}

type openAIFunction struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Arguments   *string         `json:"arguments,omitempty"`
	Parameters  json.RawMessage `json:"parameters,omitempty"`
}

// asOpenAI converts a message to the format of OpenAI's protocol.
func asOpenAI(m *chat.Message) json.RawMessage {
	o := openAIMessage{Role: m.Role, ToolCallID: m.ToolCallID}
	var text strings.Builder
	spoke := false
	for _, s := range m.Segments {
		switch s.Type {
		case chat.Text:
			text.WriteString(s.Text)
			spoke = true
		case chat.Call:
			if s.ToolCall == nil {
				continue
			}
			arguments := argumentsOf(s.ToolCall)
			o.ToolCalls = append(o.ToolCalls, openAIToolCall{s.ToolCall.ID, "function", openAIFunction{Name: s.ToolCall.Name, Arguments: &arguments}})
		}
	}
	if spoke || m.Role != chat.Assistant {
		content := text.String()
		o.Content = &content
	}
	raw, _ := json.Marshal(o) // texts and valid JSON alone
	return raw
}

// toolAsOpenAI converts a tool to the format of OpenAI's protocol.
func toolAsOpenAI(t *chat.Tool) json.RawMessage {
	raw, err := json.Marshal(struct {
		Type     string         `json:"type"`
		Function openAIFunction `json:"function"`
	}{"function", openAIFunction{Name: t.Name, Description: t.Description, Parameters: t.Parameters}})
	if err != nil {
		return json.RawMessage("{}")
	}
	return raw
}

// argumentsOf are the arguments of a call as the model wrote them.
func argumentsOf(c *chat.ToolCall) string {
	if c.Raw != "" {
		return c.Raw
	}
	if len(c.Args) == 0 {
		return "{}"
	}
	return string(c.Args)
}

// argsJSON returns the arguments as JSON; arguments that are not JSON become a string.
func argsJSON(c *chat.ToolCall) json.RawMessage {
	if len(c.Args) > 0 {
		return c.Args
	}
	raw, _ := json.Marshal(c.Raw)
	return raw
}
