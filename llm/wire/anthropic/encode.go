package anthropic

import (
	"encoding/json"
	"strings"

	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/llm/wire"
)

type request struct {
	Model         string        `json:"model"`
	MaxTokens     int           `json:"max_tokens"`
	System        []any         `json:"system,omitempty"`
	Tools         []tool        `json:"tools,omitempty"`
	ToolChoice    *toolChoice   `json:"tool_choice,omitempty"`
	Messages      []message     `json:"messages"`
	Temperature   *float64      `json:"temperature,omitempty"`
	TopP          *float64      `json:"top_p,omitempty"`
	StopSequences []string      `json:"stop_sequences,omitempty"`
	Thinking      *thinking     `json:"thinking,omitempty"`
	OutputConfig  *outputConfig `json:"output_config,omitempty"`
	Stream        bool          `json:"stream"`
}

type cacheControl struct {
	Type string `json:"type"`
}

var ephemeral = &cacheControl{Type: "ephemeral"}

type tool struct {
	Name         string          `json:"name"`
	Description  string          `json:"description,omitempty"`
	InputSchema  json.RawMessage `json:"input_schema"`
	Strict       bool            `json:"strict,omitempty"`
	CacheControl *cacheControl   `json:"cache_control,omitempty"`
}

type toolChoice struct {
	Type                   string `json:"type"`
	Name                   string `json:"name,omitempty"`
	DisableParallelToolUse bool   `json:"disable_parallel_tool_use,omitempty"`
}

type thinking struct {
	Type         string `json:"type"`
	BudgetTokens int    `json:"budget_tokens,omitempty"`
}

type outputConfig struct {
	Effort string  `json:"effort,omitempty"`
	Format *format `json:"format,omitempty"`
}

type format struct {
	Type   string          `json:"type"`
	Schema json.RawMessage `json:"schema"`
}

type message struct {
	Role    chat.Role `json:"role"`
	Content []any     `json:"content"`
}

type textBlock struct {
	Type         string        `json:"type"`
	Text         string        `json:"text"`
	CacheControl *cacheControl `json:"cache_control,omitempty"`
}

type mediaBlock struct {
	Type   string `json:"type"`
	Source source `json:"source"`
}

type source struct {
	Type      string `json:"type"`
	MediaType string `json:"media_type,omitempty"`
	Data      string `json:"data,omitempty"`
	URL       string `json:"url,omitempty"`
}

type toolUse struct {
	Type  string          `json:"type"`
	ID    string          `json:"id"`
	Name  string          `json:"name"`
	Input json.RawMessage `json:"input"`
}

type toolResult struct {
	Type      string `json:"type"`
	ToolUseID string `json:"tool_use_id"`
	Content   []any  `json:"content,omitempty"`
	IsError   bool   `json:"is_error,omitempty"`
}

func (p *Provider) encode(r *chat.Request, names *wire.Names, parts *wire.Parts) ([]byte, error) {
	o, profile := r.Options, p.profile(r.Model)
	q := request{
		Model:         r.Model,
		MaxTokens:     o.MaxTokens,
		ToolChoice:    choice(o, names, len(r.Tools) > 0),
		Temperature:   o.Temperature,
		TopP:          o.TopP,
		StopSequences: o.Stop,
		Stream:        true,
	}
	if q.MaxTokens == 0 {
		q.MaxTokens = defaultMaxTokens
	}
	if len(o.Format) > 0 {
		q.OutputConfig = &outputConfig{Format: &format{Type: "json_schema", Schema: o.Format}}
	}
	if o.ReasoningEffort != "" && profile.Thinking != wire.ThinkingNever && parts.With(wire.Effort) {
		think(&q, o.ReasoningEffort, profile.Thinking)
	}
	strict := 0
	for _, t := range r.Tools {
		schema := t.Parameters
		if len(schema) == 0 {
			schema = json.RawMessage(`{"type":"object"}`)
		}
		offer := tool{Name: names.Encode(t.Name), Description: t.Description, InputSchema: schema}
		if t.Strict && profile.Strict && (profile.StrictTools == 0 || strict < profile.StrictTools) && parts.With(wire.Strict) {
			offer.Strict = true
			strict++
		}
		q.Tools = append(q.Tools, offer)
	}
	var err error
	if q.System, q.Messages, err = messages(r.Messages, names, parts); err != nil {
		return nil, err
	}
	if !p.Dialect.NoCache && (len(q.Tools) > 0 || len(q.System) > 0) && parts.With(wire.PromptCache) {
		cache(&q)
	}
	return wire.Marshal(q)
}

// profile is the profile of a model, by its name and by the configuration.
func (p *Provider) profile(model string) wire.Profile {
	profile := wire.ProfileOf(model)
	profile.Strict = (profile.Strict || p.Dialect.Strict) && !p.Dialect.NoStrict
	if p.Dialect.ThinkingBudget {
		profile.Thinking = wire.ThinkingBudget
	}
	return profile
}

// cache marks the end of the common prefix of requests for the provider's cache: the
// tools, and the system prompt behind them.
func cache(q *request) {
	if n := len(q.Tools); n > 0 {
		q.Tools[n-1].CacheControl = ephemeral
	}
	if n := len(q.System); n > 0 {
		if block, ok := q.System[n-1].(textBlock); ok {
			block.CacheControl = ephemeral
			q.System[n-1] = block
		}
	}
}

// budgets are the budgets of reasoning by effort, in tokens.
var budgets = map[string]int{"minimal": 1024, "low": 2048, "medium": 8192, "high": 24576}

