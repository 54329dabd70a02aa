package servers

import (
	"context"
	"slices"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/telemetry/semconv"
	"github.com/aibridge/aibridge/protocol"
)

var argumentComplete = commands.Spec{
	Name:    "mcp.argument.complete",
	Summary: "Have an external MCP server propose values for an argument of a prompt, or of a template of resources.",
	Effect:  commands.Read,
	Traced:  true,
	Action:  "mcp:argument.complete",
	Errors:  []protocol.Code{protocol.NotFound, protocol.TargetUnavailable, protocol.TimedOut, protocol.Cancelled},
	Example: `{"server":"files","prompt":"summarize","argument":"path","value":"no"}`,
}

// CompleteParams are the params of mcp.argument.complete.
type CompleteParams struct {
	Server   string            `json:"server" len:"1-32" doc:"the server"`
	Prompt   string            `json:"prompt,omitempty" len:"1-256" doc:"the prompt, as the server calls it; it must be approved, and the caller may get it"`
	Template string            `json:"uri_template,omitempty" len:"1-2048" doc:"or the template of resources, as the server gives it; it must be approved, and the caller may read there"`
	Argument string            `json:"argument" len:"1-256" doc:"name of the argument"`
	Value    string            `json:"value,omitempty" len:"0-2048" doc:"text typed so far"`
	Given    map[string]string `json:"given,omitempty" doc:"the arguments that are known already"`
}

// Target implements [commands.Targeter].
func (p CompleteParams) Target() commands.Resource { return resource(p.Server) }

// CompleteResult is the result of mcp.argument.complete.
type CompleteResult struct {
	Server    string   `json:"server" doc:"name of the server, as it is configured"`
	Values    []string `json:"values" doc:"proposals of the server, in its order: at most 100, each one line of at most 256 bytes"`
	More      bool     `json:"more,omitempty" doc:"the server has more"`
	Untrusted bool     `json:"untrusted" doc:"always true: the texts are the server's"`
}

// maxValues is the greatest number of proposed values, by the protocol.
const maxValues = 100

// Complete has a server propose values.
func (s *Service) Complete(ctx context.Context, call *commands.Call, p CompleteParams) (CompleteResult, error) {
	l, err := s.connected(call.Principal, p.Server)
	if err != nil {
		return CompleteResult{}, err
	}
	ref, err := l.completable(ctx, call.Principal, &p)
	if err != nil {
		return CompleteResult{}, err
	}
	result := CompleteResult{Server: p.Server, Values: []string{}, Untrusted: true}
	session, err := l.current()
	if err != nil {
		return result, err
	}
	if hello := session.InitializeResult(); hello == nil || hello.Capabilities == nil || hello.Capabilities.Completions == nil {
		return result, nil
	}
	params := &sdk.CompleteParams{Ref: ref, Argument: sdk.CompleteParamsArgument{Name: p.Argument, Value: p.Value}}
	if len(p.Given) > 0 {
		params.Context = &sdk.CompleteContext{Arguments: p.Given}
	}
	var answer *sdk.CompleteResult
	about := semconv.MCPPrompt.String(p.Prompt)
	if p.Template != "" {
		about = semconv.MCPResource.String(p.Template)
	}
	err = l.ask(ctx, call, errand{"completion/complete", about}, nil, func(ctx context.Context, session *sdk.ClientSession, meta sdk.Meta) (failed error) {
		params.Meta = meta
		answer, failed = session.Complete(ctx, params)
		return failed
	})
	if err != nil {
		return CompleteResult{}, l.unread(ctx, err)
	}
	result.More = answer.Completion.HasMore
	for _, v := range answer.Completion.Values {
		if len(result.Values) == maxValues {
			result.More = true
			break
		}
		if visible(v, maxName) { // a shortened value would be another one
			result.Values = append(result.Values, v)
		}
	}
	return result, nil
}

// completable is the reference to the prompt or template of the params, if the
// principal may use it.
func (l *connection) completable(ctx context.Context, who *protocol.Principal, p *CompleteParams) (*sdk.CompleteReference, error) {
	open := l.open()
	switch {
	case (p.Prompt == "") == (p.Template == ""):
		return nil, protocol.InvalidParam("prompt", "or uri_template is needed, and not both")
	case p.Prompt != "" && l.may(ctx, who, promptGet.Action) &&
		slices.ContainsFunc(open.prompts, func(one listed[sdk.Prompt]) bool { return one.key == p.Prompt }):
		return &sdk.CompleteReference{Type: "ref/prompt", Name: p.Prompt}, nil
	case p.Template != "" && l.may(ctx, who, resourceRead.Action) &&
		slices.ContainsFunc(open.templates, func(one listed[sdk.ResourceTemplate]) bool { return one.key == p.Template }):
		return &sdk.CompleteReference{Type: "ref/resource", URI: p.Template}, nil
	}
	return nil, protocol.Errorf(protocol.NotFound, "the server has no such approved prompt or template").With("server", p.Server)
}
