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
// principals that may read them there. Its names and URIs are told from the
// bridge's own by how they begin.
type Foreign interface {
	// Owns reports whether a URI is one of its resources'.
	Owns(uri string) bool
	// Resources are in the order of their URIs.
	Resources(ctx context.Context, env tools.Environment) []Resource
	Templates(ctx context.Context, env tools.Environment) []Template
	// Read fails with 3001 for what is not there or not for the principal.
	Read(ctx context.Context, env tools.Environment, uri string) ([]tools.Piece, error)
	// Prompts are in the order of their names.
	Prompts(ctx context.Context, env tools.Environment) []Prompt
	// Prompt fails with 3001 for one that is not there or not for the
	// principal.
	Prompt(ctx context.Context, env tools.Environment, name string, arguments map[string]string) (string, []PromptMessage, error)
	// MayFollow says why a principal may not hear of changes of a resource, if it may
	// not.
	MayFollow(ctx context.Context, env tools.Environment, uri string) error
	// Follow has the server tell of changes of a resource, which go to [Door.Touch],
	// until stop is called.
	Follow(ctx context.Context, env tools.Environment, uri string) (stop func(), err error)
	// Complete proposes values for an argument of a prompt, by its name, or of a
	// template of resources, as [Completions] do.
	Complete(ctx context.Context, env tools.Environment, prompt, template, argument, typed string, given map[string]string, limit int) (values []string, more bool, err error)
	// Shown is the same only while all of this is the same for the principal.
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

// resourcePage is at most as many resources as go on a page: the bridge's own,
// and then those of other servers.
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

// promptsOf are the bridge's own prompts and those of other servers, in the
// order of their names. Of two with one name the other server's is meant.
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

// among reports whether a name is one of prompts in the order of their names.
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