// think asks for reasoning. The API then allows neither temperature nor a
// forced tool, and with a budget a limit above it.
func think(q *request, effort string, how wire.Thinking) {
	switch {
	case effort == "none":
		q.Thinking = &thinking{Type: "disabled"}
		return
	case how == wire.ThinkingBudget:
		q.Thinking = &thinking{Type: "enabled", BudgetTokens: budgets[effort]}
		if q.Thinking.BudgetTokens == 0 {
			q.Thinking.BudgetTokens = budgets["medium"]
		}
		q.MaxTokens += q.Thinking.BudgetTokens
	default:
		q.Thinking = &thinking{Type: "adaptive"}
		if q.OutputConfig == nil {
			q.OutputConfig = &outputConfig{}
		}
		if q.OutputConfig.Effort = effort; effort == "minimal" {
			q.OutputConfig.Effort = "low"
		}
	}
	q.Temperature, q.TopP = nil, nil
	if q.ToolChoice != nil && (q.ToolChoice.Type == "any" || q.ToolChoice.Type == "tool") {
		q.ToolChoice = &toolChoice{Type: "auto", DisableParallelToolUse: q.ToolChoice.DisableParallelToolUse}
	}
}

func choice(o chat.Options, names *wire.Names, tools bool) *toolChoice {
	if !tools {
		return nil
	}
	serial := o.ParallelToolCalls != nil && !*o.ParallelToolCalls
	switch o.ToolChoice.Mode {
	case "none":
		return &toolChoice{Type: "none"}
	case "required":
		return &toolChoice{Type: "any", DisableParallelToolUse: serial}
	case "tool":
		return &toolChoice{Type: "tool", Name: names.Encode(o.ToolChoice.Name), DisableParallelToolUse: serial}
	}
	if serial || o.ToolChoice.Mode == "auto" {
		return &toolChoice{Type: "auto", DisableParallelToolUse: serial}
	}
	return nil
}

// messages translates a conversation: system texts go to the front, adjacent messages
// of one side become one, and the results of a round of calls stand together before the
// user's next text.
func messages(list []chat.Message, names *wire.Names, parts *wire.Parts) (system []any, out []message, err error) {
	say := func(role chat.Role, blocks []any) {
		switch n := len(out); {
		case len(blocks) == 0:
		case n > 0 && out[n-1].Role == role:
			out[n-1].Content = append(out[n-1].Content, blocks...)
		default:
			out = append(out, message{Role: role, Content: blocks})
		}
	}
	for i, m := range list {
		switch m.Role {
		case chat.System:
			if text := wire.TextOf(m); !blank(text) {
				system = append(system, textBlock{Type: "text", Text: text})
			}
		case chat.User:
			blocks, err := said(m)
			if err != nil {
				return nil, nil, err
			}
			say(chat.User, blocks)
		case chat.Assistant:
			say(chat.Assistant, answered(m, names, parts))
		case chat.ToolRole:
			blocks, err := said(m)
			if err != nil {
				return nil, nil, err
			}
			say(chat.User, []any{toolResult{Type: "tool_result", ToolUseID: toolID(m.ToolCallID), Content: blocks, IsError: m.Failed}})
		default:
			return nil, nil, wire.Unsupported("message %d has the role %q", i, m.Role)
		}
	}
	return system, out, nil
}

// blank reports whether a text is only white space, which the API refuses.
func blank(text string) bool { return strings.TrimSpace(text) == "" }

// said translates a message of a user or a tool. Blank texts are left out.
func said(m chat.Message) (blocks []any, err error) {
	m = wire.Readable(m, wire.TakesImage)
	for _, s := range m.Segments {
		switch s.Type {
		case chat.Text:
			if !blank(s.Text) {
				blocks = append(blocks, textBlock{Type: "text", Text: s.Text})
			}
		case chat.UI:
			blocks = append(blocks, textBlock{Type: "text", Text: string(s.UI)})
		case chat.Image:
			blocks = append(blocks, mediaBlock{Type: "image", Source: sourceOf(s)})
		case chat.Audio, chat.Video:
			return nil, wire.Unsupported("this provider takes no %s", s.Type)
		}
	}
	return blocks, nil
}

func sourceOf(s chat.Segment) source {
	if wire.IsURL(s.Data) {
		return source{Type: "url", URL: s.Data}
	}
	return source{Type: "base64", MediaType: s.MIMEType, Data: s.Data}
}

// answered translates a message of the model. Blocks of this wire go back verbatim;
// reasoning of other wires is left out, for it has no signature.
func answered(m chat.Message, names *wire.Names, parts *wire.Parts) (blocks []any) {
	for _, s := range m.Segments {
		switch {
		case s.Opaque != nil && s.Opaque.Origin == Origin && len(s.Opaque.Data) > 0:
			if parts.With(wire.Replay) {
				blocks = append(blocks, s.Opaque.Data)
			}
		case s.Type == chat.Text && !blank(s.Text):
			blocks = append(blocks, textBlock{Type: "text", Text: s.Text})
		case s.Type == chat.Call:
			blocks = append(blocks, toolUse{
				Type: "tool_use", ID: toolID(s.ToolCall.ID), Name: names.Encode(s.ToolCall.Name), Input: wire.ArgumentsObject(s.ToolCall),
			})
		}
	}
	return blocks
}

// toolID converts the id of any provider to the form that the API allows.
func toolID(id string) string { return idRule.Fit(id) }

var idRule = wire.Charset{Max: 64}
