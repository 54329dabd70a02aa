package mcp

import (
	"context"
	"encoding/json"
	"net/http"
	"reflect"
	"runtime/debug"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"go.opentelemetry.io/otel/attribute"

	"github.com/aibridge/aibridge/internal/telemetry/semconv"
	"github.com/aibridge/aibridge/llm/tools"
	"github.com/aibridge/aibridge/protocol"
)

// features answers the requests that depend on the principal, in place of the SDK's
// server, which would offer the same to all principals.
func (d *Door) features(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (result sdk.Result, err error) {
		defer func() {
			if fault := recover(); fault != nil {
				d.opts.Log.ErrorContext(ctx, "an MCP request panicked", "method", method, "panic", fault, "stack", string(debug.Stack()))
				result, err = nil, wireError(protocol.Errorf(protocol.Internal, "internal error"))
			}
		}()
		who := caller(ctx, req.GetExtra())
		if opened, ok := req.GetSession().(*sdk.ServerSession); ok && method == initializeMethod && who != nil {
			if full := d.sessions.note(opened, who); full != nil {
				return nil, wireError(full) // a session that is not initialized ends with its request
			}
		}
		answer := d.feature(req, func(ctx context.Context) (sdk.Result, error) { return next(ctx, method, req) })
		if answer == nil {
			return next(ctx, method, req)
		}
		if who == nil {
			return nil, wireError(protocol.Errorf(protocol.NotAuthenticated, "the request has no known principal: send a credential"))
		}
		ctx, done := d.carried(ctx)
		defer done()
		result, err = answer(ctx, environment(who, req))
		if err != nil {
			return nil, wireError(err)
		}
		return finished(req, result), nil
	}
}

// An answer is the response to a request, with its recipient.
type answer func(context.Context, tools.Environment) (sdk.Result, error)

// feature is the answer to a request, nil for one that the SDK answers itself. Next is
// the answer of the SDK.
func (d *Door) feature(req sdk.Request, next func(context.Context) (sdk.Result, error)) answer {
	switch r := req.(type) {
	case *sdk.SubscribeRequest:
		if d.opts.Resources != nil && req.GetSession().ID() != "" {
			return func(ctx context.Context, env tools.Environment) (sdk.Result, error) {
				return d.subscribe(ctx, env, r, next)
			}
		}
	case *sdk.UnsubscribeRequest:
		return func(ctx context.Context, env tools.Environment) (sdk.Result, error) {
			d.guests.of(env.Principal).unfollow(r.Session, r.Params.URI)
			return next(ctx)
		}
	case *sdk.SubscriptionsListenRequest:
		return func(ctx context.Context, env tools.Environment) (sdk.Result, error) { return d.hear(ctx, env, r, next) }
	case *sdk.ListToolsRequest:
		return func(ctx context.Context, env tools.Environment) (sdk.Result, error) { return d.listTools(ctx, env, r) }
	case *sdk.CallToolRequest:
		return func(ctx context.Context, env tools.Environment) (sdk.Result, error) { return d.callTool(ctx, env, r) }
	case *sdk.ListResourcesRequest:
		if d.opts.Resources != nil {
			return func(ctx context.Context, env tools.Environment) (sdk.Result, error) {
				return d.listResources(ctx, env, r)
			}
		}
	case *sdk.ListResourceTemplatesRequest:
		if d.opts.Resources != nil {
			return func(ctx context.Context, env tools.Environment) (sdk.Result, error) {
				return d.listTemplates(ctx, env, r)
			}
		}
	case *sdk.ReadResourceRequest:
		if d.opts.Resources != nil {
			return func(ctx context.Context, env tools.Environment) (sdk.Result, error) {
				return d.readResource(ctx, env, r)
			}
		}
	case *sdk.CompleteRequest:
		if d.opts.Completions != nil {
			return func(ctx context.Context, env tools.Environment) (sdk.Result, error) { return d.complete(ctx, env, r) }
		}
	case *sdk.ListPromptsRequest:
		if d.opts.Prompts != nil {
			return func(ctx context.Context, env tools.Environment) (sdk.Result, error) {
				return d.listPrompts(ctx, env, r)
			}
		}
	case *sdk.GetPromptRequest:
		if d.opts.Prompts != nil {
			return func(ctx context.Context, env tools.Environment) (sdk.Result, error) { return d.getPrompt(ctx, env, r) }
		}
	}
	return nil
}

