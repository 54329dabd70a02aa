package responses

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/llm/sse"
	"github.com/aibridge/aibridge/llm/wire"
)

type event struct {
	Type        string          `json:"type"`
	OutputIndex int             `json:"output_index"`
	Item        json.RawMessage `json:"item"`
	Delta       json.RawMessage `json:"delta"` // any JSON in events of unknown types
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
	ID        string       `json:"id"`
	Type      string       `json:"type"`
	CallID    string       `json:"call_id"`
	Name      string       `json:"name"`
	Arguments wire.Written `json:"arguments"`
	Phase     string       `json:"phase"`
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

// An item is an item of the answer that is open.
type item struct {
	id      string
	kind    string
	call    *wire.Call // of a function_call, once its name is known
	spoke   bool       // some of its text came in pieces
	written bool       // some of its arguments did
}

type decoder struct {
	client  *wire.Client
	names   *wire.Names
	out     *wire.Stream
	items   map[int]*item
	finish  chat.Finish
	refused string
	ended   bool
	closed  int             // items that have ended
	known   map[string]bool // their ids
}

const (
	maxItems  = 256  // open at once
	maxClosed = 4096 // ended items of an answer
)

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
		return d.speak(ev, d.out.Text)
	case "response.reasoning_summary_text.delta", "response.reasoning_text.delta":
		return d.speak(ev, d.out.Reasoning)
	case "response.reasoning_summary_part.added":
		if it := d.items[ev.OutputIndex]; it != nil && it.spoke {
			return d.out.Reasoning(wire.Text("\n\n"))
		}
	case "response.refusal.delta":
		piece, err := ev.text()
		d.refused += string(piece)
		return err
	case "response.function_call_arguments.delta":
		return d.write(ev)
	case "response.output_item.done":
		return d.done(ev.OutputIndex, ev.Item)
	case "response.completed", "response.incomplete", "response.failed", "response.cancelled":
		if err := d.close(ev.Response, ev.Type == "response.completed"); err != nil {
			return err
		}
		return wire.Done
	case "error":
		return d.client.Failure(e.Data)
	}
	return nil
}

// created reads the name of the model that answers, which some services do not repeat.
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

// text is the piece of text in an event.
func (e *event) text() (piece wire.Text, err error) {
	if len(e.Delta) == 0 {
		return nil, nil
	}
	if err := json.Unmarshal(e.Delta, &piece); err != nil {
		return nil, bad("a piece that is no text", err)
	}
	return piece, nil
}

// whole reads an answer that came in one piece.
func (d *decoder) whole(data []byte) error { return d.close(data, false) }

func bad(what string, cause error) error {
	return &chat.Error{Kind: chat.BadResponse, Message: "the provider sent " + what, Cause: cause}
}

// itemOf reads an item. Of an item of an unknown type it reads the id and the type
// alone.
func itemOf(raw json.RawMessage) (o outputItem, err error) {
	var head struct {
		ID   any    `json:"id"`
		Type string `json:"type"`
	}
	if err := json.Unmarshal(raw, &head); err != nil {
		return o, bad("an item that is not JSON", err)
	}
	switch head.Type {
	case "function_call", "message", "reasoning":
		if err := json.Unmarshal(raw, &o); err != nil {
			return o, bad("an item that is not JSON", err)
		}
		return o, nil
	}
	o.ID, _ = head.ID.(string)
	o.Type = head.Type
	return o, nil
}

func (d *decoder) begin(index int, raw json.RawMessage) error {
	o, err := itemOf(raw)
	if err != nil {
		return err
	}
	if len(d.items) >= maxItems || d.items[index] != nil {
		return bad("too many items at once", nil)
	}
	it := &item{id: o.ID, kind: o.Type}
	d.items[index] = it
	if o.Type == "function_call" {
		return d.call(it, o)
	}
	return d.out.Break()
}

// call begins the call of an item, as soon as its name is known.
func (d *decoder) call(it *item, o outputItem) (err error) {
	if it.call == nil && o.Name != "" {
		it.call, err = d.out.Call(o.CallID, d.names.Decode(o.Name))
	}
	return err
}

func (d *decoder) speak(ev event, say func(wire.Text) error) error {
	piece, err := ev.text()
	if err != nil {
		return err
	}
	if it := d.items[ev.OutputIndex]; it != nil {
		it.spoke = true
	}
	return say(piece)
}

