// Package toolhost holds the file tools of models: fs.read, fs.list, fs.search,
// fs.write and fs.apply_patch, over the mounts of one run alone.
//
// The result of every call is an object with ok, and with either the result or an error
// with a code (docs/workflow-files.md#codes). Writes to @state/workflow.md by any tool
// pass the guard. See docs/workflow-files.md.
package toolhost

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"strings"
	"sync"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/llm/run/fault"
	"github.com/aibridge/aibridge/llm/run/mount"
	"github.com/aibridge/aibridge/llm/run/pack"
	"github.com/aibridge/aibridge/llm/tools"
)

// Source is the source of the tools of this package.
const Source = "fs"

// StatePath is the file with the position of the run.
const StatePath = "@state/workflow.md"

// logsFolder is the folder of the run's log; models may read it.
const logsFolder = "logs"

// Options configure a [Host].
type Options struct {
	Mounts *mount.Mounts
	// Graph is the graph of the workflow for the guard of workflow.md; nil for no
	// guard.
	Graph *pack.Graph
	Quota Quota
	// OnWrite is called just before every write, with the content before (nil for none)
	// and after. Its error prevents the write and becomes that of the call. Optional.
	OnWrite func(ctx context.Context, location mount.Location, before, after []byte) error
}

// Limits are the limits of one call; zero values are the defaults.
type Limits struct {
	MaxReadBytes  int64 // greatest result of fs.read and fs.search, 512 KiB
	MaxWriteBytes int64 // greatest file after fs.write and fs.apply_patch, 2 MiB
}

// The defaults of [Limits].
const (
	DefaultMaxRead  = 512 << 10
	DefaultMaxWrite = 2 << 20
)

// A Host holds the file tools of one run.
type Host struct {
	opts Options
	mu   sync.Mutex // held during a write

	usage map[mount.Name]*mount.Usage // guarded by mu
}

// New returns a host.
func New(o Options) *Host { return &Host{opts: o, usage: make(map[mount.Name]*mount.Usage)} }

// Tools returns the file tools within limits, in a fixed order.
func (h *Host) Tools(l Limits) []*tools.Tool {
	b := &bounded{Host: h, read: cmp.Or(l.MaxReadBytes, DefaultMaxRead), write: cmp.Or(l.MaxWriteBytes, DefaultMaxWrite)}
	return []*tools.Tool{b.readTool(), b.listTool(), b.searchTool(), b.writeTool(), b.patchTool()}
}

// bounded is a host with the limits of its caller.
type bounded struct {
	*Host
	read, write int64
}

// tool declares a tool with arguments of type A, whose result is that of fn.
func tool[A any](name, title, description string, effect commands.Effect, parameters []tools.Parameter, fn func(ctx context.Context, args A) (any, error)) *tools.Tool {
	return &tools.Tool{
		Declaration: tools.Declaration{
			Name: name, Title: title, Description: description, Parameters: parameters,
			Effect: effect, Idempotent: true, Pinned: true, Source: Source,
		},
		Run: func(ctx context.Context, x *tools.Execution) (tools.Output, error) {
			var args A
			if err := json.Unmarshal(x.ArgumentsJSON, &args); err != nil {
				return output(nil, fault.Wrap(fault.SchemaValidation, err, "the arguments cannot be read"))
			}
			result, err := fn(ctx, args)
			if ctx.Err() != nil && err != nil {
				return tools.Output{}, ctx.Err()
			}
			return output(result, err)
		},
	}
}

// refusal is the result of a failed call.
type refusal struct {
	OK    bool         `json:"ok"`
	Error *fault.Error `json:"error"`
}

// output is the output of a call for the model.
func output(result any, err error) (tools.Output, error) {
	if err != nil {
		result = refusal{Error: fault.As(err)}
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false) // the output is not HTML
	if err := enc.Encode(result); err != nil {
		return tools.Output{}, err
	}
	return tools.Output{Content: bytes.TrimRight(b.Bytes(), "\n"), IsError: err != nil}, nil
}

// The common parameters of several tools.
var (
	pathText     = "File, beginning with @project/, @pkg/ or @state/."
	matchText    = "SHA-256 the file must have now, in hexadecimal, as fs_read says; else nothing is written."
	exampleState = json.RawMessage(`"` + StatePath + `"`)
)

func text(name, description string, required bool) tools.Parameter {
	return tools.Parameter{Name: name, Kind: tools.String, Description: description, Required: required, CaseSensitive: true}
}

func number(name, description string) tools.Parameter {
	return tools.Parameter{Name: name, Kind: tools.Integer, Cardinality: tools.Optional, Description: description}
}

// sumOf reads an ifMatchSha256; "" is none. A malformed one matches nothing.
func sumOf(text string) (*mount.Sum, error) {
	if text == "" {
		return nil, nil
	}
	sum, ok := mount.ParseSum(strings.TrimPrefix(strings.ToLower(text), "sha256:"))
	if !ok {
		return nil, fault.Errorf(fault.PreconditionFailed, "ifMatchSha256 is no SHA-256 of 64 hexadecimal digits, so no file can have it")
	}
	return &sum, nil
}
