package app_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/llm/conversation"
	"github.com/aibridge/aibridge/protocol"
)

// chatted says something in a conversation and returns the answer and the
// events that came before it.
func chatted(t testing.TB, c *bridgetest.Raw, id, params string) (conversation.ChatResult, *protocol.Error, []*protocol.Event) {
	t.Helper()
	c.Send(t, "aibridge/bridge/request", envelope(id, "llm.chat", params, `{"timeout":60000}`))
	var heard []*protocol.Event
	for {
		p := c.Next(t)
		if e, err := protocol.DecodeEvent(p.Payload, protocol.Limits{}); err == nil {
			heard = append(heard, e)
			continue
		}
		answer, err := protocol.DecodeResponse(p.Payload, protocol.Limits{})
		if err != nil {
			t.Fatalf("%s: %v", p.Payload, err)
		}
		var got conversation.ChatResult
		if answer.Err == nil {
			if err := json.Unmarshal(answer.Result, &got); err != nil {
				t.Fatal(err)
			}
		}
		return got, answer.Err, heard
	}
}

func usesToolsInAConversation(t *testing.T, f *flat) {
	got, err, heard := chatted(t, f.caller, "c1", `{"session_id":"evening","message":"How warm is it in the north?","tools":["*.read"],"stream":true}`)
	if err != nil || got.Result != "It is 15 degrees." || got.Turns != 1 || got.Tools.Success != 1 {
		t.Fatalf("got %+v, %v", got, err)
	}
	var names []string
	text := ""
	for _, e := range heard {
		var d struct {
			Type, Text, Name, Status string
		}
		_ = json.Unmarshal(e.Data, &d)
		switch e.Name {
		case "llm.delta":
			if d.Type == "text_delta" {
				text += d.Text
			}
		default:
			names = append(names, e.Name+" "+d.Name+" "+d.Status)
		}
	}
	if text != "It is 15 degrees." || strings.Join(names, ",") != "llm.tool_call north.read ,llm.tool_result north.read Success" {
		t.Errorf("heard %q and %q", text, names)
	}
}

// goesOnWithTheConversation comes after a restart.
func goesOnWithTheConversation(t *testing.T, f *flat) {
	again := f.connect("carol-pc", f.key(protocol.KindOperator, "carol", protocol.RoleOperator))
	got, err, _ := chatted(t, again, "c2", `{"session_id":"evening","message":"Sure?"}`)
	if err != nil || got.Result != "As I said, 15." || got.Turns != 2 {
		t.Fatalf("got %+v, %v", got, err)
	}
	if told := toldAt(t, f.model, 0); !strings.Contains(told, "user: How warm is it in the north?") || !strings.Contains(told, `tool: {"celsius":15}`) || !strings.HasSuffix(told, "user: Sure?\n") {
		t.Errorf("the model was told\n%s", told)
	}
	other := f.connect("bob-pc", f.key(protocol.KindOperator, "bob", protocol.RoleOperator))
	if got, err, _ := chatted(t, other, "c3", `{"session_id":"evening","message":"/tools north.*"}`); err != nil || got.Turns != 0 || got.By != "command" || !strings.Contains(got.Result, "north.set") {
		t.Errorf("somebody else: %+v, %v", got, err)
	}
}

func obeysSlashes(t *testing.T, f *flat) {
	got, err, _ := chatted(t, f.caller, "s1", `{"message":"/north.set {\"celsius\": \"18\"}"}`)
	if celsius, _, _ := f.north.state(); err != nil || got.By != "command" || got.Result != `{"celsius":18}` || celsius != 18 || got.Tools.Calls[0].Warning == "" {
		t.Errorf("got %+v, %v, at %v", got, err, celsius)
	}
	observer := f.connect("otto-pc", f.key(protocol.KindOperator, "otto", protocol.RoleObserver))
	if _, err, _ := chatted(t, observer, "s2", `{"message":"/north.set {\"celsius\": 30}"}`); err == nil || err.Code != protocol.PermissionDenied {
		t.Errorf("an observer: %v", err)
	}
	if n := len(f.model.Requests()); n != 0 {
		t.Errorf("the model was asked %d times", n)
	}
}
