package mcp

import (
	"context"
	"encoding/base64"
	"errors"
	"slices"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/aibridge/aibridge/llm/tools"
	"github.com/aibridge/aibridge/protocol"
)

// Foreign gives access to the resources and prompts of other MCP servers, for
// principals that may read them there. Its names and URIs differ from the bridge's own
// by their prefixes.
type Foreign interface {
	// Owns reports whether a URI is that of a foreign resource.
	Owns(uri string) bool
	// Resources are in the order of their URIs.
	Resources(ctx context.Context, env tools.Environment) []Resource
	Templates(ctx context.Context, env tools.Environment) []Template
	// Read fails with 3001 for a resource that does not exist or that the principal may
	// not read.
	Read(ctx context.Context, env tools.Environment, uri string) ([]tools.Piece, error)
	// Prompts are in the order of their names.
	Prompts(ctx context.Context, env tools.Environment) []Prompt
	// Prompt fails with 3001 for a prompt that does not exist or that the principal may
	// not get.
	Prompt(ctx context.Context, env tools.Environment, name string, arguments map[string]string) (string, []PromptMessage, error)
	// MayFollow returns the error of a principal that may not follow a resource.
	MayFollow(ctx context.Context, env tools.Environment, uri string) error
	// Follow subscribes to changes of a resource at its server, which go to
	// [Door.Touch], until stop is called.
	Follow(ctx context.Context, env tools.Environment, uri string) (stop func(), err error)
	// Complete proposes values for an argument of a prompt, by its name, or of a
	// template of resources, as [Completions] do.
	Complete(ctx context.Context, env tools.Environment, prompt, template, argument, typed string, given map[string]string, limit int) (values []string, more bool, err error)
	// Shown changes whenever the foreign resources and prompts of the principal change.
	Shown(ctx context.Context, env tools.Environment) string
}

// A PromptMessage is one message of a prompt of another server.
type PromptMessage struct {
	Role  string // user or assistant
	Piece tools.Piece
}

// nothing is the [Foreign] of a bridge without other servers.
type nothing struct{}

func (nothing) Owns(string) bool                                        { return false }
func (nothing) Resources(context.Context, tools.Environment) []Resource { return nil }
func (nothing) Templates(context.Context, tools.Environment) []Template { return nil }
func (nothing) Prompts(context.Context, tools.Environment) []Prompt     { return nil }
func (nothing) Shown(context.Context, tools.Environment) string         { return "" }

func (nothing) MayFollow(context.Context, tools.Environment, string) error {
	return protocol.Errorf(protocol.NotFound, "there is no such resource")
}

func (nothing) Follow(context.Context, tools.Environment, string) (func(), error) {
	return nil, protocol.Errorf(protocol.NotFound, "there is no such resource")
}

func (nothing) Complete(context.Context, tools.Environment, string, string, string, string, map[string]string, int) ([]string, bool, error) {
	return nil, false, nil
}

func (nothing) Read(context.Context, tools.Environment, string) ([]tools.Piece, error) {
	return nil, protocol.Errorf(protocol.NotFound, "there is no such resource")
}

func (nothing) Prompt(context.Context, tools.Environment, string, map[string]string) (string, []PromptMessage, error) {
	return "", nil, protocol.Errorf(protocol.NotFound, "there is no such prompt")
}

// foreignCursor begins cursors within the resources of other servers. No cursor
// of the bridge's own resources has a dot.
const foreignCursor = "foreign."

// resourcePage returns a page of resources: the bridge's own, and then those of other
// servers.
func (d *Door) resourcePage(ctx context.Context, env tools.Environment, cursor string) (some []Resource, next string, err error) {
	within, beyond := strings.CutPrefix(cursor, foreignCursor)
	if !beyond {
		if some, next, err = d.opts.Resources.List(ctx, env, cursor, d.opts.PageSize); err != nil || next != "" {
			return some, next, err
		}
	}
	others := d.opts.Foreign.Resources(ctx, env)
	left := d.opts.PageSize - len(some)
	if left <= 0 && len(others) > 0 {
		return some, foreignCursor, nil
	}
	more, next, err := page(others, func(r Resource) string { return r.URI }, within, left)
	if next != "" {
		next = foreignCursor + next
	}
	return append(some, more...), next, err
}

// readForeign reads a resource of another server.
func (d *Door) readForeign(ctx context.Context, env tools.Environment, uri string) (*sdk.ReadResourceResult, error) {
	pieces, err := d.opts.Foreign.Read(ctx, env, uri)
	if known := new(protocol.Error); errors.As(err, &known) && known.Code == protocol.NotFound {
		return nil, sdk.ResourceNotFoundError(bounded(uri, 1024))
	}
	if err != nil {
		return nil, err
	}
	result := &sdk.ReadResourceResult{Contents: make([]*sdk.ResourceContents, 0, len(pieces))}
	result.CacheScope = "private"
	for i := range pieces {
		contents := contentsOf(&pieces[i])
		contents.Meta = sdk.Meta{untrustedKey: true}
		result.Contents = append(result.Contents, contents)
	}
	return result, nil
}

// contentsOf is a piece with the contents of a resource.
func contentsOf(p *tools.Piece) *sdk.ResourceContents {
	contents := &sdk.ResourceContents{URI: p.URI, MIMEType: p.MIMEType, Text: p.Text}
	if blob, err := base64.StdEncoding.DecodeString(p.Data); err == nil && len(blob) > 0 {
		contents.Text, contents.Blob = "", blob
	}
	return contents
}

// promptsOf returns the bridge's own prompts and those of other servers, sorted by
// name. Of two with the same name that of the other server counts.
func (d *Door) promptsOf(ctx context.Context, env tools.Environment) ([]Prompt, error) {
	own, err := d.opts.Prompts.List(ctx, env)
	if err != nil {
		return nil, err
	}
	others := d.opts.Foreign.Prompts(ctx, env)
	both := slices.Clone(others)
	for _, p := range own {
		if !among(others, p.Name) {
			both = append(both, p)
		}
	}
	slices.SortFunc(both, func(x, y Prompt) int { return strings.Compare(x.Name, y.Name) })
	return both, nil
}

// among reports whether sorted prompts include a name.
func among(prompts []Prompt, name string) bool {
	_, found := slices.BinarySearchFunc(prompts, name, func(p Prompt, name string) int { return strings.Compare(p.Name, name) })
	return found
}

// getForeign gets a prompt of another server.
func (d *Door) getForeign(ctx context.Context, env tools.Environment, name string, arguments map[string]string) (*sdk.GetPromptResult, error) {
	description, messages, err := d.opts.Foreign.Prompt(ctx, env, name, arguments)
	if err != nil {
		return nil, err
	}
	result := &sdk.GetPromptResult{
		Meta:        sdk.Meta{untrustedKey: true},
		Description: bounded(description, maxDescription),
		Messages:    make([]*sdk.PromptMessage, 0, len(messages)),
	}
	for i := range messages {
		result.Messages = append(result.Messages, &sdk.PromptMessage{Role: sdk.Role(messages[i].Role), Content: pieceOf(&messages[i].Piece)})
	}
	return result, nil
}
