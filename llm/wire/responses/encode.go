package responses

import (
	"encoding/json"

	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/llm/wire"
)

type request struct {
	Model             string      `json:"model"`
	Instructions      string      `json:"instructions,omitempty"`
	Input             []any       `json:"input"`
	Tools             []tool      `json:"tools,omitempty"`
	ToolChoice        any         `json:"tool_choice,omitempty"`
	ParallelToolCalls *bool       `json:"parallel_tool_calls,omitempty"`
	Temperature       *float64    `json:"temperature,omitempty"`
	TopP              *float64    `json:"top_p,omitempty"`
	MaxOutputTokens   int         `json:"max_output_tokens,omitempty"`
	Reasoning         *reasoning  `json:"reasoning,omitempty"`
	Text              *textConfig `json:"text,omitempty"`
	Include           []string    `json:"include,omitempty"`
	Store             bool        `json:"store"`
	Stream            bool        `json:"stream"`
}

type tool struct {
	Type        string          `json:"type"`
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters,omitempty"`
	Strict      bool            `json:"strict"` // the API's default would be true
}

type forcedTool struct {
	Type string `json:"type"`
	Name string `json:"name"`
}

type reasoning struct {
	Effort  string `json:"effort,omitempty"`
	Summary string `json:"summary,omitempty"`
}

type textConfig struct {
	Format format `json:"format"`
}

type format struct {
	Type   string          `json:"type"`
	Name   string          `json:"name"`
	Schema json.RawMessage `json:"schema"`
	Strict bool            `json:"strict"`
}

type message struct {
	Type    string    `json:"type"`
	Role    chat.Role `json:"role"`
	Content []content `json:"content"`
	Phase   string    `json:"phase,omitempty"`
}

type content struct {
	Type       string      `json:"type"`
	Text       *string     `json:"text,omitempty"`
	ImageURL   string      `json:"image_url,omitempty"`
	InputAudio *inputAudio `json:"input_audio,omitempty"`
}

type inputAudio struct {
	Data   string `json:"data"`
	Format string `json:"format"`
}

