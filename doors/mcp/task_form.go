package mcp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/aibridge/aibridge/protocol"
)

// The pauses between two questions of a client for a task: one that works may have its
// result soon, one that waits does so for a person.
const (
	pollWorking = 2 * time.Second
	pollWaiting = 5 * time.Second
)

// maxJudged is the greatest length of arguments, in bytes, that a decider judges in a
// message. Longer ones are judged in the console.
const maxJudged = 4 << 10

// A taskForm is the JSON of a task.
type taskForm struct {
	ResultType string                  `json:"resultType,omitempty"`
	Meta       sdk.Meta                `json:"_meta,omitempty"`
	ID         protocol.TaskID         `json:"taskId"`
	Status     string                  `json:"status"`
	Message    string                  `json:"statusMessage,omitempty"`
	Created    string                  `json:"createdAt"`
	Updated    string                  `json:"lastUpdatedAt"`
	TTL        *int64                  `json:"ttlMs"` // null of one that has not ended: it is not forgotten
	Poll       int64                   `json:"pollIntervalMs,omitempty"`
	Inputs     map[string]inputRequest `json:"inputRequests,omitempty"`
	Result     any                     `json:"result,omitempty"`
	Error      *jsonrpc.Error          `json:"error,omitempty"`
}

// An inputRequest is a question for the user of a client.
type inputRequest struct {
	Method string `json:"method"`
	Params any    `json:"params"`
}

// elicitation is the method of an [inputRequest].
const elicitation = "elicitation/create"

// form converts a task for a client. Its questions are restricted to the declared
// capabilities of the client.
func (d *Door) form(t *Task, client capabilities, console string) *taskForm {
	f := &taskForm{
		ID: t.ID, Message: bounded(t.Message, 1024),
		Created: t.Begun.UTC().Format(time.RFC3339Nano), Updated: t.Changed.UTC().Format(time.RFC3339Nano),
	}
	if t.Kept > 0 {
		ttl := t.Kept.Milliseconds()
		f.TTL = &ttl
	}
	switch t.State {
	case TaskWorking:
		f.Status, f.Poll = "working", pollWorking.Milliseconds()
	case TaskWaiting:
		f.Status, f.Poll, f.Inputs = "working", pollWaiting.Milliseconds(), inputs(t, client, console)
		if len(f.Inputs) > 0 {
			f.Status = "input_required"
		}
	case TaskDone:
		f.Status, f.Result = "completed", t.outcome()
	case TaskFailed:
		f.Status = "failed"
		f.Error = &jsonrpc.Error{Code: rpcCode(t.Failure), Message: t.Failure.Message, Data: errorData(t.Failure)}
	case TaskCancelled:
		f.Status = "cancelled"
	}
	return f
}

// outcome is the result of a task that is done, as that of the call would be.
func (t *Task) outcome() any {
	if len(t.Answer) > 0 {
		return t.Answer
	}
	return resultOf(t.Result)
}

// inputs returns the questions about a task for the user of a client.
//
// An answer that comes back through the client proves that the client sends it, and not
// that a person gave it. So by a form the client decides about a call of its own only
// where policy lets its credential do so. Otherwise it is asked to open the console for
// its user, who signs in there as a decider: then no message of the client decides
// anything.
func inputs(t *Task, client capabilities, console string) map[string]inputRequest {
	switch {
	case t.Question != nil && client.forms:
		return map[string]inputRequest{t.Question.Key: {elicitation, t.Question.asked()}}
	case t.Approval == nil:
	case t.Approval.Own && t.Approval.Nonce != "" && client.forms && len(t.Approval.Arguments) <= maxJudged:
		return map[string]inputRequest{approvalKey + t.Approval.ID + "-" + t.Approval.Nonce: {elicitation, t.Approval.asked()}}
	case client.urls && console != "":
		return map[string]inputRequest{consoleKey + t.Approval.ID: {elicitation, t.Approval.shown(console)}}
	}
	return nil
}

// The prefixes of the keys of questions about approvals. The key of a form continues
// with the nonce: after a change of the arguments, an answer to the earlier form is
// ignored.
const (
	approvalKey = "approval-"
	consoleKey  = "console-"
)

