package mcp

import (
	"context"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/aibridge/aibridge/llm/tools"
	"github.com/aibridge/aibridge/protocol"
)

// maxCompletions is the greatest number of values of a completion, by the protocol:
// https://modelcontextprotocol.io/specification/2025-11-25/server/utilities/completion.
const maxCompletions = 100

// Completions proposes values for the arguments of the bridge's own templates of
// resources, among those that the environment's principal may see.
type Completions interface {
	// Complete returns at most limit values that begin with the typed text, in order,
	// and reports whether there are more. Given holds the arguments that are known
	// already.
	Complete(ctx context.Context, env tools.Environment, template, argument, typed string, given map[string]string, limit int) (values []string, more bool, err error)
}

// complete proposes values for an argument.
func (d *Door) complete(ctx context.Context, env tools.Environment, r *sdk.CompleteRequest) (*sdk.CompleteResult, error) {
	p := r.Params
	if p == nil || p.Ref == nil || p.Argument.Name == "" {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "ref and argument.name are needed"}
	}
	var given map[string]string
	if p.Context != nil {
		given = p.Context.Arguments
	}
	var values []string
	var more bool
	var err error
	switch prompt := p.Ref.Type == "ref/prompt"; {
	case prompt && among(d.opts.Foreign.Prompts(ctx, env), p.Ref.Name), !prompt && d.opts.Foreign.Owns(p.Ref.URI):
		values, more, err = d.opts.Foreign.Complete(ctx, env, p.Ref.Name, p.Ref.URI, p.Argument.Name, p.Argument.Value, given, maxCompletions)
	case prompt:
		values, more, err = d.completePrompt(ctx, env, p.Ref.Name, p.Argument)
	default:
		values, more, err = d.opts.Completions.Complete(ctx, env, p.Ref.URI, p.Argument.Name, p.Argument.Value, given, maxCompletions)
	}
	if err != nil {
		return nil, err
	}
	result := &sdk.CompleteResult{Completion: sdk.CompletionResultDetails{Values: []string{}}}
	result.Completion.Values = append(result.Completion.Values, values...)
	result.Completion.HasMore = more
	return result, nil
}

// completePrompt proposes values for an argument of a prompt of the bridge itself.
func (d *Door) completePrompt(ctx context.Context, env tools.Environment, name string, argument sdk.CompleteParamsArgument) (values []string, more bool, err error) {
	if d.opts.Prompts != nil {
		values, more, err = d.opts.Prompts.Complete(ctx, env, name, argument.Name, argument.Value, maxCompletions)
	}
	if d.opts.Prompts == nil || protocol.CodeOf(err) == protocol.NotFound {
		return nil, false, protocol.InvalidParam("ref.name", "is no prompt of yours")
	}
	return values, more, err
}
