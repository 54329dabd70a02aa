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

// URIPrefix is the prefix of the public URIs of servers' resources: the server, a slash
// and the server's URI follow.
const URIPrefix = "mcp:///"

// PublicURI is the URI of a server's resource for clients of the bridge.
func PublicURI(server, uri string) string { return URIPrefix + server + "/" + uri }

// PromptOf splits the public name of a prompt into the names of server and prompt.
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

// codeNotFound is the error code for an unknown resource in MCP versions before
// 2026-07-28.
const codeNotFound = -32002

// ask sends a request to the server on behalf of a call, which receives its progress
// and logs. With an inquiry, which answers requests of the server, it uses a session of
// the call's own.
func (l *connection) ask(ctx context.Context, call *commands.Call, e errand, a *inquiry, do func(context.Context, *sdk.ClientSession, sdk.Meta) error) error {
	session, err := l.current()
	if err != nil {
		return err
	}
	token := protocol.NewID()
	meta := sdk.Meta{"progressToken": token, sdk.MetaKeyLogLevel: logLevel} // servers without sessions get the level with every call
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

// unread is the error of a failed reading for its caller.
func (l *connection) unread(ctx context.Context, err error) error {
	refused := new(jsonrpc.Error)
	switch {
	case errors.As(err, &refused) && (refused.Code == codeNotFound || refused.Code == sdk.CodeResourceNotFound):
		return protocol.Errorf(protocol.NotFound, "the MCP server has no such thing, or wants other arguments: %s", short(refused.Message, 1024)).With("server", l.config.Name)
	case errors.Is(err, context.DeadlineExceeded):
		return protocol.Errorf(protocol.TimedOut, "the MCP server did not answer in time").With("server", l.config.Name)
	}
	err = l.explain(ctx, err)
	if protocol.CodeOf(err) == protocol.OutcomeUnknown { // a reading has no outcome to know
		return protocol.Wrap(protocol.TargetUnavailable, err, "the connection to the MCP server broke").With("server", l.config.Name)
	}
	return err
}

// tooMuch is the error of a result beyond the bounds.
func (l *connection) tooMuch(what string) error {
	return protocol.Errorf(protocol.PayloadTooLarge, "the MCP server's %s is too large: up to %d bytes in %d pieces are passed on", what, maxRead, maxContents).
		With("server", l.config.Name).With("limit", maxRead)
}

// marked is a text of the server for readers, marked as data and no instruction.
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
