package openai

import (
	"bytes"

	"github.com/aibridge/aibridge/llm/wire"
)

// news is the part that a choice adds to the answer. Some services repeat the whole
// answer so far as a message: beside the piece, instead of it, or at the end. A message
// in the only piece of an answer is new as a whole.
func (d *decoder) news(c choice) delta {
	if c.Message == nil || !c.Delta.silent() {
		d.inPieces = d.inPieces || !c.Delta.silent()
		return c.Delta
	}
	m := *c.Message
	if d.out.Empty() && len(d.calls) == 0 {
		return m
	}
	m.Content.text = d.beyond(d.told, m.Content.text)
	m.ReasoningContent, m.Reasoning = d.beyond(d.thought, m.ReasoningContent), d.beyond(d.thought, m.Reasoning)
	m.Refusal = d.beyond(wire.Text(d.refused.String()), m.Refusal)
	if len(d.details.list) > 0 {
		m.ReasoningDetails = nil
	}
	m.Content.parts, m.Images = nil, nil // parts are not repeated
	m.ToolCalls = d.newCalls(m.ToolCalls)
	if len(d.calls) > 0 {
		m.FunctionCall = nil
	}
	return m
}

// silent reports whether a piece is empty.
func (d *delta) silent() bool {
	return len(d.Content.text)+len(d.Content.parts)+len(d.Refusal)+len(d.ReasoningContent)+len(d.Reasoning)+
		len(d.ReasoningDetails)+len(d.ToolCalls)+len(d.Images) == 0 && d.FunctionCall == nil
}

// beyond is the new part of a repetition. A text that does not begin with the text so
// far is a piece itself, unless the service sends deltas as well.
func (d *decoder) beyond(said, again wire.Text) wire.Text {
	rest, repeats := bytes.CutPrefix(again, said)
	switch {
	case repeats:
		return rest
	case d.inPieces:
		return nil
	}
	return again
}

// newCalls are the new calls of a repetition, and the new parts of the known ones.
func (d *decoder) newCalls(again []callDelta) (news []callDelta) {
	for i, c := range again {
		open := d.repeated(i, c)
		if open == nil {
			news = append(news, c)
			continue
		}
		if open.Call == nil || open.Whole() {
			continue
		}
		c.Function.Arguments.Text = d.beyond(open.Written(), c.Function.Arguments.Text)
		if c.Function.Name = ""; open.index >= 0 {
			c.Index = &open.index
		}
		c.ID = open.id
		news = append(news, c)
	}
	return news
}

// repeated is the known call of a repetition, nil for a new one.
func (d *decoder) repeated(i int, c callDelta) *openCall {
	for _, open := range d.calls {
		if c.ID != "" && open.id == c.ID {
			return open
		}
	}
	if i < len(d.calls) && (c.ID == "" || d.calls[i].id == "") {
		return d.calls[i]
	}
	return nil
}
