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
	Object  string          `json:"object"`
	Type    string          `json:"type"`
	Error   json.RawMessage `json:"error"`
	Groq    struct {
		Usage *usage          `json:"usage"`
		Error json.RawMessage `json:"error"`
	} `json:"x_groq"`
}

type choice struct {
	Index        int             `json:"index"`
	Delta        delta           `json:"delta"`
	Message      *delta          `json:"message"`
	FinishReason string          `json:"finish_reason"`
	Error        json.RawMessage `json:"error"` // OpenRouter
	Usage        *usage          `json:"usage"` // Moonshot
}

type delta struct {
	Content          content           `json:"content"`
	Refusal          wire.Text         `json:"refusal"`
	ReasoningContent wire.Text         `json:"reasoning_content"`
	Reasoning        wire.Text         `json:"reasoning"`
	ReasoningDetails []json.RawMessage `json:"reasoning_details"`
	ToolCalls        []callDelta       `json:"tool_calls"`
	FunctionCall     *functionDelta    `json:"function_call"` // the older form of one call
	Images           []contentPart     `json:"images"`
}

type callDelta struct {
	Index    *int            `json:"index"`
	ID       string          `json:"id"`
	Function functionDelta   `json:"function"`
	Extra    json.RawMessage `json:"extra_content"`
}

type functionDelta struct {
	Name      string       `json:"name"`
	Arguments wire.Written `json:"arguments"`
}

// A decoder reads one answer.
type decoder struct {
	client *wire.Client
	names  *wire.Names
	out    *wire.Stream

	origin   string      // of opaque data of this service
	calls    []*openCall // in the order they began
	details  details
	reasons  *atomic.Bool // set once the service sends reasoning_content
	thinking bool         // reasoning is open
	refusal  wire.Joiner
	refused  strings.Builder
	finish   chat.Finish
	said     bool      // the service has sent its end
	told     wire.Text // text so far
	thought  wire.Text // reasoning so far
	inPieces bool      // the service sends deltas
}

func (d *decoder) event(e sse.Event) error {
	if string(e.Data) == "[DONE]" {
		d.said = true
		return wire.Done
	}
	if e.Name == "error" {
		return d.client.Failure(e.Data)
	}
	return d.chunk(e.Data)
}

// whole reads an answer in one piece, which has ended even without a reason.
func (d *decoder) whole(data []byte) error {
	d.said = true
	return d.chunk(data)
}

// chunk reads a chunk, or an answer in one piece.
func (d *decoder) chunk(data []byte) error {
	var c chunk
	if err := json.Unmarshal(data, &c); err != nil {
		return &chat.Error{Kind: chat.BadResponse, Message: "the provider sent a completion that cannot be read as JSON", Cause: err}
	}
	if given(c.Error) || c.Object == "error" || c.Type == "error" {
		return d.client.Failure(data)
	}
	if given(c.Groq.Error) {
		return d.client.Failure(c.Groq.Error)
	}
	if c.Model != "" {
		d.finish.Model = c.Model
	}
	d.count(c.Groq.Usage)
	d.count(c.Usage)
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

// given reports whether a field is present and not null.
func given(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }

func (d *decoder) count(u *usage) {
	if u != nil {
		d.finish.Usage = u.tokens()
	}
}

func (d *decoder) choice(c choice) error {
	if given(c.Error) {
		return d.client.Failure(c.Error)
	}
	d.count(c.Usage)
	said := d.news(c)
	reasoning := said.ReasoningContent
	if len(reasoning) > 0 {
		d.reasons.Store(true)
	} else {
		reasoning = said.Reasoning
	}
	if err := d.reasoning(reasoning); err != nil {
		return err
	}
	if err := d.details.add(said.ReasoningDetails); err != nil {
		return err
	}
	if err := d.content(&said.Content); err != nil {
		return err
	}
	for _, image := range said.Images {
		if err := d.image(image.ImageURL); err != nil {
			return err
		}
	}
	if err := d.refuse(said.Refusal); err != nil {
		return err
	}
	if said.FunctionCall != nil && len(said.ToolCalls) == 0 { // some services send a call in both forms
		said.ToolCalls = []callDelta{{Function: *said.FunctionCall}}
	}
	for _, call := range said.ToolCalls {
		if call.empty() {
			continue
		}
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

// content adds the text, part by part.
func (d *decoder) content(c *content) error {
	if err := d.text(c.text); err != nil {
		return err
	}
	for _, p := range c.parts {
		if err := d.refuse(p.Refusal); err != nil {
			return err
		}
		if err := d.reasoning(p.Thinking.Text); err != nil {
			return err
		}
		if err := d.text(p.Text); err != nil {
			return err
		}
		if err := d.image(p.ImageURL); err != nil {
			return err
		}
	}
	return nil
}

// maxRefusal is the greatest size of the text of a refusal, in bytes.
const maxRefusal = 1 << 20

func (d *decoder) refuse(piece wire.Text) error {
	if d.refused.Len()+len(piece) > maxRefusal {
		return chat.Errorf(chat.BadResponse, "the answer is too large")
	}
	d.refused.WriteString(d.refusal.Add(piece))
	return nil
}

func (d *decoder) text(piece wire.Text) error {
	if len(piece) == 0 {
		return nil
	}
	if err := d.endReasoning(); err != nil {
		return err
	}
	d.told = append(d.told, piece...)
	return d.out.Text(piece)
}

func (d *decoder) image(u imageURL) error {
	if u == "" {
		return nil
	}
	if err := d.endReasoning(); err != nil {
		return err
	}
	return d.out.Segment(u.segment())
}

func (d *decoder) reasoning(piece wire.Text) error {
	if len(piece) == 0 {
		return nil
	}
	d.thinking = true
	d.thought = append(d.thought, piece...)
	return d.out.Reasoning(piece)
}

// endReasoning marks the reasoning with the origin of this wire, to which it may go
// back.
func (d *decoder) endReasoning() error {
	if !d.thinking {
		return nil
	}
	d.thinking = false
	return d.out.Mark(chat.Reasoning, &chat.Opaque{Origin: Origin})
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
	if err := d.endCalls(); err != nil {
		return err
	}
	if kept, err := d.details.kept(d.origin); kept != nil || err != nil {
		if err != nil {
			return err
		}
		if err := d.out.Segment(chat.Segment{Type: chat.Reasoning, Opaque: kept}); err != nil {
			return err
		}
	}
	d.refused.WriteString(d.refusal.End())
	if d.refused.Len() > 0 {
		d.finish.Reason, d.finish.Detail = chat.Refused, d.refused.String()
	}
	return d.out.Finish(d.finish)
}

// keep is opaque data that goes back to this service alone, nil for none.
func (d *decoder) keep(raw json.RawMessage) *chat.Opaque {
	if len(raw) == 0 {
		return nil
	}
	return &chat.Opaque{Origin: d.origin, Data: raw}
}
