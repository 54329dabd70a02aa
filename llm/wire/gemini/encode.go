package gemini

import (
	"encoding/json"

	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/llm/wire"
)

type request struct {
	SystemInstruction *content          `json:"systemInstruction,omitempty"`
	Contents          []content         `json:"contents"`
	Tools             []tools           `json:"tools,omitempty"`
	ToolConfig        *toolConfig       `json:"toolConfig,omitempty"`
	GenerationConfig  *generationConfig `json:"generationConfig,omitempty"`
}

type content struct {
	Role  string `json:"role,omitempty"`
	Parts []part `json:"parts"`
}

// A part of a request or an answer.
type part struct {
	Text             *wire.Text        `json:"text,omitempty"`
	Thought          bool              `json:"thought,omitempty"`
	ThoughtSignature string            `json:"thoughtSignature,omitempty"`
	InlineData       *inlineData       `json:"inlineData,omitempty"`
	FileData         *fileData         `json:"fileData,omitempty"`
	FunctionCall     *functionCall     `json:"functionCall,omitempty"`
	FunctionResponse *functionResponse `json:"functionResponse,omitempty"`
}

type inlineData struct {
	MimeType string `json:"mimeType"`
	Data     string `json:"data"`
}

type fileData struct {
	MimeType string `json:"mimeType,omitempty"`
	FileURI  string `json:"fileUri"`
}

type functionCall struct {
	ID   string          `json:"id,omitempty"`
	Name string          `json:"name"`
	Args json.RawMessage `json:"args,omitempty"`
}

type functionResponse struct {
	ID       string          `json:"id,omitempty"`
	Name     string          `json:"name"`
	Response json.RawMessage `json:"response"`
}

type tools struct {
	FunctionDeclarations []declaration `json:"functionDeclarations"`
}

type declaration struct {
	Name                 string          `json:"name"`
	Description          string          `json:"description,omitempty"`
	ParametersJSONSchema json.RawMessage `json:"parametersJsonSchema,omitempty"`
}

type toolConfig struct {
	FunctionCallingConfig callingConfig `json:"functionCallingConfig"`
}

type callingConfig struct {
	Mode                 string   `json:"mode"`
	AllowedFunctionNames []string `json:"allowedFunctionNames,omitempty"`
}

type generationConfig struct {
	Temperature        *float64        `json:"temperature,omitempty"`
	TopP               *float64        `json:"topP,omitempty"`
	MaxOutputTokens    int             `json:"maxOutputTokens,omitempty"`
	StopSequences      []string        `json:"stopSequences,omitempty"`
	Seed               *int64          `json:"seed,omitempty"`
	ResponseMimeType   string          `json:"responseMimeType,omitempty"`
	ResponseJSONSchema json.RawMessage `json:"responseJsonSchema,omitempty"`
	ThinkingConfig     *thinkingConfig `json:"thinkingConfig,omitempty"`
}

type thinkingConfig struct {
	IncludeThoughts bool   `json:"includeThoughts,omitempty"`
	ThinkingBudget  *int   `json:"thinkingBudget,omitempty"`
	ThinkingLevel   string `json:"thinkingLevel,omitempty"`
}

func (p *Provider) encode(r *chat.Request, names *wire.Names, parts *wire.Parts) ([]byte, error) {
	how := wire.ProfileOf(r.Model).Thinking
	if p.Dialect.ThinkingBudget {
		how = wire.ThinkingBudget
	}
	q := request{ToolConfig: calling(r.Options.ToolChoice, names, len(r.Tools) > 0), GenerationConfig: generation(r.Options, how, parts)}
	if len(r.Tools) > 0 {
		q.Tools = make([]tools, 1)
	}
	for _, t := range r.Tools {
		q.Tools[0].FunctionDeclarations = append(q.Tools[0].FunctionDeclarations,
			declaration{Name: names.Encode(t.Name), Description: t.Description, ParametersJSONSchema: t.Parameters})
	}
	var err error
	if q.SystemInstruction, q.Contents, err = contents(r.Messages, names); err != nil {
		return nil, err
	}
	return wire.Marshal(q)
}

func calling(c chat.ToolChoice, names *wire.Names, tools bool) *toolConfig {
	if !tools {
		return nil
	}
	config := callingConfig{}
	switch c.Mode {
	case "none":
		config.Mode = "NONE"
	case "required":
		config.Mode = "ANY"
	case "tool":
		config = callingConfig{Mode: "ANY", AllowedFunctionNames: []string{names.Encode(c.Name)}}
	default:
		return nil
	}
	return &toolConfig{config}
}

// budgets are the budgets of reasoning by effort, in tokens.
var budgets = map[string]int{"none": 0, "minimal": 512, "low": 2048, "medium": 8192, "high": 24576}

func generation(o chat.Options, how wire.Thinking, parts *wire.Parts) *generationConfig {
	g := generationConfig{
		Temperature:     o.Temperature,
		TopP:            o.TopP,
		MaxOutputTokens: o.MaxTokens,
		StopSequences:   o.Stop,
		Seed:            o.Seed,
	}
	if len(o.Format) > 0 {
		g.ResponseMimeType, g.ResponseJSONSchema = "application/json", o.Format
	}
	switch effort := o.ReasoningEffort; {
	case effort == "", how == wire.ThinkingNever, !parts.With(wire.Effort):
	case how == wire.ThinkingBudget:
		budget, known := budgets[effort]
		if !known {
			budget = -1 // the model decides
		}
		g.ThinkingConfig = &thinkingConfig{IncludeThoughts: budget != 0, ThinkingBudget: &budget}
	case effort == "none": // the lowest level of all these models
		g.ThinkingConfig = &thinkingConfig{ThinkingLevel: "low"}
	default:
		g.ThinkingConfig = &thinkingConfig{IncludeThoughts: true, ThinkingLevel: effort}
	}
	return &g
}

