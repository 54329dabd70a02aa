package gemini

import (
	"encoding/json"
	"strings"

	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/llm/sse"
	"github.com/aibridge/aibridge/llm/wire"
)

type chunk struct {
	Candidates     []candidate     `json:"candidates"`
	PromptFeedback feedback        `json:"promptFeedback"`
	UsageMetadata  *usage          `json:"usageMetadata"`
	ModelVersion   string          `json:"modelVersion"`
	Error          json.RawMessage `json:"error"`
}

type candidate struct {
	Index         int     `json:"index"`
	Content       content `json:"content"`
	FinishReason  string  `json:"finishReason"`
	FinishMessage string  `json:"finishMessage"`
}

type feedback struct {
	BlockReason        string `json:"blockReason"`
	BlockReasonMessage string `json:"blockReasonMessage"`
}

type usage struct {
	Prompt     int `json:"promptTokenCount"`
	Candidates int `json:"candidatesTokenCount"`
	Thoughts   int `json:"thoughtsTokenCount"`
	Tools      int `json:"toolUsePromptTokenCount"`
	Cached     int `json:"cachedContentTokenCount"`
}

type decoder struct {
	client *wire.Client
	names  *wire.Names
	out    *wire.Stream
	finish chat.Finish
}

func (d *decoder) event(e sse.Event) error { return d.chunk(e.Data) }

// whole reads an answer in one piece, or a list of chunks, the form of services without
// server-sent events.
func (d *decoder) whole(data []byte) error {
	var list []json.RawMessage
	if json.Unmarshal(data, &list) != nil {
		list = []json.RawMessage{data}
	}
	for _, c := range list {
		if err := d.chunk(c); err != nil {
			return err
		}
	}
	if d.finish.Reason == "" && !d.out.Empty() { // an answer in one piece has ended, even without a reason
		d.finish.Reason = chat.EndTurn
	}
	return nil
}

func (d *decoder) chunk(data []byte) error {
	var c chunk
	if err := json.Unmarshal(data, &c); err != nil {
		return &chat.Error{Kind: chat.BadResponse, Message: "the provider sent an answer that cannot be read as JSON", Cause: err}
	}
	if len(c.Error) > 0 && string(c.Error) != "null" {
		return d.client.Failure(data)
	}
	if c.ModelVersion != "" {
		d.finish.Model = c.ModelVersion
	}
	if u := c.UsageMetadata; u != nil {
		d.finish.Usage = chat.Usage{
			Input:     u.Prompt + u.Tools,
			Output:    u.Candidates + u.Thoughts,
			Cached:    u.Cached,
			Reasoning: u.Thoughts,
		}
	}
	if reason := c.PromptFeedback.BlockReason; reason != "" {
		d.finish.Reason, d.finish.Detail = chat.Refused, detail("the prompt was blocked", reason, c.PromptFeedback.BlockReasonMessage)
	}
	for _, candidate := range c.Candidates {
		if candidate.Index != 0 { // only one was asked for
			continue
		}
		for _, p := range candidate.Content.Parts {
			if err := d.part(p); err != nil {
				return err
			}
		}
		d.reason(candidate)
	}
	return nil
}

// part takes one part. A part with a signature is a segment by itself, since the
// signature belongs to that part alone.
func (d *decoder) part(p part) error {
	opaque := keep(p)
	switch {
	case p.FunctionCall.empty():
		return nil
	case p.FunctionCall != nil:
		call, err := d.out.Call(p.FunctionCall.ID, d.names.Decode(p.FunctionCall.Name))
		if err != nil {
			return err
		}
		if err := call.Arguments(wire.Text(p.FunctionCall.Args)); err != nil {
			return err
		}
		return call.Close(opaque)
	case p.InlineData != nil:
		return d.out.Segment(chat.Segment{Type: kindOf(p.InlineData.MimeType), MIMEType: p.InlineData.MimeType, Data: p.InlineData.Data, Opaque: opaque})
	case p.FileData != nil:
		return d.out.Segment(chat.Segment{Type: kindOf(p.FileData.MimeType), MIMEType: p.FileData.MimeType, Data: p.FileData.FileURI, Opaque: opaque})
	case p.Text == nil && opaque == nil:
		return nil
	}
	var text wire.Text
	if p.Text != nil {
		text = *p.Text
	}
	kind, say := chat.Text, d.out.Text
	if p.Thought {
		kind, say = chat.Reasoning, d.out.Reasoning
	}
	if opaque == nil {
		return say(text)
	}
	if err := d.out.Break(); err != nil {
		return err
	}
	if err := say(text); err != nil {
		return err
	}
	return d.out.Mark(kind, opaque)
}

// empty reports whether a call has no name and no arguments, with which some services
// end a call.
func (c *functionCall) empty() bool {
	return c != nil && c.Name == "" && (len(c.Args) == 0 || string(c.Args) == "null" || string(c.Args) == "{}")
}

func keep(p part) *chat.Opaque {
	k := keepsake{Signature: p.ThoughtSignature}
	if p.FunctionCall != nil {
		k.ID = p.FunctionCall.ID
	}
	if k == (keepsake{}) {
		return nil
	}
	raw, _ := wire.Marshal(k)
	return &chat.Opaque{Origin: Origin, Data: raw}
}

func kindOf(mime string) chat.Kind {
	switch family, _, _ := strings.Cut(mime, "/"); family {
	case "audio":
		return chat.Audio
	case "video":
		return chat.Video
	}
	return chat.Image
}

func (d *decoder) reason(c candidate) {
	switch c.FinishReason {
	case "", "FINISH_REASON_UNSPECIFIED":
	case "STOP", "FUNCTION_CALL": // the latter from compatible services
		d.finish.Reason = chat.EndTurn
	case "MAX_TOKENS":
		d.finish.Reason = chat.MaxTokens
	case "SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION":
		d.finish.Reason, d.finish.Detail = chat.Refused, detail("the answer was stopped", c.FinishReason, c.FinishMessage)
	default: // MALFORMED_FUNCTION_CALL, UNEXPECTED_TOOL_CALL, OTHER and reasons yet unknown
		d.finish.Reason, d.finish.Detail = chat.Broken, detail("the provider ended with", c.FinishReason, c.FinishMessage)
	}
}

func detail(what, code, message string) string {
	text := what + " " + code
	if message != "" {
		text += ": " + message
	}
	return text
}

func (d *decoder) end() error {
	if d.finish.Reason == "" {
		return chat.Errorf(chat.CutOff, "the answer ended before it was finished")
	}
	return d.out.Finish(d.finish)
}
