package servers

import (
	"context"
	"encoding/json"
	"slices"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/telemetry/semconv"
	"github.com/aibridge/aibridge/protocol"
)

var promptGet = commands.Spec{
	Name:    "mcp.prompt.get",
	Summary: "Get an approved prompt of an external MCP server.",
	Effect:  commands.Act,
	Traced:  true,
	Action:  "mcp:prompt.get",
	Errors: []protocol.Code{
		protocol.NotFound, protocol.TargetUnavailable, protocol.TimedOut, protocol.Cancelled, protocol.PayloadTooLarge,
	},
	Example: `{"server":"files","prompt":"summarize","arguments":{"path":"notes.txt"}}`,
}

// PromptParams are the params of mcp.prompt.get.
type PromptParams struct {
	Server    string          `json:"server" len:"1-32" doc:"the server"`
	Prompt    string          `json:"prompt" len:"1-256" doc:"the prompt, as the server calls it; it must be approved"`
	Arguments json.RawMessage `json:"arguments,omitempty" type:"object" default:"{}" doc:"values for the prompt: a text for each argument"`
}

// Target implements [commands.Targeter].
func (p PromptParams) Target() commands.Resource { return resource(p.Server) }

// PromptResult is the result of mcp.prompt.get.
type PromptResult struct {
	Server      string          `json:"server" doc:"name of the server, as it is configured"`
	Prompt      string          `json:"prompt" doc:"as the server calls it"`
	Description string          `json:"description,omitempty" doc:"description by the server, marked as data"`
	Messages    []PromptMessage `json:"messages" doc:"messages that the prompt puts before a model, in its order"`
	Untrusted   bool            `json:"untrusted" doc:"always true: the texts are the server's"`
}

// A PromptMessage is one message of a prompt.
type PromptMessage struct {
	Role    string  `json:"role" enum:"user,assistant" doc:"role of the author"`
	Content Content `json:"content" doc:"the message"`
}

// Prompt gets a prompt.
func (s *Service) Prompt(ctx context.Context, call *commands.Call, p PromptParams) (PromptResult, error) {
	l, err := s.connected(call.Principal, p.Server)
	if err != nil {
		return PromptResult{}, err
	}
	if !slices.ContainsFunc(l.open().prompts, func(one listed[sdk.Prompt]) bool { return one.key == p.Prompt }) {
		return PromptResult{}, protocol.Errorf(protocol.NotFound, "the server has no approved prompt %.100q", p.Prompt).With("server", p.Server)
	}
	var arguments map[string]string
	if len(p.Arguments) > 0 && json.Unmarshal(p.Arguments, &arguments) != nil {
		return PromptResult{}, protocol.InvalidParam("arguments", "must be an object with a text for each argument")
	}
	var answer *sdk.GetPromptResult
	err = l.ask(ctx, call, errand{"prompts/get", semconv.MCPPrompt.String(p.Prompt)}, nil, func(ctx context.Context, session *sdk.ClientSession, meta sdk.Meta) (failed error) {
		answer, failed = session.GetPrompt(ctx, &sdk.GetPromptParams{Meta: meta, Name: p.Prompt, Arguments: arguments})
		return failed
	})
	if err != nil {
		return PromptResult{}, l.unread(ctx, err)
	}
	result := PromptResult{Server: p.Server, Prompt: p.Prompt, Description: l.marked("", answer.Description), Messages: []PromptMessage{}, Untrusted: true}
	left := maxRead
	for _, m := range answer.Messages {
		if m == nil {
			continue
		}
		c, ok := contentOf(m.Content)
		if !ok {
			continue
		}
		if left -= len(c.Text) + len(c.Data); left < 0 || len(result.Messages) == maxContents {
			return PromptResult{}, l.tooMuch("prompt")
		}
		role := "user"
		if m.Role == "assistant" {
			role = "assistant"
		}
		result.Messages = append(result.Messages, PromptMessage{role, c})
	}
	return result, nil
}