// contents translates a conversation: system texts go to the front, adjacent messages
// of one side become one content, and the responses of a round of calls stand together.
func contents(list []chat.Message, names *wire.Names) (system *content, out []content, err error) {
	say := func(role string, parts []part) {
		switch n := len(out); {
		case len(parts) == 0:
		case n > 0 && out[n-1].Role == role:
			out[n-1].Parts = append(out[n-1].Parts, parts...)
		default:
			out = append(out, content{Role: role, Parts: parts})
		}
	}
	calls := make(map[string]functionCall) // by our id
	for i, m := range list {
		switch m.Role {
		case chat.System:
			if system == nil {
				system = &content{}
			}
			system.Parts = append(system.Parts, textPart(wire.TextOf(m)))
		case chat.User:
			parts, err := said(m)
			if err != nil {
				return nil, nil, err
			}
			say("user", parts)
		case chat.Assistant:
			parts, err := answered(m, names, calls)
			if err != nil {
				return nil, nil, err
			}
			say("model", parts)
		case chat.ToolRole:
			parts, err := returned(m, names, calls)
			if err != nil {
				return nil, nil, err
			}
			say("user", parts)
		default:
			return nil, nil, wire.Unsupported("message %d has the role %q", i, m.Role)
		}
	}
	return system, out, nil
}

func textPart(text string) part {
	t := wire.Text(text)
	return part{Text: &t}
}

func said(m chat.Message) (parts []part, err error) {
	for _, s := range m.Segments {
		switch s.Type {
		case chat.Text:
			if s.Text != "" { // an empty part is refused
				parts = append(parts, textPart(s.Text))
			}
		case chat.UI:
			parts = append(parts, textPart(string(s.UI)))
		case chat.Image, chat.Audio, chat.Video:
			parts = append(parts, mediaPart(s))
		}
	}
	return parts, nil
}

func mediaPart(s chat.Segment) part {
	if wire.IsURL(s.Data) {
		return part{FileData: &fileData{MimeType: s.MIMEType, FileURI: s.Data}}
	}
	return part{InlineData: &inlineData{MimeType: s.MIMEType, Data: s.Data}}
}

// A keepsake is the metadata of a part, to be sent back with it. Neither field is ever
// made up: the API checks signatures, and only models that give ids accept them.
type keepsake struct {
	Signature string `json:"thoughtSignature,omitempty"`
	ID        string `json:"id,omitempty"`
}

func keptWith(s chat.Segment) (k keepsake) {
	if s.Opaque != nil && s.Opaque.Origin == Origin {
		_ = json.Unmarshal(s.Opaque.Data, &k) // foreign data stay out
	}
	return k
}

// answered translates a message of the model, part by part, each with its own
// signature. Thoughts without a signature do not go back.
func answered(m chat.Message, names *wire.Names, calls map[string]functionCall) (parts []part, err error) {
	for _, s := range m.Segments {
		kept := keptWith(s)
		var p part
		switch s.Type {
		case chat.Text:
			if s.Text == "" && kept.Signature == "" {
				continue
			}
			p = textPart(s.Text)
		case chat.Reasoning:
			if kept.Signature == "" {
				continue
			}
			p = textPart(s.Text)
			p.Thought = true
		case chat.Image, chat.Audio, chat.Video:
			p = mediaPart(s)
		case chat.Call:
			call := functionCall{ID: kept.ID, Name: names.Encode(s.ToolCall.Name), Args: wire.ArgumentsObject(s.ToolCall)}
			calls[s.ToolCall.ID] = call
			p = part{FunctionCall: &call}
		default:
			continue
		}
		p.ThoughtSignature = kept.Signature
		parts = append(parts, p)
	}
	return parts, nil
}

// returned translates the result of a tool: an object unchanged, a text as the field
// result or error of an object. Media follow in parts of their own.
func returned(m chat.Message, names *wire.Names, calls map[string]functionCall) ([]part, error) {
	text := wire.TextOf(m)
	response := json.RawMessage(text)
	if !isObject(response) || m.Failed {
		key := "result"
		if m.Failed {
			key = "error"
		}
		var err error
		if response, err = wire.Marshal(map[string]string{key: text}); err != nil {
			return nil, err
		}
	}
	call, known := calls[m.ToolCallID]
	if !known {
		if m.ToolName == "" {
			return nil, wire.Unsupported("the result of call %.64q stands before the call", m.ToolCallID)
		}
		call.Name = names.Encode(m.ToolName)
	}
	parts := []part{{FunctionResponse: &functionResponse{ID: call.ID, Name: call.Name, Response: response}}}
	for _, s := range m.Segments {
		if s.Type == chat.Image || s.Type == chat.Audio || s.Type == chat.Video {
			parts = append(parts, mediaPart(s))
		}
	}
	return parts, nil
}

func isObject(raw json.RawMessage) bool {
	var object map[string]json.RawMessage
	return json.Unmarshal(raw, &object) == nil && object != nil
}
