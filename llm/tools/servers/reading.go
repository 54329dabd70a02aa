package servers

import (
	"context"
	"errors"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/llm/tools"
	"github.com/aibridge/aibridge/protocol"
)

// URIPrefix begins the URIs by which clients of the bridge know resources of
// servers: then comes the server, a slash, and the URI that the server gave.
const URIPrefix = "mcp:///"

// PublicURI is the URI of a server's URI for clients of the bridge.
func PublicURI(server, uri string) string { return URIPrefix + server + "/" + uri }

// PromptOf takes the name apart by which clients of the bridge know a prompt.
func PromptOf(name string) (server, prompt string, ok bool) {
	rest, ours := strings.CutPrefix(name, prefix)
	server, prompt, ok = strings.Cut(rest, ".")
	return server, prompt, ok && ours && prompt != ""
}

// Bounds of one reading.
const (
	maxRead     = 4 << 20 // bytes of text and data
	maxContents = 256
)

// codeNotFound is the code of servers of versions before 2026-07-28 for a resource
// that is not there.
const codeNotFound = -32002

// ask asks the server on behalf of a call, which hears what it says meanwhile. With a
// inquiry, which the server may ask models by, it does so in a session of the call's own.
func (l *connection) ask(ctx context.Context, call *commands.Call, e errand, a *inquiry, do func(context.Context, *sdk.ClientSession, sdk.Meta) error) error {
	session, err := l.current()
	if err != nil {
		return err
	}
	token := protocol.NewID()
	meta := sdk.Meta{"progressToken": token, sdk.MetaKeyLogLevel: logLevel} // servers without sessions are told the level with every call
	if call.Depth > 0 {
		meta[depthKey] = call.Depth
	}
	defer l.follow(token, &underway{call.Principal.Party(), call.Emit})()
	return call.Park(ctx, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, l.config.timeout())
		defer cancel()
		if a != nil {
			a.ctx = ctx
			own, end, err := l.own(ctx, call, a)
			if err != nil {
				return err
			}
			defer end()
			session = own
		}
		ctx, end := l.startSpan(ctx, e, session, meta)
		err := do(ctx, session, meta)
		end(err)
		return err
	})
}

// unread says what it means to the caller that something could not be read.
func (l *connection) unread(ctx context.Context, err error) error {
	refused := new(jsonrpc.Error)
	switch {
	case errors.As(err, &refused) && (refused.Code == codeNotFound || refused.Code == sdk.CodeResourceNotFound):
		return protocol.Errorf(protocol.NotFound, "the MCP server has no such thing, or wants other arguments: %s", short(refused.Message, 1024)).With("server", l.config.Name)
	case errors.Is(err, context.DeadlineExceeded):
		return protocol.Errorf(protocol.TimedOut, "the MCP server did not answer in time").With("server", l.config.Name)
	}
	err = l.explain(ctx, err)
	if protocol.CodeOf(err) == protocol.OutcomeUnknown { // reading has none
		return protocol.Wrap(protocol.TargetUnavailable, err, "the connection to the MCP server broke").With("server", l.config.Name)
	}
	return err
}

// tooMuch refuses more than is passed on.
func (l *connection) tooMuch(what string) error {
	return protocol.Errorf(protocol.PayloadTooLarge, "the MCP server's %s is too large: up to %d bytes in %d pieces are passed on", what, maxRead, maxContents).
		With("server", l.config.Name).With("limit", maxRead)
}

// marked is a stranger's text as a reader gets it: data, and no instruction.
func (l *connection) marked(title, description string) string {
	if title == "" && description == "" {
		return ""
	}
	d := tools.Declaration{Title: title, Description: description, Untrusted: true, Source: sourcePrefix + l.config.Name}
	return d.Told()
}

// plain is at most n bytes of a name, on one line and without hidden characters.
func plain(name string, n int) string {
	return short(strings.Join(strings.Fields(strings.Map(func(r rune) rune {
		if protocol.Hidden(r) {
			return -1
		}
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(name, ""))), " "), n)
}
