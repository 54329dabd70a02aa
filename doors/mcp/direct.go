package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/llm/tools"
	"github.com/aibridge/aibridge/protocol"
)

// serveDirect answers a plain call of a tool without the SDK, whose overhead exceeds
// the time of the device, and reports whether it did. A plain call needs one answer and
// no message before it. Faulty and unusual requests are left to the SDK.
func (d *Door) serveDirect(w http.ResponseWriter, r *http.Request, who *protocol.Principal, m *message, sessionless bool) bool {
	if m.Method == cancelledMethod {
		d.calls.cancel(r.Header.Get(sessionHeader), idOf(m.Params.RequestID)) // the SDK knows only of calls that it runs
		return false
	}
	if m.Method == levelMethod && !sessionless {
		d.sessions.wantsLog(r.Header.Get(sessionHeader), who) // the SDK knows the level
		return false
	}
	if !m.plain() || !acceptsJSON(r.Header) || len(r.Header["Last-Event-Id"]) > 0 {
		return false
	}
	env := tools.Environment{Principal: who, Space: who.Home(), Depth: depthOf(m.Params.Meta.Depth), Held: heldFor(m.Params.Meta.Wait)}
	trace(&env, r.Header, m.Params.Meta.Traceparent)
	ctx := r.Context()
	var session *session
	if sessionless {
		if !m.headed(r.Header) {
			return false
		}
	} else {
		session = d.sessions.use(r.Header.Get(sessionHeader), who, d.opts.Idle/4)
		if session == nil || !known(r.Header.Get(versionHeader)) {
			return false
		}
		env.Session = session.ID()
		var done func() // a client that hangs up has not cancelled its call
		if ctx, done = d.outlive(ctx); done == nil {
			return false
		}
		defer done()
	}
	if session != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		defer cancel()
		key := env.Session + "\x00" + m.text()
		if !d.calls.enter(key, cancel) {
			writeRPCError(w, http.StatusBadRequest, m.id, jsonrpc.CodeInvalidRequest, "a call with this id is under way", nil)
			return true
		}
		defer d.calls.leave(key)
	}
	if session != nil && session.logs.Load() {
		ctx = tools.WithLog(ctx, func(l tools.Log) {
			_ = session.Log(context.WithoutCancel(ctx), &sdk.LoggingMessageParams{Level: sdk.LoggingLevel(l.Level), Logger: cmp.Or(l.Logger, m.Params.Name), Data: l.Text})
		})
	}
	asks := asker{env: env, console: d.consoleOf(r)}
	if sessionless {
		asks.client = m.capabilities()
	} else {
		asks.inSession, asks.askedBack = formsOf(session.ServerSession), asksBack(session.ServerSession)
	}
	body, warning := d.direct(ctx, asks, m, sessionless)
	if body == nil { // the SDK knows how to ask within a session
		return false
	}
	if warning != "" && session != nil {
		_ = session.Log(context.WithoutCancel(ctx), &sdk.LoggingMessageParams{Level: "warning", Logger: m.Params.Name, Data: warning})
	}
	writeMessage(w, http.StatusOK, body)
	return true
}

// cancelledMethod is of the notification that a call is cancelled.
const cancelledMethod = "notifications/cancelled"

// plain reports whether a message is a call of a tool that needs nothing but
// its answer.
func (m *message) plain() bool {
	return m.Method == "tools/call" && m.Version == "2.0" && m.id.IsValid() && m.Params.Name != "" &&
		len(m.Params.Meta.Progress) == 0 && len(m.Params.Meta.LogLevel) == 0
}

// headed reports whether a message of a version without sessions has all required
// headers.
func (m *message) headed(h http.Header) bool {
	return known(m.Params.Meta.Version) && h.Get(versionHeader) == m.Params.Meta.Version &&
		h.Get("Mcp-Method") == m.Method && h.Get(nameHeader) == m.Params.Name && m.introduced()
}

// introduced reports whether a message has the required data about its client.
func (m *message) introduced() bool {
	meta := &m.Params.Meta
	return isObject(meta.Capabilities) && (len(meta.Client) == 0 || isObject(meta.Client))
}

func isObject(text []byte) bool { return len(text) > 0 && text[0] == '{' }

var versions = sdk.SupportedProtocolVersions()

func known(version string) bool { return slices.Contains(versions, version) }

// acceptsJSON reports whether the Accept header has a common form with both kinds of
// answers, which clients must accept.
func acceptsJSON(h http.Header) bool {
	accept := h.Get("Accept")
	return accept == "application/json, text/event-stream" || accept == "text/event-stream, application/json" || accept == "*/*"
}

