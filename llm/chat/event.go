package chat

import "math"

// EventType is the type of an [Event]. It decides which fields the event has.
type EventType string

// The events of an answer, in the order in which they may come: any number of
// deltas, calls and segments, then one finish.
const (
	TextDelta      EventType = "text_delta"
	ReasoningDelta EventType = "reasoning_delta"
	ToolCallStart  EventType = "tool_call_start"
	ToolCallDelta  EventType = "tool_call_delta" // a piece of the arguments' text
	ToolCallEnd    EventType = "tool_call_end"   // with the whole call
	SegmentWhole   EventType = "segment"         // a segment that does not come in pieces: media, opaque parts
	Finished       EventType = "finish"
)

// An Event is a step of an answer.
type Event struct {
	Type EventType `json:"type"`

	// Index is the number of the event's segment: its place in the answer, from 0.
	// Deltas of parallel calls may interleave.
	Index int `json:"index"`

	Text    string    `json:"text,omitempty"`    // of deltas
	Call    *ToolCall `json:"call,omitempty"`    // id and name at the start, whole at the end
	Segment *Segment  `json:"segment,omitempty"` // whole
	Opaque  *Opaque   `json:"opaque,omitempty"`  // belongs to the segment of the index
	Finish  *Finish   `json:"finish,omitempty"`
}

// FinishReason is the reason for the end of an answer.
type FinishReason string

// The reasons for the end of an answer.
const (
	EndTurn   FinishReason = "end_turn"
	ToolUse   FinishReason = "tool_use"
	MaxTokens FinishReason = "max_tokens"
	Refused   FinishReason = "refused"
	Broken    FinishReason = "error"
	Waiting   FinishReason = "waiting" // for the approval of a call; it comes from the bridge, never from a provider
)

// A Finish is the last event of an answer.
type Finish struct {
	Reason FinishReason `json:"reason"`
	Detail string       `json:"detail,omitempty"` // of a refusal or an error
	Model  string       `json:"model,omitempty"`  // name of the model, given by the provider
	Usage  Usage        `json:"usage"`
}

// Usage counts tokens. Input includes those read from a cache.
type Usage struct {
	Input      int  `json:"input_tokens" doc:"tokens of the input, those read from a cache and written to it included"`
	Output     int  `json:"output_tokens" doc:"tokens of the answer, reasoning included"`
	Cached     int  `json:"cached_tokens,omitempty" doc:"tokens of the input that the provider read from its cache; absent for 0"`
	CacheWrite int  `json:"cache_write_tokens,omitempty" doc:"tokens of the input that the provider put into its cache; absent for 0"`
	Reasoning  int  `json:"reasoning_tokens,omitempty" doc:"tokens of the answer that are reasoning; absent for 0"`
	Estimated  bool `json:"estimated,omitempty" doc:"true if the provider did not count and the bridge estimated; absent otherwise"`
}

// Total is the number of tokens that a query used.
func (u Usage) Total() int { return u.Input + u.Output }

// Plausible is the usage without the counts of a provider that cannot be true, which would give
// budgets back what was spent: those below zero or too large are 0, and no part is more than its
// whole.
func (u Usage) Plausible() Usage {
	for _, n := range []*int{&u.Input, &u.Output, &u.Cached, &u.CacheWrite, &u.Reasoning} {
		if *n < 0 || *n >= math.MaxInt32 {
			*n = 0
		}
	}
	u.Cached = min(u.Cached, u.Input)
	u.CacheWrite = min(u.CacheWrite, u.Input-u.Cached)
	u.Reasoning = min(u.Reasoning, u.Output)
	return u
}
