package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/llm/tools"
	"github.com/aibridge/aibridge/protocol"
)

// argumentsKey is the key of the form for missing arguments of a call.
const argumentsKey = "arguments"

// Bounds of a form that asks for parameters.
const (
	maxAsked       = 16  // parameters
	maxAskedText   = 512 // bytes of the description of one
	maxAskedValues = 128 // to choose among
)

// lacks are the required parameters that a call does not give and its client can ask a
// person for.
type lacks struct {
	tool  *tools.Tool
	names []string
	form  *sdk.ElicitParams
}

// lacking are the arguments missing from a call, nil if there are none or if no form
// asks for them: then the model reads the error.
func lacking(tool *tools.Tool, call *chat.ToolCall) *lacks {
	if len(call.Args) == 0 {
		return nil
	}
	parsed := tools.Parse(tool, call.Args)
	names := parsed.Missing()
	if len(names) == 0 || len(names) > maxAsked {
		return nil
	}
	var schema struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	if json.Unmarshal(tool.JSONSchema(), &schema) != nil {
		return nil
	}
	fields := make(map[string]*field, len(names))
	for _, name := range names {
		f := askable(schema.Properties[name])
		if f == nil {
			return nil
		}
		fields[name] = f
	}
	text, err := json.Marshal(map[string]any{"type": "object", "properties": fields, "required": names})
	if err != nil {
		return nil
	}
	message := fmt.Sprintf("%s needs %s.", tool.Name, strings.Join(names, ", "))
	if tool.Untrusted {
		message += " What is said about a field is from whoever offers the tool, and not from the bridge."
	}
	return &lacks{tool, names, &sdk.ElicitParams{Mode: "form", Message: bounded(message, maxJudged), RequestedSchema: json.RawMessage(text)}}
}

// A field is a field of a form, in the subset of JSON Schema for forms.
type field struct {
	Type        string   `json:"type"`
	Title       string   `json:"title,omitempty"`
	Description string   `json:"description,omitempty"`
	Enum        []string `json:"enum,omitempty"`
	Format      string   `json:"format,omitempty"`
	MinLength   *int     `json:"minLength,omitempty"`
	MaxLength   *int     `json:"maxLength,omitempty"`
	Minimum     *float64 `json:"minimum,omitempty"`
	Maximum     *float64 `json:"maximum,omitempty"`
}

// askable is the field of a parameter, nil if a form cannot ask for it, or must not: a
// write-only parameter is a secret.
func askable(schema json.RawMessage) *field {
	var f struct {
		field
		WriteOnly bool `json:"writeOnly"`
	}
	if len(schema) == 0 || json.Unmarshal(schema, &f) != nil || f.WriteOnly || f.Format == "password" || len(f.Enum) > maxAskedValues {
		return nil
	}
	switch f.Type {
	case "string":
	case "number", "integer", "boolean":
		if len(f.Enum) > 0 {
			return nil
		}
	default:
		return nil
	}
	f.Title, f.Description = bounded(f.Title, maxAskedText), bounded(f.Description, maxAskedText)
	if !slices.Contains([]string{"email", "uri", "date", "date-time"}, f.Format) {
		f.Format = ""
	}
	return &f.field
}

// filled returns the call with the arguments of the form, or the result of a call that
// its user has not completed.
func (l *lacks) filled(call *chat.ToolCall, action string, content map[string]json.RawMessage) (*chat.ToolCall, *tools.Result) {
	if action != "accept" {
		return nil, refused(l.tool.Name, protocol.InvalidParam(strings.Join(l.names, ", "), "is missing, and the user was asked and gave no value"))
	}
	var arguments map[string]json.RawMessage
	if json.Unmarshal(call.Args, &arguments) != nil { // it is a lenient reading that is an object
		return call, nil
	}
	complete := maps.Clone(arguments)
	if complete == nil {
		complete = make(map[string]json.RawMessage, len(l.names))
	}
	for _, name := range l.names { // and nothing that was not asked
		if value, said := content[name]; said {
			complete[name] = value
		}
	}
	text, err := json.Marshal(complete)
	if err != nil {
		return call, nil
	}
	supplied := *call
	supplied.Args = text
	return &supplied, nil
}

// asked is the answer to a call with missing arguments: the form, which the client
// shows before it calls again.
func (d *Door) asked(l *lacks) *inputForm {
	return &inputForm{
		ResultType: "input_required", Meta: sdk.Meta{sdk.MetaKeyServerInfo: d.implementation},
		Inputs: map[string]inputRequest{argumentsKey: {elicitation, *l.form}},
	}
}

// An inputForm is the JSON of the answer to a call that needs input.
type inputForm struct {
	ResultType string                  `json:"resultType"`
	Meta       sdk.Meta                `json:"_meta,omitempty"`
	Inputs     map[string]inputRequest `json:"inputRequests"`
	State      string                  `json:"requestState,omitempty"` // of a call that waits for the answer
}

// said reads the client's response to the form, if there is one.
func said(responses map[string]jsontext.Value) (action string, content map[string]json.RawMessage, ok bool) {
	var r struct {
		Action  string                     `json:"action"`
		Content map[string]json.RawMessage `json:"content"`
	}
	text, ok := responses[argumentsKey]
	if !ok || json.Unmarshal(text, &r) != nil {
		return "", nil, false
	}
	return r.Action, r.Content, true
}

// supplement gets the missing arguments of a call from the user of its client, in the
// client's version of MCP. It returns the completed call, or the answer instead.
func (d *Door) supplement(ctx context.Context, who asker, r *sdk.CallToolRequest, tool *tools.Tool, call *chat.ToolCall) (*chat.ToolCall, sdk.Result) {
	inSession := formsOf(r.Session)
	if !who.client.forms && !inSession {
		return call, nil
	}
	l := lacking(tool, call)
	if l == nil {
		return call, nil
	}
	answer, ok := r.Params.InputResponses[argumentsKey].(*sdk.ElicitResult)
	switch {
	case !ok && !inSession:
		return nil, &handedOver{form: d.asked(l)}
	case !ok:
		ctx, cancel := context.WithTimeout(ctx, protocol.MaxTimeout)
		defer cancel()
		var err error
		if answer, err = r.Session.Elicit(ctx, l.form); err != nil { // the model reads the missing parameters
			d.opts.Log.DebugContext(ctx, "an MCP client did not ask for the missing arguments of a call", "tool", tool.Name, "error", err)
			return call, nil
		}
	}
	content := make(map[string]json.RawMessage, len(answer.Content))
	for name, value := range answer.Content {
		if text, err := json.Marshal(value); err == nil {
			content[name] = text
		}
	}
	complete, not := l.filled(call, answer.Action, content)
	if not != nil {
		return nil, resultOf(not)
	}
	return complete, nil
}

// formsOf reports whether the client of a session with versions that have such can ask
// its user by a form.
func formsOf(session *sdk.ServerSession) bool {
	hello := session.InitializeParams()
	if hello == nil || hello.ProtocolVersion >= firstStateless || hello.Capabilities == nil || hello.Capabilities.Elicitation == nil {
		return false
	}
	can := hello.Capabilities.Elicitation
	return can.Form != nil || can.URL == nil
}
