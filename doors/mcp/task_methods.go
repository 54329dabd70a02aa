package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/llm/tools"
	"github.com/aibridge/aibridge/protocol"
)

// An asker is the sender of a message, with the capabilities of its client.
type asker struct {
	env       tools.Environment
	client    capabilities
	inSession bool   // its client can show forms, in its session
	askedBack bool   // its client supports requests of a tool's worker
	progress  bool   // its client gets the progress of the call
	console   string // address of the console, "" if it is not known
}

// lacking is the part of a call that is missing and that its client can ask for.
func (a *asker) lacking(tool *tools.Tool, call *chat.ToolCall) *lacks {
	if !a.client.forms && !a.inSession {
		return nil
	}
	return lacking(tool, call)
}

// onTasks reports whether a message is about tasks.
func (m *message) onTasks() bool {
	switch m.Method {
	case taskGetMethod, taskUpdateMethod, taskCancelMethod:
		return true
	}
	return false
}

// asker returns the asker of a message.
func (d *Door) asker(who *protocol.Principal, m *message, r *http.Request) asker {
	env := tools.Environment{Principal: who, Space: who.Home(), Depth: depthOf(m.Params.Meta.Depth), Held: heldFor(m.Params.Meta.Wait)}
	var header http.Header
	if r != nil {
		header = r.Header
	}
	trace(&env, header, m.Params.Meta.Traceparent)
	return asker{env: env, client: m.capabilities(), console: d.consoleOf(r)}
}

// serveTasks answers an HTTP request about tasks, which the SDK does not support, and
// reports whether it is one.
func (d *Door) serveTasks(w http.ResponseWriter, r *http.Request, who *protocol.Principal, m *message) bool {
	if d.opts.Tasks == nil || !m.id.IsValid() || !m.onTasks() && (m.Method != listenMethod || m.Params.Notifications.TaskIDs == nil) {
		return false
	}
	if wrong := m.misheaded(r.Header); wrong != nil {
		writeRPCError(w, http.StatusBadRequest, m.id, wrong.Code, wrong.Message, nil)
		return true
	}
	if m.Method == listenMethod {
		d.serveListener(w, r, who, m)
		return true
	}
	result, err := d.onTask(r.Context(), d.asker(who, m, r), m)
	if err != nil {
		wire := new(jsonrpc.Error)
		errors.As(wireError(err), &wire)
		writeRPCError(w, statusOf(wire.Code), m.id, wire.Code, wire.Message, wire.Data)
		return true
	}
	writeMessage(w, http.StatusOK, rpcResult(m.id, taskResult(result)))
	return true
}

// statusOf is the status of HTTP that versions without sessions want for an
// error.
func statusOf(code int64) int {
	switch code {
	case jsonrpc.CodeMethodNotFound:
		return http.StatusNotFound
	case jsonrpc.CodeInvalidParams, sdk.CodeUnsupportedProtocolVersion, sdk.CodeMissingRequiredClientCapabilities:
		return http.StatusBadRequest
	}
	return http.StatusOK
}

// misheaded returns the error of a request without a required header, nil for none.
func (m *message) misheaded(h http.Header) *jsonrpc.Error {
	mismatch := func(header, of string) *jsonrpc.Error {
		return &jsonrpc.Error{Code: sdk.CodeHeaderMismatch, Message: "the header " + header + " must be the " + of + " of the message"}
	}
	switch {
	case !known(m.Params.Meta.Version):
		return &jsonrpc.Error{Code: sdk.CodeUnsupportedProtocolVersion, Message: "there is no such version of the protocol here"}
	case h.Get(versionHeader) != m.Params.Meta.Version:
		return mismatch(versionHeader, "version")
	case h.Get("Mcp-Method") != m.Method:
		return mismatch("Mcp-Method", "method")
	case m.onTasks() && h.Get(nameHeader) != m.Params.TaskID:
		return mismatch(nameHeader, "taskId")
	case !m.introduced():
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: `params._meta["io.modelcontextprotocol/clientCapabilities"] is missing`}
	}
	return nil
}

