package responses

import (
	"encoding/json"

	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/llm/sse"
	"github.com/aibridge/aibridge/llm/wire"
)

type event struct {
	Type        string          `json:"type"`
	OutputIndex int             `json:"output_index"`
	Item        json.RawMessage `json:"item"`
	Delta       wire.Text       `json:"delta"`
	Arguments   wire.Text       `json:"arguments"`
	Response    json.RawMessage `json:"response"`
}

type response struct {
	Model      string            `json:"model"`
	Status     string            `json:"status"`
	Error      json.RawMessage   `json:"error"`
	Incomplete incomplete        `json:"incomplete_details"`
	Output     []json.RawMessage `json:"output"`
	Usage      struct {
		Input        int `json:"input_tokens"`
		Output       int `json:"output_tokens"`
		InputDetails struct {
			Cached     int `json:"cached_tokens"`
			CacheWrite int `json:"cache_write_tokens"`
		} `json:"input_tokens_details"`
		OutputDetails struct {
			Reasoning int `json:"reasoning_tokens"`
		} `json:"output_tokens_details"`
	} `json:"usage"`
}

type incomplete struct {
	Reason string `json:"reason"`
}

// An outputItem is one item of an answer.
type outputItem struct {
	Type      string    `json:"type"`
	CallID    string    `json:"call_id"`
	Name      string    `json:"name"`
	Arguments wire.Text `json:"arguments"`
	Phase     string    `json:"phase"`
	Content   []struct {
		Type    string    `json:"type"`
		Text    wire.Text `json:"text"`
		Refusal string    `json:"refusal"`
	} `json:"content"`
	Summary []struct {
		Text wire.Text `json:"text"`
	} `json:"summary"`
	Encrypted string `json:"encrypted_content"`
}

// An item that is open.
type item struct {
	kind    string
	call    *wire.Call
	spoke   bool // some of its text came in pieces
	written bool // some of its arguments did
}

type decoder struct {
	client  *wire.Client
	names   *wire.Names
	out     *wire.Stream
	items   map[int]*item
	finish  chat.Finish
	refused string
	ended   bool
}

// maxItems bounds how many items may be open at once.
const maxItems = 256

func (d *decoder) event(e sse.Event) error {
	if string(e.Data) == "[DONE]" {
		return wire.Done
	}
	var ev event
	if err := json.Unmarshal(e.Data, &ev); err != nil {
		return bad("an event that is not JSON", err)
	}
	switch ev.Type {
	case "response.created":
		return d.created(ev.Response)
	case "response.output_item.added":
		return d.begin(ev.OutputIndex, ev.Item)
	case "response.output_text.delta":
		return d.speak(ev.OutputIndex, ev.Delta, d.out.Text)
	case "response.reasoning_summary_text.delta", "response.reasoning_text.delta":
		return d.speak(ev.OutputIndex, ev.Delta, d.out.Reasoning)
	case "response.reasoning_summary_part.added":
		if it := d.items[ev.OutputIndex]; it != nil && it.spoke {
			return d.out.Reasoning(wire.Text("\n\n"))
		}
	case "response.refusal.delta":
		d.refused += string(ev.Delta)
	case "response.function_call_arguments.delta":
		if it := d.items[ev.OutputIndex]; it != nil && it.call != nil {
			it.written = true
			return it.call.Arguments(ev.Delta)
		}
	case "response.output_item.done":
		return d.done(ev.OutputIndex, ev.Item)
	case "response.completed", "response.incomplete", "response.failed", "response.cancelled":
		if err := d.close(ev.Response); err != nil {
			return err
		}
		return wire.Done
	case "error":
		return d.client.Failure(e.Data)
	}
	return nil
}

// created notes which model answers, which some services do not repeat.
func (d *decoder) created(raw json.RawMessage) error {
	var r struct {
		Model string `json:"model"`
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		return bad("a beginning that is not JSON", err)
	}
	d.finish.Model = r.Model
	return nil
}

// whole reads an answer that came in one piece.
func (d *decoder) whole(data []byte) error {
	var r response
	if err := json.Unmarshal(data, &r); err != nil {
		return bad("an answer that is not JSON", err)
	}
	for i, raw := range r.Output {
		if err := d.done(i, raw); err != nil {
			return err
		}
	}
	return d.close(data)
}

func bad(what string, cause error) error {
	return &chat.Error{Kind: chat.BadResponse, Message: "the provider sent " + what, Cause: cause}
}

func (d *decoder) begin(index int, raw json.RawMessage) (err error) {
	var o outputItem
	if err := json.Unmarshal(raw, &o); err != nil {
		return bad("an item that is not JSON", err)
	}
	if len(d.items) >= maxItems || d.items[index] != nil {
		return bad("too many items at once", nil)
	}
	it := &item{kind: o.Type}
	d.items[index] = it
	if o.Type == "function_call" {
		it.call, err = d.out.Call(o.CallID, d.names.Decode(o.Name))
		return err
	}
	return d.out.Break()
}

