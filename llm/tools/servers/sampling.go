package servers

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/telemetry/semconv"
	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/llm/tools"
	"github.com/aibridge/aibridge/protocol"
)

// Sampling are the settings of a server's questions to models while it works on a call.
type Sampling struct {
	On       bool   `yaml:"on" doc:"the server may ask a language model while it works on a call: as the principal of the call, with its rights and budgets"`
	By       string `yaml:"by" doc:"bridge: models of the bridge answer; caller: that of the calling MCP client, if it supports sampling; bridge by default"`
	Model    string `yaml:"model" doc:"name or alias of the bridge's model; the default model when empty"`
	Requests int    `yaml:"requests" doc:"questions of one call, 100 at most; 8 when 0"`
	Tokens   int    `yaml:"tokens" doc:"tokens of all questions and answers of one call; 32768 when 0"`
}

// The owners of the model that answers.
const (
	byBridge = "bridge"
	byCaller = "caller"
)

// The bounds of a server's questions to models.
const (
	samplingRequests    = 8
	maxSamplingRequests = 100
	samplingTokens      = 32 << 10
	maxSamplingTokens   = 10_000_000
	maxSampledMessages  = 256
	maxSampledBytes     = 1 << 20 // of the text and media of one question
	bytesPerToken       = 4       // of a text, about
)

// Check returns the fault of the settings.
func (s *Sampling) Check() error {
	switch {
	case s.By != "" && s.By != byBridge && s.By != byCaller:
		return fmt.Errorf("sampling.by: %q is neither %s nor %s", s.By, byBridge, byCaller)
	case s.Requests < 0 || s.Requests > maxSamplingRequests:
		return fmt.Errorf("sampling.requests: must be between 0 and %d", maxSamplingRequests)
	case s.Tokens < 0 || s.Tokens > maxSamplingTokens:
		return fmt.Errorf("sampling.tokens: must be between 0 and %d", maxSamplingTokens)
	case len(s.Model) > 128:
		return errors.New("sampling.model: has more than 128 bytes")
	}
	return nil
}

func (s *Sampling) requests() int {
	if s.Requests == 0 {
		return samplingRequests
	}
	return s.Requests
}

func (s *Sampling) tokens() int {
	if s.Tokens == 0 {
		return samplingTokens
	}
	return s.Tokens
}

// queryCommand is the command by which models are asked, so that policy, budgets,
// redaction and the audit trail treat a question like any other query of the principal.
const queryCommand = "llm.advanced-query"

// Sampled counts the questions of a server to models during a call.
type Sampled struct {
	Requests int `json:"requests" doc:"questions that a model has answered"`
	Refused  int `json:"refused,omitempty" doc:"questions that were refused or got no answer; absent for 0"`
	Tokens   int `json:"tokens" doc:"tokens of these questions and answers"`
}

// An inquiry handles the requests of a server during one call. Concurrent questions to
// models are asked one after the other.
type inquiry struct {
	of   *connection
	call *commands.Call
	ctx  context.Context // of the call

	turn sync.Mutex // held while a model is asked

	mu      sync.Mutex
	asked   int
	sampled Sampled
	forms   int // forms shown
}

// passOn passes a question on to the model of the caller's MCP client.
func (a *inquiry) passOn(ctx context.Context, p *sdk.CreateMessageWithToolsParams, tokens int64) (*sdk.CreateMessageWithToolsResult, error) {
	asked := *p
	asked.Meta, asked.Metadata, asked.IncludeContext, asked.MaxTokens = nil, nil, "", tokens
	var answer sdk.CreateMessageWithToolsResult
	if err := a.askCaller(ctx, samplingMethod, &asked, &answer); err != nil {
		return nil, unasked(codeRejected, "the caller's model is not asked, or does not answer")
	}
	text := 0
	for _, piece := range answer.Content {
		switch c := piece.(type) {
		case *sdk.TextContent:
			text += len(c.Text)
		case *sdk.ImageContent, *sdk.AudioContent:
		default:
			return nil, unasked(codeFailed, "the answer has other content than text, image and audio")
		}
	}
	for _, m := range p.Messages {
		for _, piece := range m.Content {
			if c, ok := piece.(*sdk.TextContent); ok {
				text += len(c.Text)
			}
		}
	}
	a.mu.Lock()
	a.sampled.Requests++
	a.sampled.Tokens += text / bytesPerToken
	a.mu.Unlock()
	return &answer, nil
}