// onTask answers a message about one task.
func (d *Door) onTask(ctx context.Context, who asker, m *message) (*taskForm, error) {
	if !who.client.tasks {
		return nil, missingTasks()
	}
	id := protocol.TaskID(m.Params.TaskID)
	task, err := d.opts.Tasks.Get(ctx, who.env, id)
	if err != nil {
		return nil, err
	}
	switch m.Method {
	case taskGetMethod:
		form := d.form(task, who.client, who.console)
		form.ResultType, form.Meta = "complete", sdk.Meta{sdk.MetaKeyServerInfo: d.implementation}
		return form, nil
	case taskUpdateMethod:
		return nil, d.update(ctx, who, task, m.Params.Responses)
	default:
		return nil, d.opts.Tasks.Cancel(ctx, who.env, id)
	}
}

// An inputResponse is the answer of a user to an [inputRequest].
type inputResponse struct {
	Action  string `json:"action"`
	Content struct {
		Decision string `json:"decision"`
		Reason   string `json:"reason"`
		Answer   string `json:"answer"`
	} `json:"content"`
}

// update passes on the answers of users. Answers without an open question are ignored.
func (d *Door) update(ctx context.Context, who asker, t *Task, responses map[string]jsontext.Value) error {
	if responses == nil {
		return protocol.InvalidParam("inputResponses", "is missing")
	}
	for key := range d.form(t, who.client, who.console).Inputs {
		text, answered := responses[key]
		if !answered {
			continue
		}
		var r inputResponse
		if json.Unmarshal(text, &r) != nil || r.Action != "accept" && r.Action != "decline" && r.Action != "cancel" {
			return protocol.InvalidParam("inputResponses."+key, "must have an action, which is accept, decline or cancel, and the content that was asked for")
		}
		if err := d.said(ctx, who, t, key, &r); err != nil {
			return err
		}
	}
	return nil
}

// said passes on one answer.
func (d *Door) said(ctx context.Context, who asker, t *Task, key string, r *inputResponse) error {
	form := "inputResponses." + key + ".content"
	switch {
	case r.Action == "cancel", strings.HasPrefix(key, consoleKey): // the question stays open, for a decision elsewhere or later
		return nil
	case t.Question != nil && key == t.Question.Key && r.Action == "decline":
		return d.opts.Tasks.Cancel(ctx, who.env, t.ID)
	case t.Question != nil && key == t.Question.Key:
		if r.Content.Answer == "" {
			return protocol.InvalidParam(form, "must have an answer")
		}
		return d.opts.Tasks.Reply(ctx, who.env, t.ID, r.Content.Answer)
	case r.Action == "decline":
		return d.opts.Tasks.Decide(ctx, who.env, t.Approval, false, "declined at the client")
	case r.Content.Decision != "approve" && r.Content.Decision != "deny":
		return protocol.InvalidParam(form, "must have a decision, which is approve or deny")
	}
	return d.opts.Tasks.Decide(ctx, who.env, t.Approval, r.Content.Decision == "approve", r.Content.Reason)
}

// done is an empty complete result.
var done = json.RawMessage(`{"resultType":"complete"}`)

// taskResult is the answer to a message about a task: the task, if it is asked
// for.
func taskResult(form *taskForm) any {
	if form == nil {
		return done
	}
	return form
}

// rpcResult is the message with a result.
func rpcResult(id jsonrpc.ID, result any) []byte {
	body, err := json.Marshal(struct {
		Version string `json:"jsonrpc"`
		ID      any    `json:"id"`
		Result  any    `json:"result"`
	}{"2.0", id.Raw(), result})
	if err != nil {
		return rpcError(id, jsonrpc.CodeInternalError, "internal error", nil)
	}
	return body
}