// asked is the form about an approval.
func (a *Approval) asked() sdk.ElicitParams {
	arguments := a.Arguments
	var indented bytes.Buffer
	if json.Indent(&indented, arguments, "", "  ") == nil {
		arguments = indented.Bytes()
	}
	return sdk.ElicitParams{
		Mode:            "form",
		Message:         fmt.Sprintf("May %s be called? Somebody has to agree: %s. It would be called once, with:\n%s", a.Tool, a.Why, arguments),
		RequestedSchema: rawSchema(`{"type":"object","properties":{"decision":{"type":"string","title":"Decision","enum":["approve","deny"]},"reason":{"type":"string","title":"Reason","description":"The model reads it when the call is denied","maxLength":500}},"required":["decision"]}`),
	}
}

// shown leads to an approval in the console.
func (a *Approval) shown(console string) sdk.ElicitParams {
	return sdk.ElicitParams{
		Mode: "url", ElicitationID: a.ID, URL: console + "/approvals/" + url.PathEscape(a.ID),
		Message: fmt.Sprintf("%s waits for an approval: %s. A decider signs in to the console, sees the call there and decides on it.", a.Tool, a.Why),
	}
}

// asked is the form with a question.
func (q *Question) asked() sdk.ElicitParams {
	answer := map[string]any{"type": "string", "title": "Answer"}
	if len(q.Options) > 0 {
		answer["enum"] = q.Options
	}
	return sdk.ElicitParams{
		Mode: "form", Message: bounded(q.Text, maxJudged),
		RequestedSchema: map[string]any{"type": "object", "properties": map[string]any{"answer": answer}, "required": []string{"answer"}},
	}
}

// capabilities are the used capabilities of a client.
type capabilities struct {
	tasks  bool // supports tasks
	forms  bool // can show forms to its user
	urls   bool // can open a page for its user
	models bool // can ask its model
}

// capabilities reads the capabilities of a client from a request.
func (m *message) capabilities() capabilities {
	if m.Params.Meta.Version < firstStateless {
		return capabilities{}
	}
	return readCapabilities(m.Params.Meta.Capabilities)
}

// clientOf reads the capabilities from the _meta of a request.
func clientOf(meta sdk.Meta) capabilities {
	if version, _ := meta[sdk.MetaKeyProtocolVersion].(string); version < firstStateless {
		return capabilities{}
	}
	text, err := json.Marshal(meta[sdk.MetaKeyClientCapabilities])
	if err != nil {
		return capabilities{}
	}
	return readCapabilities(text)
}

func readCapabilities(text []byte) capabilities {
	if !bytes.Contains(text, []byte(tasksExtension)) && !bytes.Contains(text, []byte("elicitation")) && !bytes.Contains(text, []byte("sampling")) {
		return capabilities{}
	}
	var said struct {
		Extensions  map[string]json.RawMessage `json:"extensions"`
		Elicitation map[string]json.RawMessage `json:"elicitation"`
		Sampling    map[string]json.RawMessage `json:"sampling"`
	}
	if json.Unmarshal(text, &said) != nil {
		return capabilities{}
	}
	setting, tasks := said.Extensions[tasksExtension]
	_, urls := said.Elicitation["url"]
	_, forms := said.Elicitation["form"]
	return capabilities{
		tasks:  tasks && isObject(bytes.TrimSpace(setting)),
		forms:  forms || said.Elicitation != nil && len(said.Elicitation) == 0, // an empty one has meant forms from the start
		urls:   urls,
		models: said.Sampling != nil,
	}
}

// missingTasks is the error for a client that uses tasks without declaring their
// support.
func missingTasks() error {
	return &jsonrpc.Error{
		Code:    sdk.CodeMissingRequiredClientCapabilities,
		Message: "Missing required client capability: " + tasksExtension + " must stand in the capabilities of the request",
		Data:    json.RawMessage(`{"requiredCapabilities":{"extensions":{"` + tasksExtension + `":{}}}}`),
	}
}

// consoleOf is the URL of the console for the sender of a request, "" if it is not
// known.
func (d *Door) consoleOf(r *http.Request) string {
	if d.console != "" || r == nil {
		return d.console
	}
	return origin(r)
}

// consoleAt is the URL of the console beside an endpoint, "" if its URL is not known.
func consoleAt(endpoint string) string {
	known, err := url.Parse(endpoint)
	if err != nil || known.Host == "" {
		return ""
	}
	return known.Scheme + "://" + known.Host + strings.TrimSuffix(strings.TrimSuffix(known.Path, "/"), Path)
}
