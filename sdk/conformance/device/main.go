// Command device is a device under test with the Go SDK: the contract of
// docs/sdk-conformance.md in one program.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/aibridge/aibridge/client"
	"github.com/aibridge/aibridge/protocol"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil && ctx.Err() == nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	options := []client.Option{client.WithAgent(client.Agent{ID: protocol.AgentID(os.Getenv("AIBRIDGE_AGENT_ID"))})}
	if key := os.Getenv("AIBRIDGE_API_KEY"); key != "" {
		options = append(options, client.WithAPIKey(key))
	}
	if file := os.Getenv("AIBRIDGE_TOKEN_FILE"); file != "" {
		options = append(options, client.WithToken(func(context.Context) (string, error) {
			token, err := os.ReadFile(file)
			return strings.TrimSpace(string(token)), err
		}))
	}
	c, err := client.Dial(ctx, os.Getenv("AIBRIDGE_URL"), options...)
	if err != nil {
		return err
	}
	defer c.Close()
	for served := false; !served; {
		_, err := c.ServeSkill(ctx, skill(c))
		if served = err == nil; err != nil && protocol.CodeOf(err) < protocol.VFSUnavailable {
			return fmt.Errorf("register: %w", err)
		}
	}
	select {
	case <-ctx.Done():
	case <-c.Done():
	}
	return c.Err()
}

func skill(c *client.Client) client.Skill {
	return client.Skill{ID: "conformance", Name: "Conformance", Capabilities: []client.Capability{
		{ID: "echo", Effect: client.EffectRead, ParamsSchema: object(`"value":{}`), Handler: client.Handle(echo)},
		{ID: "add", Effect: client.EffectRead, ParamsSchema: object(`"a":{"type":"integer","minimum":-1000,"maximum":1000},"b":{"type":"integer","minimum":-1000,"maximum":1000}`, "a", "b"), Handler: client.Handle(add)},
		{ID: "slow", ParamsSchema: object(`"ms":{"type":"integer","minimum":0}`, "ms"), Handler: client.Handle(slow)},
		{ID: "progress", ParamsSchema: object(`"steps":{"type":"integer","minimum":1},"ms":{"type":"integer","minimum":0}`, "steps"), Handler: client.Handle(progress)},
		{ID: "stream", ParamsSchema: object(`"pieces":{"type":"array","items":{"type":"string"}}`, "pieces"), Handler: client.Handle(stream)},
		{ID: "count", ParamsSchema: object(``), Handler: client.Handle(count())},
		{ID: "fail", ParamsSchema: object(`"code":{"type":"string"},"message":{"type":"string"},"details":{"type":"object"}`), Handler: client.Handle(fail)},
		{ID: "reject", ParamsSchema: object(`"reason":{"type":"string"}`), Handler: client.Handle(reject)},
		{ID: "fill", ParamsSchema: object(`"bytes":{"type":"integer","minimum":0}`, "bytes"), Handler: client.Handle(fill)},
		{ID: "ask", ParamsSchema: object(`"command":{"type":"string"},"params":{"type":"object"}`, "command"), Handler: client.Handle(ask(c))},
		{ID: "ask_seen", ParamsSchema: object(`"command":{"type":"string"},"params":{"type":"object"},"min_revision":{"type":"integer","minimum":0}`, "command", "min_revision"), Handler: client.Handle(askSeen(c))},
	}}
}

// object is the schema of an object with properties.
func object(properties string, required ...string) json.RawMessage {
	names, _ := json.Marshal(append([]string{}, required...))
	return fmt.Appendf(nil, `{"type":"object","properties":{%s},"required":%s,"additionalProperties":false}`, properties, names)
}

type value struct {
	Value json.RawMessage `json:"value"`
}

func echo(_ context.Context, _ *client.Invocation, p value) (value, error) { return p, nil }

type terms struct {
	A *int `json:"a"`
	B *int `json:"b"`
}

