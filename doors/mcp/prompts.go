package mcp

import (
	"context"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/aibridge/aibridge/llm/tools"
)

func (d *Door) listPrompts(ctx context.Context, env tools.Environment, r *sdk.ListPromptsRequest) (*sdk.ListPromptsResult, error) {
	all, err := d.promptsOf(ctx, env)
	if err != nil {
		return nil, err
	}
	cursor := ""
	if r.Params != nil {
		cursor = r.Params.Cursor
	}
	some, next, err := page(all, func(p Prompt) string { return p.Name }, cursor, d.opts.PageSize)
	if err != nil {
		return nil, err
	}
	result := &sdk.ListPromptsResult{Prompts: make([]*sdk.Prompt, 0, len(some)), NextCursor: next}
	result.CacheScope = "private"
	for _, p := range some {
		result.Prompts = append(result.Prompts, describePrompt(&p))
	}
	return result, nil
}

// describePrompt is a prompt as clients see it.
func describePrompt(p *Prompt) *sdk.Prompt {
	described := &sdk.Prompt{Name: p.Name, Title: p.Title, Description: bounded(p.Description, maxDescription), Meta: sourceMeta(p.Source)}
	for _, a := range p.Arguments {
		described.Arguments = append(described.Arguments, &sdk.PromptArgument{Name: a.Name, Description: bounded(a.Description, maxDescription), Required: a.Required})
	}
	return described
}

func (d *Door) getPrompt(ctx context.Context, env tools.Environment, r *sdk.GetPromptRequest) (*sdk.GetPromptResult, error) {
	if name := r.Params.Name; among(d.opts.Foreign.Prompts(ctx, env), name) {
		return d.getForeign(ctx, env, name, r.Params.Arguments)
	}
	p, text, err := d.opts.Prompts.Text(ctx, env, r.Params.Name, r.Params.Arguments)
	if err != nil {
		return nil, err
	}
	return &sdk.GetPromptResult{
		Description: bounded(p.Description, maxDescription),
		Messages:    []*sdk.PromptMessage{{Role: "user", Content: &sdk.TextContent{Text: text}}},
	}, nil
}
