package openai

import (
	"encoding/json"
	"strings"
	"sync/atomic"

	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/llm/sse"
	"github.com/aibridge/aibridge/llm/wire"
)

// A chunk is one event of a stream, or, with message instead of delta, the
// answer of a service that does not stream.
type chunk struct {
	Model   string          `json:"model"`
	Choices []choice        `json:"choices"`
	Usage   *usage          `json:"usage"`
	Error   json.RawMessage `json:"error"`
}

type choice struct {
	Index        int    `json:"index"`
	Delta        delta  `json:"delta"`
	Message      *delta `json:"message"`
	FinishReason string `json:"finish_reason"`
}

type delta struct {
	Content          wire.Text   `json:"content"`
	Refusal          wire.Text   `json:"refusal"`
	ReasoningContent wire.Text   `json:"reasoning_content"`
	Reasoning        wire.Text   `json:"reasoning"`
	ToolCalls        []callDelta `json:"tool_calls"`
}

type callDelta struct {
	Index    *int   `json:"index"`
	ID       string `json:"id"`
	Function struct {
		Name      string    `json:"name"`
		Arguments arguments `json:"arguments"`
	} `json:"function"`
}

// arguments are text, or an object from services that forget to quote it.
type arguments struct{ wire.Text }

func (a *arguments) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '{' {
		a.Text = append(a.Text[:0], data...)
		return nil
	}
	return a.Text.UnmarshalJSON(data)
}

type usage struct {
	PromptTokens     int `json:"prompt_tokens"`
	CompletionTokens int `json:"completion_tokens"`
	CacheHitTokens   int `json:"prompt_cache_hit_tokens"`
	PromptDetails    struct {
		Cached int `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
	CompletionDetails struct {
		Reasoning int `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
}

func (u *usage) tokens() chat.Usage {
	return chat.Usage{
		Input:     u.PromptTokens,
		Output:    u.CompletionTokens,
		Cached:    max(u.PromptDetails.Cached, u.CacheHitTokens),
		Reasoning: u.CompletionDetails.Reasoning,
	}
}

// A decoder reads one answer.
type decoder struct {
	client *wire.Client
	names  *wire.Names
	out    *wire.Stream

	calls    []*openCall  // in the order they began
	reasons  *atomic.Bool // the service sends reasoning_content
	thinking bool         // reasoning is open
	refusal  wire.Joiner
	refused  strings.Builder
	finish   chat.Finish
	said     bool // that it is done
}

type openCall struct {
	index int
	id    string // as the service gave it
	*wire.Call
}

func (d *decoder) event(e sse.Event) error {
	if string(e.Data) == "[DONE]" {
		d.said = true
		return wire.Done
	}
	return d.whole(e.Data)
}

// whole reads a chunk, or an answer in one piece.
func (d *decoder) whole(data []byte) error {
	var c chunk
	if err := json.Unmarshal(data, &c); err != nil {
		return &chat.Error{Kind: chat.BadResponse, Message: "the provider sent what is not JSON of a completion", Cause: err}
	}
	if len(c.Error) > 0 && string(c.Error) != "null" {
		return d.client.Failure(data)
	}
	if c.Model != "" {
		d.finish.Model = c.Model
	}
	if c.Usage != nil {
		d.finish.Usage = c.Usage.tokens()
	}
	for _, choice := range c.Choices {
		if choice.Index != 0 { // only one answer was asked for
			continue
		}
		if err := d.choice(choice); err != nil {
			return err
		}
	}
	return nil
}

func (d *decoder) choice(c choice) error {
	said := c.Delta
	if c.Message != nil {
		said = *c.Message
	}
	reasoning := said.ReasoningContent
	if len(reasoning) > 0 {
		d.reasons.Store(true)
	} else {
		reasoning = said.Reasoning
	}
	if err := d.reasoning(reasoning); err != nil {
		return err
	}
	if len(said.Content) > 0 {
		if err := d.endReasoning(); err != nil {
			return err
		}
		if err := d.out.Text(said.Content); err != nil {
			return err
		}
	}
	d.refused.WriteString(d.refusal.Add(said.Refusal))
	for _, call := range said.ToolCalls {
		if err := d.endReasoning(); err != nil {
			return err
		}
		if err := d.call(call); err != nil {
			return err
		}
	}
	if c.FinishReason != "" {
		d.finish.Reason = reasonOf(c.FinishReason)
		if d.finish.Reason == chat.Broken {
			d.finish.Detail = "the provider ended with " + c.FinishReason
		}
	}
	return nil
}

func (d *decoder) reasoning(piece wire.Text) error {
	if len(piece) == 0 {
		return nil
	}
	d.thinking = true
	return d.out.Reasoning(piece)
}

// endReasoning marks the reasoning as this wire's, to which it may go back.
func (d *decoder) endReasoning() error {
	if !d.thinking {
		return nil
	}
	d.thinking = false
	return d.out.Mark(chat.Reasoning, &chat.Opaque{Origin: Origin})
}

// call takes a piece of a tool call. Services number calls by index; those
// that forget it give each an id, or send it whole.
func (d *decoder) call(c callDelta) error {
	open := d.find(c)
	if open == nil {
		call, err := d.out.Call(c.ID, d.names.Decode(c.Function.Name))
		if err != nil {
			return err
		}
		open = &openCall{index: -1, id: c.ID, Call: call}
		if c.Index != nil {
			open.index = *c.Index
		}
		d.calls = append(d.calls, open)
	}
	return open.Arguments(c.Function.Arguments.Text)
}

// find returns the call that a piece belongs to, nil for the first of a new
// one: it has another index, or another id, or a name again.
func (d *decoder) find(c callDelta) *openCall {
	for i := len(d.calls) - 1; i >= 0; i-- {
		open := d.calls[i]
		switch {
		case c.Index != nil && open.index != *c.Index:
		case c.ID != "" && open.id != c.ID:
			if c.Index != nil && c.Function.Name == "" { // some change the id from piece to piece
				return open
			}
		case c.Index == nil && c.ID == "" && c.Function.Name != "":
			return nil
		case c.Function.Name != "" && c.ID != "" && !open.Empty(): // a second call under the same id
			return nil
		default:
			return open
		}
	}
	return nil
}

func reasonOf(reason string) chat.FinishReason {
	switch reason {
	case "stop", "eos", "stop_sequence":
		return chat.EndTurn
	case "length", "max_tokens":
		return chat.MaxTokens
	case "tool_calls", "function_call":
		return chat.ToolUse
	case "content_filter":
		return chat.Refused
	}
	return chat.Broken
}

// end finishes the answer after the last chunk.
func (d *decoder) end() error {
	if d.finish.Reason == "" {
		if !d.said || d.out.Empty() {
			return chat.Errorf(chat.CutOff, "the answer ended before it was finished")
		}
		d.finish.Reason = chat.EndTurn
	}
	if err := d.endReasoning(); err != nil {
		return err
	}
	for _, c := range d.calls {
		if err := c.Close(nil); err != nil {
			return err
		}
	}
	d.refused.WriteString(d.refusal.End())
	if d.refused.Len() > 0 {
		d.finish.Reason, d.finish.Detail = chat.Refused, d.refused.String()
	}
	return d.out.Finish(d.finish)
}
