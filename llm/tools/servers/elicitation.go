package servers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// The MCP methods of requests to a caller.
const (
	samplingMethod    = "sampling/createMessage"
	elicitationMethod = "elicitation/create"
)

// Bounds of forms.
const (
	maxForms      = 8        // of one call
	maxFormText   = 4 << 10  // bytes of the server's text
	maxFormSchema = 16 << 10 // bytes
)

// callerAnswers reports whether the caller's client supports a method.
func (a *inquiry) callerAnswers(method string) bool {
	return a.call.Ask != nil && a.call.Ask.Answers(method)
}

// askCaller sends a request to the caller, and decodes its answer.
func (a *inquiry) askCaller(ctx context.Context, method string, params, answer any) error {
	text, err := json.Marshal(params)
	if err != nil {
		return err
	}
	said, err := a.call.Ask.Ask(ctx, method, text)
	if err != nil {
		a.of.service.opts.Log.Debug("a request of an MCP server did not reach the caller", "server", a.of.config.Name, "method", method, "error", err)
		return err
	}
	return json.Unmarshal(said, answer)
}

// elicitor is the handler of forms for the caller's user, nil if none are shown.
func (a *inquiry) elicitor() func(context.Context, *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
	if !a.of.config.Elicitation || !a.callerAnswers(elicitationMethod) {
		return nil
	}
	return a.elicit
}

// elicit shows a form in the name of the server, and never for a secret. A form without
// an answer is cancelled.
func (a *inquiry) elicit(ctx context.Context, r *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
	fields, err := fieldsOf(r.Params)
	if err != nil {
		return nil, unasked(jsonrpc.CodeInvalidParams, "%s", err)
	}
	a.mu.Lock()
	if a.forms >= maxForms {
		a.mu.Unlock()
		return nil, unasked(codeRejected, "a call asks its user at most %d times", maxForms)
	}
	a.forms++
	a.mu.Unlock()
	within, cancel := context.WithCancel(a.ctx)
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	shown := &sdk.ElicitParams{
		Mode: "form", RequestedSchema: r.Params.RequestedSchema,
		Message: fmt.Sprintf("The MCP server %q asks, in its own words: %s", a.of.config.Name, plain(r.Params.Message, maxFormText)),
	}
	var answer sdk.ElicitResult
	if err := a.askCaller(within, elicitationMethod, shown, &answer); err != nil {
		return &sdk.ElicitResult{Action: "cancel"}, nil
	}
	if answer.Action != "accept" {
		return &sdk.ElicitResult{Action: answer.Action}, nil
	}
	content := make(map[string]any, len(fields))
	for name, value := range answer.Content { // only fields of the form
		if fields[name] {
			content[name] = value
		}
	}
	return &sdk.ElicitResult{Action: answer.Action, Content: content}, nil
}

// fieldsOf returns the names of a form's fields, or the error of a form that is not
// shown.
func fieldsOf(p *sdk.ElicitParams) (map[string]bool, error) {
	if p.Mode != "" && p.Mode != "form" {
		return nil, errors.New("mode: only forms are shown")
	}
	text, err := json.Marshal(p.RequestedSchema)
	if err != nil || len(text) > maxFormSchema {
		return nil, fmt.Errorf("requestedSchema: has more than %d bytes", maxFormSchema)
	}
	var schema struct {
		Properties map[string]struct {
			Format    string `json:"format"`
			WriteOnly bool   `json:"writeOnly"`
		} `json:"properties"`
	}
	if err := json.Unmarshal(text, &schema); err != nil {
		return nil, errors.New("requestedSchema: is no schema of a form")
	}
	fields := make(map[string]bool, len(schema.Properties))
	for name, field := range schema.Properties {
		if field.Format == "password" || field.WriteOnly {
			return nil, errors.New("requestedSchema: forms ask for no secrets")
		}
		fields[name] = true
	}
	return fields, nil
}

// nobodyIsAsked refuses forms of a server outside of calls.
func nobodyIsAsked(context.Context, *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
	return nil, unasked(codeRejected, "people are asked on behalf of a call of a tool, and only within its session")
}