// write adds a piece of a call's arguments. The arguments of a call whose name is not
// known yet are sent again at the end of the item.
func (d *decoder) write(ev event) error {
	it := d.items[ev.OutputIndex]
	if it == nil || it.call == nil {
		return nil
	}
	piece, err := ev.text()
	if err != nil {
		return err
	}
	it.written = true
	return it.call.Arguments(piece)
}

// done ends an item. It emits the content that was not streamed in pieces.
func (d *decoder) done(index int, raw json.RawMessage) error {
	if d.items[index] == nil {
		if err := d.begin(index, raw); err != nil {
			return err
		}
	}
	it := d.items[index]
	delete(d.items, index)
	o, err := itemOf(raw)
	if err != nil {
		return err
	}
	if d.closed++; d.closed > maxClosed {
		return bad("too many items", nil)
	}
	for _, id := range []string{o.ID, it.id} {
		if id != "" {
			d.known[id] = true
		}
	}
	switch it.kind {
	case "function_call":
		return d.called(it, o)
	case "message":
		return d.message(it, o)
	case "reasoning":
		return d.reasoned(it, o, raw)
	}
	return d.out.Segment(chat.Segment{Type: chat.Reasoning, Opaque: &chat.Opaque{Origin: Origin, Data: raw}})
}

func (d *decoder) called(it *item, o outputItem) error {
	if err := d.call(it, o); err != nil {
		return err
	}
	if it.call == nil {
		return bad("a call without the name of a tool", nil)
	}
	if !it.written {
		if err := it.call.Arguments(o.Arguments.Text); err != nil {
			return err
		}
	}
	return it.call.Close(nil)
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
	if o.Encrypted == "" && len(o.Content) == 0 { // a service without state does not know the item again
		return d.out.Break()
	}
	kept, err := replayable(raw)
	if err != nil {
		return err
	}
	return d.out.Mark(chat.Reasoning, &chat.Opaque{Origin: Origin, Data: kept})
}

// tellReasons emits the readable reasoning: its summaries, or without any, its full text.
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

// replayable is an item for the next request: without its status, which is read-only.
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

// close reads the end of the answer. Complete is true after an event of the end, which
// counts more than the status.
func (d *decoder) close(raw json.RawMessage, complete bool) error {
	var r response
	if err := json.Unmarshal(raw, &r); err != nil {
		return bad("an end that is not JSON", err)
	}
	if r.Status == "failed" || len(r.Error) > 0 && string(r.Error) != "null" {
		return d.client.Failure(raw)
	}
	if (r.Status == "queued" || r.Status == "in_progress") && !complete {
		return bad("an answer that is not finished", nil)
	}
	if err := d.catchUp(r.Output); err != nil {
		return err
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

// catchUp ends the items without an end of their own, from the list of all items at the
// end of the answer.
func (d *decoder) catchUp(output []json.RawMessage) error {
	if d.closed >= len(output) {
		return nil
	}
	for i, raw := range output {
		o, err := itemOf(raw)
		if err != nil {
			return err
		}
		index, open := d.place(i, o.ID)
		if o.ID != "" && d.known[o.ID] || o.ID == "" && !open && i < d.closed {
			continue
		}
		if err := d.done(index, raw); err != nil {
			return err
		}
	}
	return nil
}

// place is the index of an open item, or a free one for it.
func (d *decoder) place(i int, id string) (index int, open bool) {
	for at, it := range d.items {
		if id != "" && it.id == id {
			return at, true
		}
	}
	if it := d.items[i]; it != nil {
		if id == "" || it.id == "" {
			return i, true
		}
		return -1 - i, false // another item is open at i
	}
	return i, false
}

// end finishes the answer. An item may lack its end, unless it is a call whose
// arguments are not whole.
func (d *decoder) end() error {
	if !d.ended {
		return chat.Errorf(chat.CutOff, "the answer ended before it was finished")
	}
	for _, index := range slices.Sorted(maps.Keys(d.items)) {
		it := d.items[index]
		if it.kind != "function_call" || it.call == nil && d.finish.Reason == chat.MaxTokens {
			continue
		}
		if it.call == nil || d.finish.Reason == chat.EndTurn && !it.call.Whole() {
			return chat.Errorf(chat.CutOff, "the answer ended before it was finished")
		}
		if err := it.call.Close(nil); err != nil {
			return err
		}
	}
	if d.refused != "" {
		d.finish.Reason, d.finish.Detail = chat.Refused, d.refused
	}
	return d.out.Finish(d.finish)
}
