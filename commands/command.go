package commands

import (
	"context"
	"encoding/json"
	"reflect"

	"github.com/aibridge/aibridge/commands/schema"
	"github.com/aibridge/aibridge/protocol"
)

// A Command is a declared command: its [Spec], and codecs and schemas derived
// from the types of its handler. Get one from [New].
type Command struct {
	Spec

	paramsSchema json.RawMessage
	resultSchema json.RawMessage
	params       []schema.Field
	results      []schema.Field
	loggable     []string // parameters that audit may show
	async        bool     // its handler does not wait
	mark         [commandMark]byte
	decode       func(params json.RawMessage) (run invocation, async bool, err error)
	prepare      func(params json.RawMessage) (Prepared, bool) // nil of most
	err          error                                         // the fault of the types, nil for none
}

// An invocation is a handler with the parameters of one call.
type invocation interface {
	target() Resource
	// run calls the handler. With an error, the result is the part done before,
	// nil for none.
	run(ctx context.Context, call *Call) (result json.RawMessage, err error)
}

// New declares a command. The type P is a struct that describes the
// parameters, see the package documentation; R is the result, which becomes a
// JSON object. [NewSet] reports the faults of a declaration.
func New[P, R any](spec Spec, handler Handler[P, R]) Command {
	form := &form[P, R]{handler: handler}
	return form.declare(spec, reflect.TypeFor[P](), reflect.TypeFor[R](), form.fill)
}

// codecs are those of one command, with the work that is the same for all types of
// parameters and results: of a generic function the program has a copy for each command.
type codecs struct{ params, result *schema.Codec }

// declare derives the codecs from the types, and the command with them.
func (c *codecs) declare(spec Spec, paramsType, resultType reflect.Type, decode func(json.RawMessage) (invocation, bool, error)) Command {
	var flag *schema.Flag
	if spec.Async {
		flag = &schema.Flag{Name: "async", Doc: "answer at once with a task_id; see task.get"}
	}
	params, err := schema.ForParams(paramsType, flag)
	if err != nil {
		return Command{Spec: spec, err: err}
	}
	result, err := schema.ForResult(resultType)
	if err != nil {
		return Command{Spec: spec, err: err}
	}
	shown, err := loggable(paramsType)
	if err != nil {
		return Command{Spec: spec, err: err}
	}
	c.params, c.result = params, result
	return Command{
		Spec:         spec,
		paramsSchema: params.JSON(),
		resultSchema: result.JSON(),
		params:       params.Fields(),
		results:      result.Fields(),
		loggable:     shown,
		mark:         markCommand(spec.Name),
		decode:       decode,
	}
}

// ParamsSchema is the JSON Schema (2020-12) of the parameters. It must not be
// changed.
func (c *Command) ParamsSchema() json.RawMessage { return c.paramsSchema }

// ResultSchema is the JSON Schema (2020-12) of the result. It must not be
// changed.
func (c *Command) ResultSchema() json.RawMessage { return c.resultSchema }

// Params lists the parameters for people to read, also those inside others. A
// command of an agent has none: its schema alone describes its params.
func (c *Command) Params() []schema.Field { return c.params }

// Results lists the fields of the result, like [Command.Params].
func (c *Command) Results() []schema.Field { return c.results }

// Family is the first part of the name, "skill" of skill.invoke.
func (c *Command) Family() string { return family(c.Name) }

// CheckParams returns the error that a call with the parameters would get.
func (c *Command) CheckParams(params json.RawMessage) error {
	if err := protocol.CheckJSON(params, protocol.Limits{}); err != nil {
		return err
	}
	_, _, err := c.decode(params)
	return err
}

// A form is the part that the calls of one command share.
type form[P, R any] struct {
	codecs
	handler Handler[P, R]
}

func (f *form[P, R]) fill(params json.RawMessage) (run invocation, async bool, err error) {
	filled := &filled[P, R]{form: f}
	async, err = f.params.Decode(params, &filled.params)
	return filled, async, err
}

// A filled form is an invocation.
type filled[P, R any] struct {
	*form[P, R]
	params P
}

func (f *filled[P, R]) target() Resource { return targetOf(&f.params) }

// targetOf is the resource that parameters name. They are a pointer.
func targetOf(params any) Resource {
	if t, ok := params.(Targeter); ok {
		return t.Target()
	}
	return Resource{}
}

func (f *filled[P, R]) run(ctx context.Context, call *Call) (json.RawMessage, error) {
	result, err := f.handler(ctx, call, f.params)
	return f.written(&result, err)
}

// written makes JSON of a handler's result, which is a pointer.
func (c *codecs) written(result any, err error) (json.RawMessage, error) {
	if err != nil && reflect.ValueOf(result).Elem().IsZero() {
		return nil, err
	}
	written, failed := c.result.Encode(result)
	if failed != nil {
		return nil, unwritable(failed)
	}
	return written, err
}

func unwritable(cause error) error {
	return protocol.Wrap(protocol.Internal, cause, "the result cannot be written as JSON")
}