func (d *decoder) speak(index int, piece wire.Text, say func(wire.Text) error) error {
	if it := d.items[index]; it != nil {
		it.spoke = true
	}
	return say(piece)
}

// done ends an item. What did not come in pieces comes now.
func (d *decoder) done(index int, raw json.RawMessage) error {
	if d.items[index] == nil {
		if err := d.begin(index, raw); err != nil {
			return err
		}
	}
	it := d.items[index]
	delete(d.items, index)
	var o outputItem
	if err := json.Unmarshal(raw, &o); err != nil {
		return bad("an item that is not JSON", err)
	}
	switch it.kind {
	case "function_call":
		if !it.written {
			if err := it.call.Arguments(o.Arguments); err != nil {
				return err
			}
		}
		return it.call.Close(nil)
	case "message":
		return d.message(it, o)
	case "reasoning":
		return d.reasoned(it, o, raw)
	}
	return d.out.Segment(chat.Segment{Type: chat.Reasoning, Opaque: &chat.Opaque{Origin: Origin, Data: raw}})
}

func (d *decoder) message(it *item, o outputItem) error {
	for _, c := range o.Content {
		switch {
		case c.Type == "refusal":
			d.refused = c.Refusal
		case !it.spoke:
			if err := d.out.Text(c.Text); err != nil {
				return err
			}
		}
	}
	if o.Phase == "" {
		return d.out.Break()
	}
	kept, err := wire.Marshal(keepsake{Phase: o.Phase})
	if err != nil {
		return err
	}
	return d.out.Mark(chat.Text, &chat.Opaque{Origin: Origin, Data: kept})
}

func (d *decoder) reasoned(it *item, o outputItem, raw json.RawMessage) error {
	if !it.spoke {
		if err := d.tellReasons(o); err != nil {
			return err
		}
	}
	if o.Encrypted == "" && len(o.Content) == 0 { // a service that keeps nothing does not know it again
		return d.out.Break()
	}
	kept, err := replayable(raw)
	if err != nil {
		return err
	}
	return d.out.Mark(chat.Reasoning, &chat.Opaque{Origin: Origin, Data: kept})
}

// tellReasons tells what may be read of reasoning: summaries, or where there
// are none, what the model thought.
func (d *decoder) tellReasons(o outputItem) error {
	var pieces []wire.Text
	for _, s := range o.Summary {
		pieces = append(pieces, s.Text)
	}
	if len(pieces) == 0 {
		for _, c := range o.Content {
			pieces = append(pieces, c.Text)
		}
	}
	for i, piece := range pieces {
		if i > 0 {
			piece = append(wire.Text("\n\n"), piece...)
		}
		if err := d.out.Reasoning(piece); err != nil {
			return err
		}
	}
	return nil
}

// replayable is an item as the next request repeats it: without its status,
// which is for reading only.
func replayable(raw json.RawMessage) (json.RawMessage, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil {
		return nil, bad("an item that is not an object", err)
	}
	if _, has := fields["status"]; !has {
		return raw, nil
	}
	delete(fields, "status")
	return wire.Marshal(fields)
}

// close reads how the answer ended.
func (d *decoder) close(raw json.RawMessage) error {
	var r response
	if err := json.Unmarshal(raw, &r); err != nil {
		return bad("an end that is not JSON", err)
	}
	if r.Status == "failed" || len(r.Error) > 0 && string(r.Error) != "null" {
		return d.client.Failure(raw)
	}
	d.ended = true
	if r.Model != "" {
		d.finish.Model = r.Model
	}
	d.finish.Usage = chat.Usage{
		Input:      r.Usage.Input,
		Output:     r.Usage.Output,
		Cached:     r.Usage.InputDetails.Cached,
		CacheWrite: r.Usage.InputDetails.CacheWrite,
		Reasoning:  r.Usage.OutputDetails.Reasoning,
	}
	switch {
	case r.Status == "cancelled":
		d.finish.Reason, d.finish.Detail = chat.Broken, "the provider cancelled the answer"
	case r.Incomplete.Reason == "content_filter":
		d.finish.Reason = chat.Refused
	case r.Status == "incomplete", r.Incomplete.Reason != "":
		d.finish.Reason = chat.MaxTokens
	default:
		d.finish.Reason = chat.EndTurn
	}
	return nil
}

func (d *decoder) end() error {
	if !d.ended || len(d.items) > 0 && d.finish.Reason == chat.EndTurn {
		return chat.Errorf(chat.CutOff, "the answer ended before it was finished")
	}
	for _, it := range d.items { // of an answer that was cut short
		if it.call != nil {
			if err := it.call.Close(nil); err != nil {
				return err
			}
		}
	}
	if d.refused != "" {
		d.finish.Reason, d.finish.Detail = chat.Refused, d.refused
	}
	return d.out.Finish(d.finish)
}
