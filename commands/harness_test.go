package commands_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/internal/leaks"
	"github.com/aibridge/aibridge/protocol"
)

func TestMain(m *testing.M) { leaks.Verify(m) }

// A node is a router under test and one caller.
type node struct {
	*commands.Router
	who *protocol.Principal
}

// newNode makes a router that allows everything, for the built-in commands
// and the given ones, and closes it at the end of the test.
func newNode(t testing.TB, opts commands.RouterOptions, more ...commands.Command) *node {
	t.Helper()
	set, err := commands.NewSet(append(commands.Builtin(), more...)...)
	if err != nil {
		t.Fatal(err)
	}
	if opts.Authorizer == nil {
		opts.Authorizer = commands.AllowAll{}
	}
	r := commands.NewRouter(set, opts)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), eventually.Patience)
		defer cancel()
		if err := r.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return &node{r, &protocol.Principal{Kind: protocol.KindOperator, ID: "alice", Space: protocol.DefaultSpace}}
}

// envelope is a request without a clock; each edit is a field of metadata.
func envelope(id, command, params string, metadata ...string) []byte {
	return fmt.Appendf(nil, `{"version":"0.6.3","id":%q,"timestamp":0,"type":"request","command":%q,"params":%s,"metadata":{%s}}`,
		id, command, params, strings.Join(metadata, ","))
}

func (n *node) inbound(body []byte) commands.Inbound {
	return commands.Inbound{Principal: n.who, Body: body, Door: "test"}
}

// call sends a request and waits for the answer.
func (n *node) call(id, command, params string, metadata ...string) *protocol.Response {
	return n.Handle(context.Background(), n.inbound(envelope(id, command, params, metadata...)))
}

// submit sends a request and returns where the answer will be.
func (n *node) submit(id, command, params string, metadata ...string) <-chan *protocol.Response {
	answer := make(chan *protocol.Response, 2) // a second one would be a mistake worth seeing
	n.Submit(n.inbound(envelope(id, command, params, metadata...)), func(r *protocol.Response) { answer <- lasting(r) })
	return answer
}

// lasting is a response that is good for longer than Submit says.
func lasting(r *protocol.Response) *protocol.Response {
	copied := *r
	copied.Result = bytes.Clone(r.Result)
	return &copied
}

// said is the code of an answer, or its result.
func said(r *protocol.Response) string {
	if r.Err != nil {
		return string(r.Err.Code)
	}
	return string(r.Result)
}

func wantSaid(t testing.TB, r *protocol.Response, want string) {
	t.Helper()
	if got := said(r); got != want {
		t.Errorf("got %s (%v), want %s", got, r.Err, want)
	}
}

type text struct {
	Text string `json:"text,omitempty"`
}

// define makes a command test.NAME from a function of the text parameter.
func define(name string, effect commands.Effect, fn func(ctx context.Context, call *commands.Call, text string) (string, error)) commands.Command {
	return commands.New(commands.Spec{Name: "test." + name, Summary: "Test.", Effect: effect, Action: "test:" + name},
		func(ctx context.Context, call *commands.Call, p text) (text, error) {
			out, err := fn(ctx, call, p.Text)
			return text{out}, err
		})
}

// raw is a JSON object from text, for readability.
func raw(format string, args ...any) json.RawMessage { return fmt.Appendf(nil, format, args...) }