// inquiry is the inquiry of a call, nil if the server may send no requests.
func (l *connection) inquiry(call *commands.Call) *inquiry {
	if !l.config.asks() {
		return nil
	}
	return &inquiry{of: l, call: call}
}

// The codes of errors for a server.
const (
	codeRejected = -1 // by the specification: the user has refused
	codeFailed   = jsonrpc.CodeInternalError
)

// unasked is the error of a question or form that is not passed on.
func unasked(code int64, format string, values ...any) error {
	return &jsonrpc.Error{Code: code, Message: fmt.Sprintf(format, values...)}
}

// answer answers the question of a server by a model.
func (a *inquiry) answer(ctx context.Context, r *sdk.CreateMessageWithToolsRequest) (*sdk.CreateMessageWithToolsResult, error) {
	if err := a.enter(); err != nil {
		return nil, err
	}
	result, err := a.take(ctx, r.Params)
	if err != nil {
		a.mu.Lock()
		a.sampled.Refused++
		a.mu.Unlock()
	}
	return result, err
}

// enter counts a question, unless there were too many.
func (a *inquiry) enter() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.asked >= a.of.config.Sampling.requests() {
		a.sampled.Refused++
		return unasked(codeRejected, "a call asks models at most %d times", a.of.config.Sampling.requests())
	}
	a.asked++
	return nil
}

// take waits for its turn, and asks the model.
func (a *inquiry) take(ctx context.Context, p *sdk.CreateMessageWithToolsParams) (*sdk.CreateMessageWithToolsResult, error) {
	a.turn.Lock()
	defer a.turn.Unlock()
	within, cancel := context.WithCancel(a.ctx)
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	if within.Err() != nil {
		return nil, unasked(codeFailed, "the call has ended")
	}
	question, err := a.question(p)
	if err != nil {
		return nil, err
	}
	if a.of.config.Sampling.By == byCaller {
		return a.passOn(within, p, question.Options.MaxTokens)
	}
	params, err := json.Marshal(question)
	if err != nil {
		return nil, unasked(jsonrpc.CodeInvalidParams, "the messages cannot be written as JSON")
	}
	env := tools.Environment{
		Principal: a.call.Principal, Space: a.call.Principal.Home(), TraceID: a.call.TraceID, Traceparent: semconv.Traceparent(a.ctx), Depth: a.call.Depth + 1,
	}
	answer, err := a.of.service.opts.Invoke(within, env, queryCommand, params)
	if err != nil {
		return nil, a.refusal(err)
	}
	return a.told(answer)
}

// refusal converts an error of the bridge to one for the server. An untrusted server
// learns only whether it may ask again.
func (a *inquiry) refusal(err error) error {
	a.of.service.opts.Log.Debug("no model was asked for an MCP server", "server", a.of.config.Name, "error", err)
	switch protocol.CodeOf(err) {
	case protocol.PermissionDenied, protocol.BudgetSpent, protocol.RateLimited, protocol.NotFound:
		return unasked(codeRejected, "the caller may not ask this model now")
	case protocol.InvalidParameter:
		return unasked(jsonrpc.CodeInvalidParams, "the question does not fit a model")
	}
	return unasked(codeFailed, "the model does not answer")
}

// A question is the part of the params of llm.advanced-query that is used.
type question struct {
	Query      string          `json:"query"`
	Parameters questionContext `json:"parameters"`
	Options    questionOptions `json:"options"`
}

type questionContext struct {
	System   string         `json:"system,omitempty"`
	Messages []chat.Message `json:"messages,omitempty"`
	Segments []chat.Segment `json:"segments,omitempty"`
}

type questionOptions struct {
	Model       string   `json:"model,omitempty"`
	Temperature *float64 `json:"temperature,omitempty"`
	MaxTokens   int64    `json:"max_tokens"`
	Stop        []string `json:"stop,omitempty"`
}

