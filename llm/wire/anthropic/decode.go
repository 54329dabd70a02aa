package anthropic

import (
	"encoding/json"
	"strings"

	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/llm/sse"
	"github.com/aibridge/aibridge/llm/wire"
)

type event struct {
	Type         string          `json:"type"`
	Index        int             `json:"index"`
	Message      *answer         `json:"message"`
	ContentBlock json.RawMessage `json:"content_block"`
	Delta        delta           `json:"delta"`
	Usage        *usage          `json:"usage"`
}

type answer struct {
	Type        string            `json:"type"`
	Model       string            `json:"model"`
	Content     []json.RawMessage `json:"content"`
	StopReason  string            `json:"stop_reason"`
	StopDetails stopDetails       `json:"stop_details"`
	Usage       *usage            `json:"usage"`
}

type stopDetails struct {
	Explanation string `json:"explanation"`
}

type delta struct {
	Type        string      `json:"type"`
	Text        wire.Text   `json:"text"`
	PartialJSON wire.Text   `json:"partial_json"`
	Thinking    wire.Text   `json:"thinking"`
	Signature   string      `json:"signature"`
	StopReason  string      `json:"stop_reason"`
	StopDetails stopDetails `json:"stop_details"`
}

type usage struct {
	Input      *int `json:"input_tokens"`
	Output     *int `json:"output_tokens"`
	CacheRead  *int `json:"cache_read_input_tokens"`
	CacheWrite *int `json:"cache_creation_input_tokens"`
	Details    struct {
		Thinking *int `json:"thinking_tokens"`
	} `json:"output_tokens_details"`
}

// A contentBlock is the beginning of a streamed block, or a whole block.
type contentBlock struct {
	Type     string          `json:"type"`
	Text     wire.Text       `json:"text"`
	Thinking wire.Text       `json:"thinking"`
	ID       string          `json:"id"`
	Name     string          `json:"name"`
	Input    json.RawMessage `json:"input"`
	Sign     string          `json:"signature"`
}

// A block is a content block that is open.
type block struct {
	kind      string
	raw       json.RawMessage
	call      *wire.Call
	thinking  strings.Builder
	pieces    wire.Joiner
	signature strings.Builder
	input     strings.Builder             // of a block of the server's own tools
	texts     map[string]*strings.Builder // other fields of a block of an unknown kind
}

type decoder struct {
	client *wire.Client
	names  *wire.Names
	out    *wire.Stream
	blocks map[int]*block
	finish chat.Finish
	usage  usage
	ended  bool
	size   int // of deltas, in bytes
}

// maxKept is the greatest size of the deltas of an answer, in bytes.
const maxKept = 256 << 20

func (d *decoder) event(e sse.Event) error {
	var ev event
	if err := json.Unmarshal(e.Data, &ev); err != nil {
		return bad("an event that is not JSON", err)
	}
	switch ev.Type {
	case "message_start":
		if ev.Message != nil {
			return d.start(ev.Message)
		}
	case "content_block_start":
		return d.begin(ev.Index, ev.ContentBlock)
	case "content_block_delta":
		return d.delta(ev.Index, ev.Delta, e.Data)
	case "content_block_stop":
		return d.stop(ev.Index)
	case "message_delta":
		d.count(ev.Usage)
		if ev.Delta.StopReason != "" {
			d.reason(ev.Delta.StopReason, ev.Delta.StopDetails)
		}
	case "message_stop":
		d.ended = true
		return wire.Done
	case "error":
		return d.client.Failure(e.Data)
	}
	return nil // pings, and events yet unknown
}

// start reads the part of an answer that is sent before its stream, which may be all of
// it.
func (d *decoder) start(a *answer) error {
	d.finish.Model = a.Model
	d.count(a.Usage)
	if err := d.content(a.Content); err != nil {
		return err
	}
	if a.StopReason != "" {
		d.reason(a.StopReason, a.StopDetails)
	}
	return nil
}

