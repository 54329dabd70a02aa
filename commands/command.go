package commands

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/aibridge/aibridge/protocol"
)

// A Command is a declared command: its [Spec] and what was derived from the
// types of its handler. Get one from [New].
type Command struct {
	Spec

	paramsSchema json.RawMessage
	resultSchema json.RawMessage
	decode       func(params json.RawMessage) (invocation, error)
	err          error
}

// An invocation is a handler with its decoded parameters.
type invocation interface {
	target() Resource
	run(ctx context.Context, call *Call) (json.RawMessage, error)
}

// New declares a command. What is wrong with the declaration is reported by
// [NewSet].
func New[P, R any](spec Spec, handler Handler[P, R]) Command {
	return Command{
		Spec:         spec,
		paramsSchema: json.RawMessage(`{"type":"object"}`),
		resultSchema: json.RawMessage(`{}`),
		decode: func(raw json.RawMessage) (invocation, error) {
			t := &typed[P, R]{handler: handler}
			dec := json.NewDecoder(bytes.NewReader(raw))
			dec.DisallowUnknownFields()
			if err := dec.Decode(&t.params); err != nil {
				return nil, protocol.InvalidParam("params", err.Error())
			}
			return t, nil
		},
	}
}

// ParamsSchema is the JSON Schema (2020-12) of the parameters.
func (c *Command) ParamsSchema() json.RawMessage { return c.paramsSchema }

// ResultSchema is the JSON Schema (2020-12) of the result.
func (c *Command) ResultSchema() json.RawMessage { return c.resultSchema }

// Family is the first part of the name, "skill" of skill.invoke.
func (c *Command) Family() string { return family(c.Name) }

type typed[P, R any] struct {
	handler Handler[P, R]
	params  P
}

func (t *typed[P, R]) target() Resource {
	if p, ok := any(t.params).(Targeter); ok {
		return p.Target()
	}
	if p, ok := any(&t.params).(Targeter); ok {
		return p.Target()
	}
	return Resource{}
}

func (t *typed[P, R]) run(ctx context.Context, call *Call) (json.RawMessage, error) {
	result, err := t.handler(ctx, call, t.params)
	if err != nil {
		return nil, err
	}
	return json.Marshal(result)
}