// direct runs a call and returns the message with its answer, and the changes of the
// arguments. The message is nil if the client must be asked within its session first.
func (d *Door) direct(ctx context.Context, who asker, m *message, sessionless bool) (body []byte, warning string) {
	var result tools.Result
	var task *Task
	switch box, tool, err := d.find(ctx, who.env, m.Params.Name); {
	case protocol.CodeOf(err) == protocol.PermissionDenied:
		result = *refused(m.Params.Name, err)
	case err != nil:
		return answerError(m, err), ""
	default:
		if tool.Asks && who.askedBack {
			return nil, ""
		}
		call := toolCall(tool.Name, json.RawMessage(m.Params.Arguments))
		if sessionless && m.Params.State != "" {
			return d.round(ctx, box, who, call, m)
		}
		if l := who.lacking(tool, call); l != nil {
			action, content, ok := said(m.Params.Responses)
			switch {
			case who.inSession:
				return nil, ""
			case !ok:
				return rpcResult(m.id, d.asked(l)), ""
			}
			var not *tools.Result
			if call, not = l.filled(call, action, content); not != nil {
				result = *not
				break
			}
		}
		if sessionless && who.asksIn(tool) {
			return d.round(ctx, box, who, call, m)
		}
		result, task = d.run(ctx, box, who, call)
	}
	if task != nil {
		return rpcResult(m.id, d.handOver(task, who)), ""
	}
	body, err := d.answer(m, &result, sessionless)
	if err != nil {
		return answerError(m, err), ""
	}
	return body, result.Warning
}

// round makes or continues a call whose client may be asked meanwhile, and returns the
// message with its answer, or with the questions to the client.
func (d *Door) round(ctx context.Context, box *tools.Toolbox, who asker, call *chat.ToolCall, m *message) (body []byte, warning string) {
	responses := make(map[string]json.RawMessage, len(m.Params.Responses))
	for key, value := range m.Params.Responses {
		responses[key] = json.RawMessage(value)
	}
	result, task, form, err := d.inRounds(ctx, box, who, call, m.Params.State, responses)
	switch {
	case err != nil:
		return answerError(m, err), ""
	case form != nil:
		return rpcResult(m.id, form), ""
	case task != nil:
		return rpcResult(m.id, d.handOver(task, who)), ""
	}
	if body, err = d.answer(m, &result, true); err != nil {
		return answerError(m, err), ""
	}
	return body, result.Warning
}

// answer is the message with the result of a call.
func (d *Door) answer(m *message, r *tools.Result, sessionless bool) ([]byte, error) {
	b := make([]byte, 0, 256+2*len(r.Text)+len(r.Output.Content))
	b = append(b, `{"jsonrpc":"2.0","id":`...)
	b = append(b, m.ID...)
	b = append(b, `,"result":{`...)
	if sessionless {
		b = append(b, `"resultType":"complete",`...)
	}
	if !r.Simple() {
		result := resultOf(r)
		if sessionless {
			if result.Meta == nil {
				result.Meta = sdk.Meta{}
			}
			result.Meta[sdk.MetaKeyServerInfo] = d.implementation
		}
		text, err := json.Marshal(result)
		if err != nil {
			return nil, err
		}
		return append(append(b, text[1:]...), '}'), nil // it has content at least
	}
	// Most results are a text, and perhaps an object.
	if sessionless {
		b = append(append(b, `"_meta":`...), d.identity...)
		b = append(b, ',')
	}
	b = append(b, `"content":[{"type":"text","text":`...)
	b = append(protocol.AppendString(b, r.Text), `}]`...)
	if object := structured(r); object != nil {
		b = append(append(b, `,"structuredContent":`...), object...)
	}
	return append(b, `}}`...), nil
}

// answerError is the message with an error.
func answerError(m *message, err error) []byte {
	wire := new(jsonrpc.Error)
	errors.As(wireError(err), &wire)
	return rpcError(m.id, wire.Code, wire.Message, wire.Data)
}

// outlive returns a context that survives the end of a request's connection, but not
// that of its credential or of the bridge. It returns nil if one of these has ended
// already.
func (d *Door) outlive(ctx context.Context) (context.Context, func()) {
	r := requestOf(ctx)
	if r == nil {
		return nil, nil
	}
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	if !r.onEnd(cancel) {
		cancel()
		return nil, nil
	}
	return longer, cancel
}
