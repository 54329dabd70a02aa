package commands_test

import (
	"encoding/json"
	"testing"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

// FuzzHandle sends anything at all: it is answered, by a response that can be
// read.
func FuzzHandle(f *testing.F) {
	n := newNode(f, commands.RouterOptions{Tasks: &backlog{}}, define("hello", commands.Write, greet), asyncCommand(greet))
	for _, body := range [][]byte{
		envelope("1", "test.hello", `{"text":"x"}`),
		envelope("2", "test.slow", `{"text":"x","async":true}`),
		envelope("3", "batch.execute", `{"commands":[{"command":"test.hello","params":{"text":"a"}},{"command":"x"}],"mode":"parallel"}`),
		envelope("4", "bridge.describe", `{"command":"test.hello"}`, `"timeout":1`, `"priority":"low"`, `"events":true`),
		[]byte(`{"version":"0.6.0","id":"x","command":"test.hello"}`), []byte(`{`), []byte(`null`), {},
	} {
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		r := n.Handle(t.Context(), n.inbound(body))
		if r == nil {
			t.Fatal("no answer")
		}
		written := r.Append(nil)
		if !json.Valid(written) {
			t.Fatalf("the answer is not JSON: %s", written)
		}
		if err := protocol.CheckJSON(written, protocol.Limits{}); err != nil {
			t.Fatalf("%v: %s", err, written)
		}
		if r.Err != nil && !r.Err.Code.Known() {
			t.Fatalf("unknown code: %s", written)
		}
	})
}

// TestABrokenExtensionDoesNotBreakTheRouter has every extension panic.
func TestABrokenExtensionDoesNotBreakTheRouter(t *testing.T) {
	t.Parallel()
	for name, x := range map[string]commands.Extensions{
		"parser":        {Parsers: []commands.Parser{broken{}}},
		"permission":    {Permissions: []commands.PermissionCheck{broken{}}},
		"processor":     {Processors: []commands.MessageProcessor{broken{}}},
		"error handler": {ErrorHandler: broken{}},
	} {
		n := newNode(t, commands.RouterOptions{Extensions: x}, define("hello", commands.Read, greet))
		if r := n.call("1", "test.hello", `{"txt":1}`); r.Err == nil {
			t.Errorf("%s: no error", name)
		}
		r := n.call("1", "test.hello", `{}`)
		if name == "error handler" {
			wantSaid(t, r, `{"text":"hello "}`)
		} else {
			wantSaid(t, r, "5000")
		}
	}
}
