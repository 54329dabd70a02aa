package commands_test

import (
	"context"
	"testing"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

type streamed struct {
	Stream bool `json:"stream,omitempty" doc:"send events"`
}

func TestACommandThatStreamsSendsEventsToWhoAsksByItsParams(t *testing.T) {
	emit := func(_ context.Context, call *commands.Call, _ streamed) (text, error) {
		call.Emit("test.delta", "a")
		return text{}, nil
	}
	spec := commands.Spec{Name: "test.stream", Summary: "x", Action: "test:stream", Streams: true}
	silent := commands.Spec{Name: "test.silent", Summary: "x", Action: "test:silent"}
	n := newNode(t, commands.RouterOptions{}, commands.New(spec, emit), commands.New(silent, emit))
	for _, test := range []struct {
		command, params string
		want            int
	}{
		{"test.stream", `{"stream":true}`, 1},
		{"test.stream", `{"stream":false}`, 0},
		{"test.stream", `{"\u0073tream":true}`, 1},
		{"test.stream", `{}`, 0},
		{"test.silent", `{"stream":true}`, 0},
	} {
		heard := 0
		in := n.inbound(envelope(test.command+test.params, test.command, test.params))
		in.Emit = func(*protocol.Event) { heard++ }
		if r := n.Handle(t.Context(), in); r.Err != nil || heard != test.want {
			t.Errorf("%s %s: %d events, %v", test.command, test.params, heard, r.Err)
		}
	}
}