// question converts the question of a server. The configuration decides the model and
// the length of the answer; the server's preferences are ignored.
func (a *inquiry) question(p *sdk.CreateMessageWithToolsParams) (*question, error) {
	invalid := func(format string, values ...any) (*question, error) {
		return nil, unasked(jsonrpc.CodeInvalidParams, format, values...)
	}
	switch {
	case len(p.Tools) > 0:
		return invalid("tools: models use none here, and the client has not declared sampling.tools")
	case p.MaxTokens < 1:
		return invalid("maxTokens: must be at least 1")
	case len(p.Messages) == 0 || len(p.Messages) > maxSampledMessages:
		return invalid("messages: must be 1 to %d", maxSampledMessages)
	case p.Messages[len(p.Messages)-1].Role != "user":
		return invalid("messages: the last must be of role user")
	case len(p.StopSequences) > 16:
		return invalid("stopSequences: at most 16")
	case p.Temperature < 0 || p.Temperature > 2:
		return invalid("temperature: must be between 0 and 2")
	}
	q := &question{Parameters: questionContext{System: p.SystemPrompt}, Options: questionOptions{Model: a.of.config.Sampling.Model, Stop: p.StopSequences}}
	if p.Temperature > 0 {
		q.Options.Temperature = &p.Temperature
	}
	text, size := len(p.SystemPrompt), len(p.SystemPrompt)
	for i, m := range p.Messages {
		segments, err := segmentsOf(m, i)
		if err != nil {
			return nil, err
		}
		for _, s := range segments {
			text += len(s.Text)
			size += len(s.Text) + len(s.Data)
		}
		if size > maxSampledBytes {
			return invalid("messages: have more than %d bytes", maxSampledBytes)
		}
		if i < len(p.Messages)-1 {
			q.Parameters.Messages = append(q.Parameters.Messages, chat.Message{Role: chat.Role(m.Role), Segments: segments})
			continue
		}
		for _, s := range segments {
			if q.Query == "" && s.Type == chat.Text {
				q.Query = s.Text
			} else {
				q.Parameters.Segments = append(q.Parameters.Segments, s)
			}
		}
	}
	if q.Query == "" {
		return invalid("messages: the last must have a text")
	}
	left := a.left() - text/bytesPerToken
	if left < 1 {
		return nil, unasked(codeRejected, "a call has at most %d tokens for questions to models, which are used up", a.of.config.Sampling.tokens())
	}
	q.Options.MaxTokens = min(p.MaxTokens, int64(left), 1_000_000)
	return q, nil
}

// left is the number of remaining tokens of the call.
func (a *inquiry) left() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.of.config.Sampling.tokens() - a.sampled.Tokens
}

// segmentsOf converts the contents of a message to segments.
func segmentsOf(m *sdk.SamplingMessageV2, at int) ([]chat.Segment, error) {
	if m.Role != "user" && m.Role != "assistant" {
		return nil, unasked(jsonrpc.CodeInvalidParams, "messages[%d].role: must be user or assistant", at)
	}
	var segments []chat.Segment
	for _, piece := range m.Content {
		switch c := piece.(type) {
		case *sdk.TextContent:
			segments = append(segments, chat.Segment{Type: chat.Text, Text: c.Text})
		case *sdk.ImageContent:
			segments = append(segments, chat.Segment{Type: chat.Image, MIMEType: c.MIMEType, Data: base64.StdEncoding.EncodeToString(c.Data)})
		case *sdk.AudioContent:
			segments = append(segments, chat.Segment{Type: chat.Audio, MIMEType: c.MIMEType, Data: base64.StdEncoding.EncodeToString(c.Data)})
		default:
			return nil, unasked(jsonrpc.CodeInvalidParams, "messages[%d].content: must be text, image or audio", at)
		}
	}
	return segments, nil
}

// stopReasons are the MCP stop reasons of the bridge's finish reasons.
var stopReasons = map[string]string{string(chat.EndTurn): "endTurn", string(chat.MaxTokens): "maxTokens"}

// told converts the answer of a model for the server, and counts it.
func (a *inquiry) told(answer json.RawMessage) (*sdk.CreateMessageWithToolsResult, error) {
	var r struct {
		Result string `json:"result"`
		Tokens int    `json:"tokens_used"`
		Model  string `json:"model"`
		Finish string `json:"finish_reason"`
	}
	if err := json.Unmarshal(answer, &r); err != nil {
		return nil, unasked(codeFailed, "the answer cannot be read")
	}
	a.mu.Lock()
	a.sampled.Requests++
	a.sampled.Tokens += r.Tokens
	a.mu.Unlock()
	return &sdk.CreateMessageWithToolsResult{
		Role: "assistant", Model: r.Model, StopReason: stopReasons[r.Finish], Content: []sdk.Content{&sdk.TextContent{Text: r.Result}},
	}, nil
}

// summary returns the counts of questions and forms, nil and 0 for none.
func (a *inquiry) summary() (*Sampled, int) {
	if a == nil {
		return nil, 0
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.sampled.Requests == 0 && a.sampled.Refused == 0 {
		return nil, a.forms
	}
	s := a.sampled
	return &s, a.forms
}