func add(_ context.Context, _ *client.Invocation, p terms) (map[string]int, error) {
	for name, term := range map[string]*int{"a": p.A, "b": p.B} {
		if term == nil {
			return nil, protocol.InvalidParam("params."+name, "is missing")
		}
		if *term < -1000 || *term > 1000 {
			return nil, protocol.InvalidParam("params."+name, fmt.Sprintf("must be -1000 to 1000, is %d", *term))
		}
	}
	return map[string]int{"sum": *p.A + *p.B}, nil
}

type pause struct {
	Milliseconds int `json:"ms"`
}

func (p pause) wait(ctx context.Context) error {
	select {
	case <-time.After(time.Duration(p.Milliseconds) * time.Millisecond):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func slow(ctx context.Context, _ *client.Invocation, p pause) (map[string]int, error) {
	return map[string]int{"slept_ms": p.Milliseconds}, p.wait(ctx)
}

type steps struct {
	pause
	Steps int `json:"steps"`
}

func progress(ctx context.Context, in *client.Invocation, p steps) (map[string]int, error) {
	for i := range p.Steps {
		if err := p.wait(ctx); err != nil {
			return nil, err
		}
		in.Progress(100*float64(i+1)/float64(p.Steps), fmt.Sprintf("step %d of %d", i+1, p.Steps))
	}
	return map[string]int{"steps": p.Steps}, nil
}

type pieces struct {
	Pieces []string `json:"pieces"`
}

func stream(_ context.Context, in *client.Invocation, p pieces) (map[string]string, error) {
	for _, piece := range p.Pieces {
		in.Delta(map[string]string{"text": piece})
	}
	return map[string]string{"text": strings.Join(p.Pieces, "")}, nil
}

func count() func(context.Context, *client.Invocation, struct{}) (map[string]int64, error) {
	var n atomic.Int64
	return func(context.Context, *client.Invocation, struct{}) (map[string]int64, error) {
		return map[string]int64{"count": n.Add(1)}, nil
	}
}

type failure struct {
	Code    protocol.Code  `json:"code"`
	Message string         `json:"message"`
	Details map[string]any `json:"details"`
}

func fail(_ context.Context, _ *client.Invocation, p failure) (any, error) {
	if p.Code == "" {
		return nil, errors.New(p.Message)
	}
	e := protocol.Errorf(p.Code, "%s", p.Message)
	for key, detail := range p.Details {
		e = e.With(key, detail)
	}
	return nil, e
}

type reason struct {
	Reason string `json:"reason"`
}

func reject(_ context.Context, _ *client.Invocation, p reason) (any, error) {
	return nil, client.Rejected(cmp.Or(p.Reason, "not now"))
}

type size struct {
	Bytes int `json:"bytes"`
}

func fill(_ context.Context, _ *client.Invocation, p size) (map[string]string, error) {
	return map[string]string{"text": strings.Repeat("x", p.Bytes)}, nil
}

type question struct {
	Command string          `json:"command"`
	Params  json.RawMessage `json:"params"`
}

type seenQuestion struct {
	question
	MinRevision uint64 `json:"min_revision"`
}

type seenAnswer struct {
	Result   json.RawMessage `json:"result"`
	Revision uint64          `json:"revision"`
}

func askSeen(c *client.Client) func(context.Context, *client.Invocation, seenQuestion) (seenAnswer, error) {
	return func(ctx context.Context, _ *client.Invocation, q seenQuestion) (answer seenAnswer, err error) {
		answer.Result, err = client.Call[json.RawMessage](ctx, c, q.Command, q.Params, client.MinRevision(q.MinRevision), client.Revision(&answer.Revision))
		return answer, err
	}
}

func ask(c *client.Client) func(context.Context, *client.Invocation, question) (json.RawMessage, error) {
	return func(ctx context.Context, _ *client.Invocation, q question) (json.RawMessage, error) {
		return client.Call[json.RawMessage](ctx, c, q.Command, q.Params)
	}
}