// content reads whole blocks.
func (d *decoder) content(blocks []json.RawMessage) error {
	for i, raw := range blocks {
		if err := d.begin(i, raw); err != nil {
			return err
		}
		if err := d.stop(i); err != nil {
			return err
		}
	}
	return nil
}

// whole reads an answer that came in one piece.
func (d *decoder) whole(data []byte) error {
	var a answer
	if err := json.Unmarshal(data, &a); err != nil {
		return bad("an answer that is not JSON", err)
	}
	if a.Type == "error" {
		return d.client.Failure(data)
	}
	if a.StopReason == "" { // an answer in one piece has ended, even without a reason
		a.StopReason = "end_turn"
	}
	d.ended = true
	return d.start(&a)
}

func bad(what string, cause error) error {
	return &chat.Error{Kind: chat.BadResponse, Message: "the provider sent " + what, Cause: cause}
}

// maxBlocks is the greatest number of blocks that may be open at once.
const maxBlocks = 256

// blockOf reads a block. Of a block of an unknown kind it reads the kind alone.
func blockOf(raw json.RawMessage) (c contentBlock, err error) {
	var head struct {
		Type string `json:"type"`
	}
	if err := json.Unmarshal(raw, &head); err != nil {
		return c, bad("a content block that is not JSON", err)
	}
	switch head.Type {
	case "text", "thinking", "tool_use":
		if err := json.Unmarshal(raw, &c); err != nil {
			return c, bad("a content block that is not JSON", err)
		}
		return c, nil
	}
	c.Type = head.Type
	return c, nil
}

func (d *decoder) begin(index int, raw json.RawMessage) error {
	c, err := blockOf(raw)
	if err != nil {
		return err
	}
	if len(d.blocks) >= maxBlocks || d.blocks[index] != nil {
		return bad("too many blocks at once", nil)
	}
	b := &block{kind: c.Type, raw: raw}
	d.blocks[index] = b
	if err := d.out.Break(); err != nil {
		return err
	}
	switch c.Type {
	case "text":
		return d.out.Text(c.Text)
	case "thinking":
		b.signature.WriteString(c.Sign)
		return d.think(b, c.Thinking)
	case "tool_use":
		if b.call, err = d.out.Call(c.ID, d.names.Decode(c.Name)); err != nil {
			return err
		}
		if len(c.Input) > 0 && string(c.Input) != "{}" && string(c.Input) != "null" { // whole, or a service that does not stream it
			return b.call.Arguments(wire.Text(c.Input))
		}
	}
	return nil
}

func (d *decoder) think(b *block, piece wire.Text) error {
	b.thinking.WriteString(b.pieces.Add(piece))
	return d.out.Reasoning(piece)
}

func (d *decoder) delta(index int, c delta, raw []byte) error {
	b := d.blocks[index]
	if b == nil {
		return bad("a piece of a block that is not open", nil)
	}
	if b.call == nil { // the stream bounds the text, too
		if d.size += len(raw); d.size > maxKept {
			return bad("too much", nil)
		}
	}
	switch c.Type {
	case "text_delta":
		return d.out.Text(c.Text)
	case "thinking_delta":
		return d.think(b, c.Thinking)
	case "signature_delta":
		b.signature.WriteString(c.Signature)
	case "input_json_delta":
		if b.call != nil {
			return b.call.Arguments(c.PartialJSON)
		}
		b.input.Write(c.PartialJSON)
	default:
		return b.more(raw)
	}
	return nil
}

// more adds the texts of a delta to a block of an unknown kind.
func (b *block) more(raw []byte) error {
	switch b.kind {
	case "text", "thinking", "tool_use":
		return nil // citations, and deltas yet unknown
	}
	var ev struct {
		Delta map[string]any `json:"delta"`
	}
	if err := json.Unmarshal(raw, &ev); err != nil {
		return bad("an event that is not JSON", err)
	}
	for field, value := range ev.Delta {
		text, ok := value.(string)
		if !ok || field == "type" {
			continue
		}
		if b.texts == nil {
			b.texts = make(map[string]*strings.Builder)
		}
		if b.texts[field] == nil {
			b.texts[field] = new(strings.Builder)
		}
		b.texts[field].WriteString(text)
	}
	return nil
}

