package offer

import (
	"context"
	"strings"

	mcpdoor "github.com/aibridge/aibridge/doors/mcp"
	"github.com/aibridge/aibridge/llm/tools"
	"github.com/aibridge/aibridge/llm/tools/servers"
	"github.com/aibridge/aibridge/protocol"
)

// foreign has the resources and prompts of other MCP servers, for clients of the
// bridge's own. They are read by commands.
type foreign struct{ *Options }

// foreignSource is the source of a foreign item for clients.
func foreignSource(server string) string { return "mcp:" + server }

// Owns implements [mcpdoor.Foreign].
func (foreign) Owns(uri string) bool { return strings.HasPrefix(uri, servers.URIPrefix) }

// Resources implements [mcpdoor.Foreign].
func (m foreign) Resources(ctx context.Context, env tools.Environment) []mcpdoor.Resource {
	all, _ := m.Servers.Readable(ctx, env.Principal)
	some := make([]mcpdoor.Resource, len(all))
	for i := range all {
		v := &all[i]
		some[i] = mcpdoor.Resource{
			URI: v.PublicURI(), Name: v.Server + "." + v.Name, Description: v.Description, MIMEType: v.MIMEType, Size: v.Size,
			Source: foreignSource(v.Server),
		}
	}
	return some
}

// Templates implements [mcpdoor.Foreign].
func (m foreign) Templates(ctx context.Context, env tools.Environment) []mcpdoor.Template {
	_, all := m.Servers.Readable(ctx, env.Principal)
	some := make([]mcpdoor.Template, len(all))
	for i, v := range all {
		some[i] = mcpdoor.Template{
			URI: servers.PublicURI(v.Server, v.URITemplate), Name: v.Server + "." + v.Name, Description: v.Description, MIMEType: v.MIMEType,
			Source: foreignSource(v.Server),
		}
	}
	return some
}

// Read implements [mcpdoor.Foreign].
func (m foreign) Read(ctx context.Context, env tools.Environment, uri string) ([]tools.Piece, error) {
	server, theirs, err := theirsOf(uri)
	if err != nil {
		return nil, err
	}
	var read servers.ReadResult
	if err := m.ask(ctx, env, "mcp.resource.read", servers.ReadParams{Server: server, URI: theirs}, &read); err != nil {
		return nil, err
	}
	pieces := make([]tools.Piece, len(read.Contents))
	for i := range read.Contents {
		pieces[i] = read.Contents[i].Piece()
		pieces[i].URI = servers.PublicURI(server, pieces[i].URI)
	}
	return pieces, nil
}

// Prompts implements [mcpdoor.Foreign].
func (m foreign) Prompts(ctx context.Context, env tools.Environment) []mcpdoor.Prompt {
	all := m.Servers.Gettable(ctx, env.Principal)
	some := make([]mcpdoor.Prompt, len(all))
	for i := range all {
		v := &all[i]
		some[i] = mcpdoor.Prompt{Name: v.PublicName(), Title: v.Title, Description: v.Description, Source: foreignSource(v.Server)}
		for _, a := range v.Arguments {
			some[i].Arguments = append(some[i].Arguments, mcpdoor.Argument(a))
		}
	}
	return some
}

// Prompt implements [mcpdoor.Foreign].
func (m foreign) Prompt(ctx context.Context, env tools.Environment, name string, arguments map[string]string) (string, []mcpdoor.PromptMessage, error) {
	server, prompt, ok := servers.PromptOf(name)
	if !ok {
		return "", nil, protocol.Errorf(protocol.NotFound, "there is no such prompt")
	}
	params := map[string]any{"server": server, "prompt": prompt}
	if len(arguments) > 0 {
		params["arguments"] = arguments
	}
	var got servers.PromptResult
	if err := m.ask(ctx, env, "mcp.prompt.get", params, &got); err != nil {
		return "", nil, err
	}
	messages := make([]mcpdoor.PromptMessage, len(got.Messages))
	for i := range got.Messages {
		messages[i] = mcpdoor.PromptMessage{Role: got.Messages[i].Role, Piece: got.Messages[i].Content.Piece()}
	}
	return got.Description, messages, nil
}

// MayFollow implements [mcpdoor.Foreign].
func (m foreign) MayFollow(ctx context.Context, env tools.Environment, uri string) error {
	server, theirs, err := theirsOf(uri)
	if err != nil {
		return err
	}
	return m.Servers.MayFollow(ctx, env.Principal, server, theirs)
}

// Follow implements [mcpdoor.Foreign].
func (m foreign) Follow(ctx context.Context, env tools.Environment, uri string) (stop func(), err error) {
	server, theirs, err := theirsOf(uri)
	if err != nil {
		return nil, err
	}
	return m.Servers.Follow(ctx, env.Principal, server, theirs)
}

// theirsOf takes the public URI of a resource, or of a template, apart.
func theirsOf(uri string) (server, theirs string, err error) {
	server, theirs, ok := strings.Cut(strings.TrimPrefix(uri, servers.URIPrefix), "/")
	if !ok || server == "" || theirs == "" {
		return "", "", protocol.Errorf(protocol.NotFound, "there is no such resource")
	}
	return server, theirs, nil
}

// Complete implements [mcpdoor.Foreign].
func (m foreign) Complete(ctx context.Context, env tools.Environment, prompt, template, argument, typed string, given map[string]string, limit int) (values []string, more bool, err error) {
	p := servers.CompleteParams{Argument: argument, Value: typed, Given: given}
	if template != "" {
		p.Server, p.Template, err = theirsOf(template)
	} else {
		p.Server, p.Prompt, _ = servers.PromptOf(prompt)
	}
	if err != nil {
		return nil, false, err
	}
	var got servers.CompleteResult
	if err := m.ask(ctx, env, "mcp.argument.complete", p, &got); err != nil {
		return nil, false, err
	}
	return got.Values[:min(len(got.Values), limit)], got.More || len(got.Values) > limit, nil
}

// Shown implements [mcpdoor.Foreign].
func (m foreign) Shown(ctx context.Context, env tools.Environment) string {
	return m.Servers.Shown(ctx, env.Principal)
}