// A whole is a result marked as complete. Versions without sessions require the mark,
// and the SDK sets it only for results of its own features.
type whole struct{ sdk.Result }

// MarshalJSON implements [json.Marshaler].
func (w whole) MarshalJSON() ([]byte, error) {
	text, err := json.Marshal(w.Result)
	if err != nil {
		return nil, err
	}
	return append([]byte(`{"resultType":"complete",`), text[1:]...), nil // it has content, contents or messages at least
}

// finished returns a result in the form of the request's version.
func finished(req sdk.Request, result sdk.Result) sdk.Result {
	session, ok := req.GetSession().(*sdk.ServerSession)
	if !ok {
		return result
	}
	if hello := session.InitializeParams(); hello == nil || hello.ProtocolVersion < firstStateless {
		return result
	}
	switch result.(type) {
	case *handedOver:
		return result
	case *sdk.CallToolResult, *sdk.ReadResourceResult, *sdk.GetPromptResult, *sdk.CompleteResult:
		return whole{result}
	}
	return result // the SDK marks lists itself
}

// caller is the principal of a request: that of the HTTP request, or the sender of a
// message of another transport.
func caller(ctx context.Context, extra *sdk.RequestExtra) *protocol.Principal {
	if extra != nil && extra.TokenInfo != nil {
		who, _ := extra.TokenInfo.Extra[principalExtra].(*protocol.Principal)
		return who
	}
	return principalOf(ctx)
}

// environment returns the environment of tools for a request.
func environment(who *protocol.Principal, req sdk.Request) tools.Environment {
	env := tools.Environment{Principal: who, Space: who.Home()}
	if session := req.GetSession(); session != nil {
		env.Session = session.ID()
	}
	var header http.Header
	if extra := req.GetExtra(); extra != nil {
		header = extra.Header
	}
	parent := ""
	if params := req.GetParams(); params != nil && !reflect.ValueOf(params).IsNil() { // lists may come without any
		parent, _ = params.GetMeta()["traceparent"].(string)
		depth, _ := params.GetMeta()[depthKey].(float64)
		env.Depth = depthOf(depth)
		if wait, ok := params.GetMeta()[waitKey].(float64); ok {
			env.Held = heldFor(&wait)
		}
	}
	trace(&env, header, parent)
	return env
}

// waitKey is the key, in the _meta of a call, of the milliseconds that the call itself
// waits for an approval.
const waitKey = "aibridge/approval_wait_ms"

// heldFor is the time to wait for an approval, nil if the client has not set it.
func heldFor(ms *float64) *time.Duration {
	if ms == nil {
		return nil
	}
	held := time.Duration(min(max(*ms, 0), 600_000)) * time.Millisecond
	return &held
}

// depthKey is the key, in the _meta of a call between bridges, of the number of
// enclosing calls of tools, so that a cycle of calls ends.
const depthKey = "aibridge/depth"

// depthOf is the depth that a client claims. A client that claims too little gains
// nothing but a longer circle of their own bridges.
func depthOf(claimed float64) int {
	if !(claimed > 0) {
		return 0
	}
	return int(min(claimed, 1<<20))
}

// calledByMCP are the attributes in the spans of calls that come in here.
var calledByMCP = []attribute.KeyValue{semconv.MCPMethod.String("tools/call")}

// trace sets the trace of an environment from the headers or from the request itself
// (SEP-414).
func trace(env *tools.Environment, header http.Header, parent string) {
	if id := header.Get("X-Trace-Id"); isTraceID(id) { // an invalid one is ignored
		env.TraceID = id
	}
	env.Traced = calledByMCP
	if env.Traceparent = parent; parent == "" {
		env.Traceparent = header.Get("Traceparent")
	}
	if len(env.Traceparent) > 55 {
		env.Traceparent = ""
	}
}

// isTraceID reports whether commands take a text for a trace id.
func isTraceID(text string) bool {
	return utf8.ValidString(text) && utf8.RuneCountInString(text) <= protocol.MaxTraceLength && !strings.ContainsFunc(text, unicode.IsControl)
}
