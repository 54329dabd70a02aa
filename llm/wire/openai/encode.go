package openai

import (
	"encoding/json"
	"strings"

	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/llm/wire"
)

type request struct {
	Model               string          `json:"model"`
	Messages            []message       `json:"messages"`
	Tools               []tool          `json:"tools,omitempty"`
	ToolChoice          any             `json:"tool_choice,omitempty"`
	ParallelToolCalls   *bool           `json:"parallel_tool_calls,omitempty"`
	Temperature         *float64        `json:"temperature,omitempty"`
	TopP                *float64        `json:"top_p,omitempty"`
	MaxTokens           int             `json:"max_tokens,omitempty"`
	MaxCompletionTokens int             `json:"max_completion_tokens,omitempty"`
	Stop                []string        `json:"stop,omitempty"`
	Seed                *int64          `json:"seed,omitempty"`
	ReasoningEffort     string          `json:"reasoning_effort,omitempty"`
	ResponseFormat      *responseFormat `json:"response_format,omitempty"`
	Stream              bool            `json:"stream"`
	StreamOptions       *streamOptions  `json:"stream_options,omitempty"`
}

type streamOptions struct {
	IncludeUsage bool `json:"include_usage"`
}

type tool struct {
	Type     string   `json:"type"`
	Function function `json:"function"`
}

type function struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters,omitempty"`
	Strict      bool            `json:"strict,omitempty"`
}

type responseFormat struct {
	Type       string      `json:"type"`
	JSONSchema *jsonSchema `json:"json_schema,omitempty"`
}

type jsonSchema struct {
	Name   string          `json:"name"`
	Schema json.RawMessage `json:"schema"`
	Strict bool            `json:"strict,omitempty"`
}

// A message of a request. Content is a string, a list of parts, or null.
type message struct {
	Role             chat.Role `json:"role"`
	Content          any       `json:"content"`
	ReasoningContent *string   `json:"reasoning_content,omitempty"`

	ReasoningDetails []json.RawMessage `json:"reasoning_details,omitempty"` // only for the service of their origin
	ToolCalls        []toolCall        `json:"tool_calls,omitempty"`
	ToolCallID       string            `json:"tool_call_id,omitempty"`
}

type toolCall struct {
	ID       string       `json:"id"`
	Type     string       `json:"type"`
	Function callFunction `json:"function"`

	ExtraContent json.RawMessage `json:"extra_content,omitempty"` // only for the service of its origin
}

type callFunction struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

type part struct {
	Type       string      `json:"type"`
	Text       string      `json:"text,omitempty"`
	ImageURL   *url        `json:"image_url,omitempty"`
	VideoURL   *url        `json:"video_url,omitempty"`
	InputAudio *inputAudio `json:"input_audio,omitempty"`
}

type url struct {
	URL string `json:"url"`
}

type inputAudio struct {
	Data   string `json:"data"`
	Format string `json:"format"`
}

// encode returns the body of a request. The same tools give the same bytes, for the
// prompt cache of the service.
func (p *Provider) encode(r *chat.Request, names *wire.Names, parts *wire.Parts) ([]byte, error) {
	o, profile := r.Options, p.profile(r.Model)
	q := request{
		Model:       r.Model,
		ToolChoice:  toolChoice(o.ToolChoice, names),
		Temperature: o.Temperature,
		TopP:        o.TopP,
		Stop:        o.Stop,
		Seed:        o.Seed,
		Stream:      true,
	}
	if o.ReasoningEffort != "" && parts.With(wire.Effort) {
		q.ReasoningEffort = o.ReasoningEffort
	}
	if len(o.Format) > 0 {
		q.ResponseFormat = p.format(o, profile, parts)
	}
	for _, t := range r.Tools {
		q.Tools = append(q.Tools, tool{Type: "function", Function: function{
			Name: names.Encode(t.Name), Description: t.Description, Parameters: t.Parameters, Strict: t.Strict && profile.Strict && parts.With(wire.Strict),
		}})
	}
	if o.ParallelToolCalls != nil && !p.Dialect.NoParallel && len(q.Tools) > 0 && parts.With(wire.OneCall) {
		q.ParallelToolCalls = o.ParallelToolCalls
	}
	if o.MaxTokens > 0 && profile.CompletionTokens == parts.With(wire.UsualMaximum) {
		q.MaxCompletionTokens = o.MaxTokens
	} else {
		q.MaxTokens = o.MaxTokens
	}
	if !p.Dialect.NoStreamUsage && parts.With(wire.StreamUsage) {
		q.StreamOptions = &streamOptions{IncludeUsage: true}
	}
	var err error
	if q.Messages, err = p.messages(r.Messages, names, parts); err != nil {
		return nil, err
	}
	return wire.Marshal(q)
}

// profile is the profile of a model, by its name and by the configuration.
func (p *Provider) profile(model string) wire.Profile {
	profile := wire.ProfileOf(model)
	profile.Strict = (profile.Strict || p.Dialect.Strict) && !p.Dialect.NoStrict
	profile.CompletionTokens = profile.CompletionTokens || p.Dialect.MaxCompletionTokens
	return profile
}

func toolChoice(c chat.ToolChoice, names *wire.Names) any {
	switch c.Mode {
	case "":
		return nil
	case "tool":
		return tool{Type: "function", Function: function{Name: names.Encode(c.Name)}}
	}
	return c.Mode
}

