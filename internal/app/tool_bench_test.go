package app

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/broker"
	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/llm/tools"
	"github.com/aibridge/aibridge/llm/tools/bridge"
	"github.com/aibridge/aibridge/protocol"
)

// BenchmarkToolOfASkill is the call of a skill's capability as a tool, by one caller
// that waits, without a network: the executor of tools, the router with claims in a
// file, the registry there and back.
func BenchmarkToolOfASkill(b *testing.B) {
	w := newWireless(b)
	device := broker.NewClient("lamp-1", anna)
	w.enroll(b, device)
	answer := []byte(`{"version":"0.6.3","id":"00000000-0000-0000-0000-000000000000","timestamp":1737000000000,"type":"response",` +
		`"status":"success","result":{"on":true,"note":"` + strings.Repeat("y", 200) + `"},"error":null,"metadata":{"sender_id":"lamp-1","warnings":[]}}`)
	at := bytes.Index(answer, []byte("00000000-"))
	asked := make(chan []byte, 1)
	w.publish = func(m protocol.Message) (int, error) {
		if m.Topic == deviceTopic {
			asked <- bytes.Clone(m.CorrelationData)
		}
		return 1, nil
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		var replies protocol.Replies
		for id := range asked {
			copy(answer[at:], id)
			w.registry.Answer(answerTopic, anna, &replies, answer, id)
		}
	}()

	skills := bridge.NewSkills(bridge.Invoker{Router: func() *commands.Router { return w.router }}.Fill,
		func(context.Context, *protocol.Principal, protocol.SpaceID, protocol.SkillID) error { return nil }, nil)
	skills.Changed(protocol.DefaultSpace, "lamp", 1, func() bridge.Skill {
		return bridge.Skill{Space: protocol.DefaultSpace, ID: "lamp", Name: "Lamp", Capabilities: []bridge.Capability{{
			ID: "switch", ParamsSchema: json.RawMessage(`{"type":"object","required":["on"],"properties":{"on":{"type":"boolean"},"note":{"type":"string"}}}`),
		}}}
	})
	env := tools.Environment{Principal: anna, Space: protocol.DefaultSpace}
	box, err := tools.New(skills).Select(b.Context(), env, []string{"lamp.switch"})
	if err != nil {
		b.Fatal(err)
	}
	calls := []*chat.ToolCall{{ID: "1", Name: "lamp.switch", Args: json.RawMessage(`{"on":true,"note":"` + strings.Repeat("x", 200) + `"}`)}}
	e := &tools.Executor{Gate: func(context.Context, *tools.Tool, *tools.Execution) error { return nil }}
	b.ReportAllocs()
	for b.Loop() {
		if r := e.Execute(b.Context(), box, env, calls)[0]; r.Status != tools.Success {
			b.Fatal(r.Text)
		}
	}
	close(asked)
	<-ended
	w.publish = func(protocol.Message) (int, error) { return 0, nil }
}
