package mcp

import (
	"net/http"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// A fault describes a defect in the form of a message, in words for its sender.
type fault struct {
	code int64
	text string
}

// status is the one of HTTP: messages that are none are bad requests, calls
// with bad params are answered.
func (f *fault) status() int {
	if f.code == jsonrpc.CodeInvalidParams {
		return http.StatusOK
	}
	return http.StatusBadRequest
}

func badRequest(text string) *fault { return &fault{jsonrpc.CodeInvalidRequest, text} }
func badParams(text string) *fault  { return &fault{jsonrpc.CodeInvalidParams, text} }

// faultOf returns the fault of a body that could not be decoded into the parts of a
// message, and sets the parts that can be. It returns nil where the error of the SDK is
// precise enough, as for batches.
func faultOf(body []byte, m *parts) *fault {
	anyNames := jsontext.AllowDuplicateNames(true)
	var form struct {
		ID     jsontext.Value `json:"id"`
		Method jsontext.Value `json:"method"`
		Params jsontext.Value `json:"params"`
	}
	if err := json.Unmarshal(body, &form, anyNames, jsontext.AllowInvalidUTF8(true)); err != nil {
		return nil
	}
	m.ID = form.ID
	switch {
	case len(form.Method) > 0 && json.Unmarshal(form.Method, &m.Method) != nil:
		return badRequest("the method must be a string")
	case len(form.Params) == 0:
		return nil
	case form.Params.Kind() != '{':
		return badParams("params must be an object")
	case json.Unmarshal(form.Params, &m.Params, anyNames) != nil:
		m.Params.Name = ""
		return badParams("the params of " + bounded(m.Method, 64) + " have another form")
	}
	return nil
}

// logLevels are the levels of RFC 5424, as MCP writes them.
var logLevels = []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

// wrong returns the fault of a decoded message, nil for none.
func (m *message) wrong() *fault {
	switch {
	case m.Method == "" && len(m.ID) > 0 && len(m.Result) == 0 && len(m.Error) == 0:
		return badRequest("the message has neither a method nor a result")
	case m.Method != "" && len(m.ID) > 0 && !m.id.IsValid():
		return badRequest("the id must be a string or a whole number below 2^53")
	case !m.id.IsValid():
		return nil
	}
	switch m.Method {
	case "tools/call", "prompts/get":
		if m.Params.Name == "" {
			return badParams("params.name is missing")
		}
	case "resources/read", subscribeMethod, unsubscribeMethod:
		if m.Params.URI == "" {
			return badParams("params.uri is missing")
		}
	case taskGetMethod, taskUpdateMethod, taskCancelMethod:
		if m.Params.TaskID == "" {
			return badParams("params.taskId is missing")
		}
	case levelMethod:
		if !slices.Contains(logLevels, m.Params.Level) {
			return badParams("params.level must be one of debug, info, notice, warning, error, critical, alert and emergency")
		}
	}
	return nil
}