func (p *Provider) format(o chat.Options, profile wire.Profile, parts *wire.Parts) *responseFormat {
	if p.Dialect.JSONObject {
		return &responseFormat{Type: "json_object"}
	}
	name := o.FormatName
	if name == "" {
		name = "answer"
	}
	return &responseFormat{Type: "json_schema", JSONSchema: &jsonSchema{Name: name, Schema: o.Format, Strict: profile.Strict && parts.With(wire.Strict)}}
}

// messages translates a conversation. Media in results of tools follow in a message of
// the user, since a tool message holds text alone; that message comes behind the last
// tool message of the round, because no message may stand between a call and its
// result.
func (p *Provider) messages(list []chat.Message, names *wire.Names, parts *wire.Parts) ([]message, error) {
	replay := (p.Dialect.ReplayReasoning || p.reasons.Load()) && anyCalls(list) && parts.With(wire.Replay)
	out := make([]message, 0, len(list))
	var media []part
	for i, m := range list {
		if m.Role != chat.ToolRole && len(media) > 0 {
			out, media = append(out, message{Role: chat.User, Content: media}), nil
		}
		switch m.Role {
		case chat.System:
			out = append(out, message{Role: chat.System, Content: wire.TextOf(m)})
		case chat.User:
			content, err := userContent(m)
			if err != nil {
				return nil, err
			}
			out = append(out, message{Role: chat.User, Content: content})
		case chat.Assistant:
			out = append(out, p.assistant(m, names, replay, parts))
		case chat.ToolRole:
			m = wire.Readable(m, func(s *chat.Segment) bool { return s.Type != chat.Audio || !wire.IsURL(s.Data) })
			list, err := mediaParts(m)
			if err != nil {
				return nil, err
			}
			media = append(media, list...)
			out = append(out, message{Role: chat.ToolRole, ToolCallID: m.ToolCallID, Content: wire.TextOf(m)})
		default:
			return nil, wire.Unsupported("message %d has the role %q", i, m.Role)
		}
	}
	if len(media) > 0 {
		out = append(out, message{Role: chat.User, Content: media})
	}
	return out, nil
}

func anyCalls(list []chat.Message) bool {
	for _, m := range list {
		for _, s := range m.Segments {
			if s.Type == chat.Call {
				return true
			}
		}
	}
	return false
}

func (p *Provider) assistant(m chat.Message, names *wire.Names, replay bool, parts *wire.Parts) message {
	out := message{Role: chat.Assistant}
	var text, reasoning strings.Builder
	for _, s := range m.Segments {
		switch s.Type {
		case chat.Text:
			text.WriteString(s.Text)
		case chat.Reasoning:
			if s.Opaque != nil && s.Opaque.Origin == Origin {
				reasoning.WriteString(s.Text)
			}
			var details []json.RawMessage
			if json.Unmarshal(p.own(s, parts), &details) == nil {
				out.ReasoningDetails = append(out.ReasoningDetails, details...)
			}
		case chat.Call:
			out.ToolCalls = append(out.ToolCalls, toolCall{ID: s.ToolCall.ID, Type: "function", Function: callFunction{
				Name: names.Encode(s.ToolCall.Name), Arguments: wire.Arguments(s.ToolCall),
			}, ExtraContent: p.own(s, parts)})
		}
	}
	if text.Len() > 0 || len(out.ToolCalls) == 0 {
		out.Content = text.String()
	}
	if replay {
		said := reasoning.String()
		out.ReasoningContent = &said
	}
	return out
}

// userContent is a string for a message of text alone, which every service accepts, and
// else a list of parts.
func userContent(m chat.Message) (any, error) {
	parts, err := mediaParts(m)
	if err != nil || len(parts) == 0 {
		return wire.TextOf(m), err
	}
	parts = parts[:0]
	for _, s := range m.Segments {
		p, err := partOf(s)
		if err != nil {
			return nil, err
		}
		if p != nil {
			parts = append(parts, *p)
		}
	}
	return parts, nil
}

func mediaParts(m chat.Message) (parts []part, err error) {
	for _, s := range m.Segments {
		if s.Type == chat.Text {
			continue
		}
		p, err := partOf(s)
		if err != nil {
			return nil, err
		}
		if p != nil && p.Type != "text" {
			parts = append(parts, *p)
		}
	}
	return parts, nil
}

func partOf(s chat.Segment) (*part, error) {
	switch s.Type {
	case chat.Text:
		return &part{Type: "text", Text: s.Text}, nil
	case chat.Image:
		return &part{Type: "image_url", ImageURL: &url{wire.DataURL(s)}}, nil
	case chat.Video:
		return &part{Type: "video_url", VideoURL: &url{wire.DataURL(s)}}, nil
	case chat.Audio:
		if wire.IsURL(s.Data) {
			return nil, wire.Unsupported("this provider takes audio as data, not as a URL")
		}
		return &part{Type: "input_audio", InputAudio: &inputAudio{Data: s.Data, Format: wire.AudioFormat(s.MIMEType)}}, nil
	case chat.UI:
		return &part{Type: "text", Text: string(s.UI)}, nil
	}
	return nil, nil //nolint:nilnil // a user's message has neither reasoning nor calls
}