func (d *decoder) stop(index int) error {
	b := d.blocks[index]
	if b == nil {
		return bad("the end of a block that is not open", nil)
	}
	delete(d.blocks, index)
	switch b.kind {
	case "text":
		return d.out.Break()
	case "tool_use":
		return b.call.Close(nil)
	case "thinking":
		b.thinking.WriteString(b.pieces.End())
		raw, err := wire.Marshal(thinkingBlock{Type: "thinking", Thinking: b.thinking.String(), Signature: b.signature.String()})
		if err != nil {
			return err
		}
		return d.out.Mark(chat.Reasoning, &chat.Opaque{Origin: Origin, Data: raw})
	}
	raw, err := b.verbatim()
	if err != nil {
		return err
	}
	return d.out.Segment(chat.Segment{Type: chat.Reasoning, Opaque: &chat.Opaque{Origin: Origin, Data: raw}})
}

type thinkingBlock struct {
	Type      string `json:"type"`
	Thinking  string `json:"thinking"`
	Signature string `json:"signature"`
}

// verbatim is the JSON of a block of an unknown kind: redacted thinking, the server's
// own tools and their results.
func (b *block) verbatim() (json.RawMessage, error) {
	if b.input.Len() == 0 && len(b.texts) == 0 {
		return b.raw, nil
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(b.raw, &fields); err != nil || fields == nil {
		return nil, bad("a block that is not an object", err)
	}
	if b.input.Len() > 0 {
		fields["input"] = json.RawMessage(b.input.String())
		if !json.Valid(fields["input"]) {
			return nil, bad("a block whose input is not JSON", nil)
		}
	}
	for name, text := range b.texts {
		raw, err := wire.Marshal(text.String())
		if err != nil {
			return nil, err
		}
		fields[name] = raw
	}
	return wire.Marshal(fields)
}

// count adds the counts of an event; later ones replace earlier ones.
func (d *decoder) count(u *usage) {
	if u == nil {
		return
	}
	for _, c := range []struct{ to, from **int }{
		{&d.usage.Input, &u.Input}, {&d.usage.Output, &u.Output},
		{&d.usage.CacheRead, &u.CacheRead}, {&d.usage.CacheWrite, &u.CacheWrite},
		{&d.usage.Details.Thinking, &u.Details.Thinking},
	} {
		if *c.from != nil {
			*c.to = *c.from
		}
	}
}

func (d *decoder) reason(reason string, details stopDetails) {
	switch reason {
	case "end_turn", "stop_sequence", "pause_turn":
		d.finish.Reason = chat.EndTurn
	case "tool_use":
		d.finish.Reason = chat.ToolUse
	case "max_tokens", "model_context_window_exceeded":
		d.finish.Reason = chat.MaxTokens
	case "refusal":
		d.finish.Reason, d.finish.Detail = chat.Refused, details.Explanation
	default:
		d.finish.Reason, d.finish.Detail = chat.Broken, "the provider ended with "+reason
	}
}

func (d *decoder) end() error {
	if d.finish.Reason == "" || !d.ended || len(d.blocks) > 0 {
		return chat.Errorf(chat.CutOff, "the answer ended before it was finished")
	}
	value := func(p *int) int {
		if p == nil {
			return 0
		}
		return *p
	}
	u := d.usage
	d.finish.Usage = chat.Usage{
		Input:      value(u.Input) + value(u.CacheRead) + value(u.CacheWrite),
		Output:     value(u.Output),
		Cached:     value(u.CacheRead),
		CacheWrite: value(u.CacheWrite),
		Reasoning:  value(u.Details.Thinking),
	}
	return d.out.Finish(d.finish)
}
