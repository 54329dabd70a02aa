package mcp

import (
	"context"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/aibridge/aibridge/llm/tools"
)

// maxCompletions is how many values a completion has at most, as the protocol wants:
// https://modelcontextprotocol.io/specification/2025-11-25/server/utilities/completion.
const maxCompletions = 100

// Completions propose values for the arguments of the bridge's own templates of
// resources, of those that the environment's principal may see.
type Completions interface {
	// Complete yields at most limit values that begin with what is typed, in order, and
	// reports whether there are more. Given are the arguments that are known already.
	Complete(ctx context.Context, env tools.Environment, template, argument, typed string, given map[string]string, limit int) (values []string, more bool, err error)
}

// complete proposes values for an argument. Those of prompts, and of other servers'
// templates, have none.
func (d *Door) complete(ctx context.Context, env tools.Environment, r *sdk.CompleteRequest) (*sdk.CompleteResult, error) {
	p := r.Params
	if p == nil || p.Ref == nil || p.Argument.Name == "" {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "ref and argument.name are needed"}
	}
	result := &sdk.CompleteResult{Completion: sdk.CompletionResultDetails{Values: []string{}}}
	if p.Ref.Type != "ref/resource" || d.opts.Foreign.Owns(p.Ref.URI) {
		return result, nil
	}
	var given map[string]string
	if p.Context != nil {
		given = p.Context.Arguments
	}
	values, more, err := d.opts.Completions.Complete(ctx, env, p.Ref.URI, p.Argument.Name, p.Argument.Value, given, maxCompletions)
	if err != nil {
		return nil, err
	}
	result.Completion.Values = append(result.Completion.Values, values...)
	result.Completion.HasMore = more
	return result, nil
}
