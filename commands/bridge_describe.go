package commands

import (
	"context"
	"encoding/json"

	"github.com/aibridge/aibridge/protocol"
)

var bridgeDescribe = Spec{
	Name:    "bridge.describe",
	Summary: "Tell what commands there are, with their schemas, errors and permissions.",
	Effect:  Read,
	Action:  "bridge:describe",
	Errors:  []protocol.Code{protocol.NotFound},
	Example: `{"command":"skill.invoke"}`,
}

// DescribeParams are the parameters of bridge.describe.
type DescribeParams struct {
	Command string `json:"command,omitempty" len:"1-128" doc:"only this one; all when left out"`
}

// DescribeResult is the result of bridge.describe.
type DescribeResult struct {
	Version  string        `json:"version" doc:"of the protocol"`
	BridgeID string        `json:"bridge_id" doc:"id of the bridge, the sender_id of its answers"`
	Doors    *Doors        `json:"doors,omitempty" doc:"ports of the bridge's doors on the host that was asked"`
	Commands []Description `json:"commands" doc:"in the order of their names"`
}

// Doors are the ports that a bridge listens on, 0 for none: a client that knows one
// door finds the others.
type Doors struct {
	MQTT    int  `json:"mqtt,omitempty" doc:"MQTT over TCP"`
	MQTTS   int  `json:"mqtts,omitempty" doc:"MQTT over TLS"`
	HTTP    int  `json:"http,omitempty" doc:"HTTP, with TLS and without"`
	WS      int  `json:"ws,omitempty" doc:"WebSocket, the same"`
	TLSOnly bool `json:"tls_only,omitempty" doc:"HTTP and WebSocket are served over TLS only"`
}

// A Description describes a command in full to callers.
type Description struct {
	Name         string          `json:"name" doc:"name of the command, family.verb"`
	Aliases      []string        `json:"aliases,omitempty" doc:"old names that are still understood"`
	Summary      string          `json:"summary" doc:"purpose of the command in one sentence"`
	Effect       Effect          `json:"effect" doc:"read, write (the bridge's own state) or act (on the world)"`
	Permission   string          `json:"permission" doc:"the action that policy decides on"`
	Async        bool            `json:"async,omitempty" doc:"can run as a task, with params.async"`
	Errors       []CodeSummary   `json:"errors" doc:"besides those any command may answer with"`
	Example      json.RawMessage `json:"example,omitempty" doc:"params that are valid"`
	ParamsSchema json.RawMessage `json:"params_schema" doc:"JSON Schema (2020-12) of the params"`
	ResultSchema json.RawMessage `json:"result_schema" doc:"JSON Schema (2020-12) of the result"`
}

// A CodeSummary is an error code with its meaning.
type CodeSummary struct {
	Code    protocol.Code `json:"code" doc:"error code, four digits"`
	Summary string        `json:"summary" doc:"meaning of the code in a few words"`
}

// Describe returns the description of a command for bridge.describe.
func (c *Command) Describe() Description {
	d := Description{
		Name:         c.Name,
		Aliases:      c.Aliases,
		Summary:      c.Summary,
		Effect:       c.Effect,
		Permission:   c.Action,
		Async:        c.Async,
		Errors:       make([]CodeSummary, len(c.Errors)),
		Example:      json.RawMessage(c.Example),
		ParamsSchema: c.paramsSchema,
		ResultSchema: c.resultSchema,
	}
	for i, code := range c.Errors {
		d.Errors[i] = CodeSummary{code, code.String()}
	}
	return d
}

func describeBridge(_ context.Context, call *Call, p DescribeParams) (DescribeResult, error) {
	r, space := call.router, call.Principal.Space
	result := DescribeResult{Version: protocol.Version, BridgeID: r.opts.BridgeID, Doors: r.opts.Doors}
	if p.Command == "" {
		for c := range r.Commands(space) {
			result.Commands = append(result.Commands, c.Describe())
		}
		return result, nil
	}
	c, ok := r.Find(space, p.Command)
	if !ok {
		err := protocol.Errorf(protocol.NotFound, "no command %q", p.Command)
		if meant, ok := r.Nearest(space, p.Command); ok {
			err = err.With("did_you_mean", meant)
		}
		return DescribeResult{}, err
	}
	result.Commands = []Description{c.Describe()}
	return result, nil
}