type functionCall struct {
	Type      string `json:"type"`
	CallID    string `json:"call_id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

type functionOutput struct {
	Type   string `json:"type"`
	CallID string `json:"call_id"`
	Output any    `json:"output"` // a string, or a list of content
}

func (p *Provider) encode(r *chat.Request, names *wire.Names, parts *wire.Parts) ([]byte, error) {
	o, profile := r.Options, p.profile(r.Model)
	if len(o.Stop) > 0 || o.Seed != nil {
		return nil, wire.Unsupported("this provider takes neither stop nor seed")
	}
	q := request{
		Model:           r.Model,
		ToolChoice:      toolChoice(o.ToolChoice, names),
		Temperature:     o.Temperature,
		TopP:            o.TopP,
		MaxOutputTokens: o.MaxTokens,
		Stream:          true,
	}
	for _, t := range r.Tools {
		q.Tools = append(q.Tools, tool{Type: "function", Name: names.Encode(t.Name), Description: t.Description, Parameters: t.Parameters, Strict: t.Strict && profile.Strict && parts.With(wire.Strict)})
	}
	if o.ParallelToolCalls != nil && len(q.Tools) > 0 && parts.With(wire.OneCall) {
		q.ParallelToolCalls = o.ParallelToolCalls
	}
	if profile.Encrypted && parts.With(wire.Encrypted) {
		q.Include = []string{"reasoning.encrypted_content"}
	}
	q.Reasoning = p.reasoning(o, profile, parts)
	if len(o.Format) > 0 {
		name := o.FormatName
		if name == "" {
			name = "answer"
		}
		q.Text = &textConfig{format{Type: "json_schema", Name: name, Schema: o.Format, Strict: profile.Strict && parts.With(wire.Strict)}}
	}
	var err error
	if q.Instructions, q.Input, err = input(r.Messages, names, parts); err != nil {
		return nil, err
	}
	return wire.Marshal(q)
}

// profile is the profile of a model, by its name and by the configuration.
func (p *Provider) profile(model string) wire.Profile {
	profile := wire.ProfileOf(model)
	profile.Strict = (profile.Strict || p.Dialect.Strict) && !p.Dialect.NoStrict
	profile.Encrypted = (profile.Encrypted || p.Dialect.Reasoning) && !p.Dialect.NoReasoning
	return profile
}

// reasoning is the request for reasoning, nil to leave it to the model.
func (p *Provider) reasoning(o chat.Options, profile wire.Profile, parts *wire.Parts) *reasoning {
	var how reasoning
	if o.ReasoningEffort != "" && !p.Dialect.NoReasoning && parts.With(wire.Effort) {
		how.Effort = o.ReasoningEffort
	}
	if profile.Encrypted && parts.With(wire.Summary) {
		how.Summary = "auto"
	}
	if how == (reasoning{}) {
		return nil
	}
	return &how
}

func toolChoice(c chat.ToolChoice, names *wire.Names) any {
	switch c.Mode {
	case "":
		return nil
	case "tool":
		return forcedTool{Type: "function", Name: names.Encode(c.Name)}
	}
	return c.Mode
}

// input translates a conversation. The system texts that begin it are the
// instructions; later ones stay where they are.
func input(list []chat.Message, names *wire.Names, parts *wire.Parts) (instructions string, items []any, err error) {
	for i, m := range list {
		switch m.Role {
		case chat.System:
			if len(items) == 0 {
				if instructions != "" {
					instructions += "\n\n"
				}
				instructions += wire.TextOf(m)
				continue
			}
			text := wire.TextOf(m)
			items = append(items, message{Type: "message", Role: chat.System, Content: []content{{Type: "input_text", Text: &text}}})
		case chat.User:
			list, err := said(m)
			if err != nil {
				return "", nil, err
			}
			items = append(items, message{Type: "message", Role: chat.User, Content: list})
		case chat.Assistant:
			items = append(items, answered(m, names, parts)...)
		case chat.ToolRole:
			output, err := returned(m)
			if err != nil {
				return "", nil, err
			}
			items = append(items, functionOutput{Type: "function_call_output", CallID: m.ToolCallID, Output: output})
		default:
			return "", nil, wire.Unsupported("message %d has the role %q", i, m.Role)
		}
	}
	return instructions, items, nil
}

func said(m chat.Message) (list []content, err error) {
	for _, s := range m.Segments {
		switch s.Type {
		case chat.Text:
			list = append(list, content{Type: "input_text", Text: &s.Text})
		case chat.UI:
			text := string(s.UI)
			list = append(list, content{Type: "input_text", Text: &text})
		case chat.Image:
			list = append(list, content{Type: "input_image", ImageURL: wire.DataURL(s)})
		case chat.Audio:
			if wire.IsURL(s.Data) {
				return nil, wire.Unsupported("this provider takes audio as data, not as a URL")
			}
			list = append(list, content{Type: "input_audio", InputAudio: &inputAudio{Data: s.Data, Format: wire.AudioFormat(s.MIMEType)}})
		case chat.Video:
			return nil, wire.Unsupported("this provider takes no video")
		}
	}
	return list, nil
}

// returned is the output of a call: a text, or a list of content if there are media.
func returned(m chat.Message) (any, error) {
	m = wire.Readable(m, func(s *chat.Segment) bool {
		return wire.TakesImage(s) || s.Type == chat.Audio && !wire.IsURL(s.Data)
	})
	for _, s := range m.Segments {
		if s.Type == chat.Image || s.Type == chat.Audio || s.Type == chat.Video {
			return said(m)
		}
	}
	return wire.TextOf(m), nil
}

// answered translates a message of the model, item by item. Reasoning of this wire goes
// back unchanged; that of other wires is left out.
func answered(m chat.Message, names *wire.Names, parts *wire.Parts) (items []any) {
	for _, s := range m.Segments {
		switch s.Type {
		case chat.Reasoning:
			if s.Opaque != nil && s.Opaque.Origin == Origin && len(s.Opaque.Data) > 0 && parts.With(wire.Replay) {
				items = append(items, s.Opaque.Data)
			}
		case chat.Text:
			items = append(items, message{Type: "message", Role: chat.Assistant, Content: []content{{Type: "output_text", Text: &s.Text}}, Phase: phaseOf(s)})
		case chat.Call:
			items = append(items, functionCall{
				Type: "function_call", CallID: s.ToolCall.ID, Name: names.Encode(s.ToolCall.Name), Arguments: wire.Arguments(s.ToolCall),
			})
		}
	}
	return items
}

// A keepsake is the metadata of a message: models lose their place in a long turn without
// its phase.
type keepsake struct {
	Phase string `json:"phase,omitempty"`
}

func phaseOf(s chat.Segment) string {
	if s.Opaque == nil || s.Opaque.Origin != Origin {
		return ""
	}
	var k keepsake
	_ = json.Unmarshal(s.Opaque.Data, &k) // foreign data stay out
	return k.Phase
}
