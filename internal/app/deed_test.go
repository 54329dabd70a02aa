package app_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/aibridge/aibridge/client"
	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/llm/tools"
	"github.com/aibridge/aibridge/protocol"
)

// TestAModelsDeedIsProposedOnceAndDoneOnce has a model propose a call twice that
// is the same deed, and a person do it after it was approved.
func TestAModelsDeedIsProposedOnceAndDoneOnce(t *testing.T) {
	t.Parallel()
	n := bridgetest.Start(t)
	var unlocked atomic.Int64
	served := n.Dial(t, client.WithAgent(client.Agent{ID: "porter"}))
	_, err := served.ServeSkill(t.Context(), client.Skill{ID: "gate", Name: "Gate", Capabilities: []client.Capability{
		{
			ID: "unlock", Risk: "high", EffectKey: "door:{door}",
			ParamsSchema: json.RawMessage(`{"type":"object","required":["door"],"properties":{"door":{"type":"string"},"why":{"type":"string"}}}`),
			Handler: client.Handle(func(context.Context, *client.Invocation, struct{}) (struct{}, error) {
				unlocked.Add(1)
				return struct{}{}, nil
			}),
		},
	}})
	if err != nil {
		t.Fatal(err)
	}
	m := modelFor(t, n, "ada", protocol.RoleAnonymous)
	propose := func(why string) []tools.Result {
		arguments := fmt.Sprintf(`{"door":"front","why":%q}`, why)
		return n.Bridge.ToolExecutor().Execute(t.Context(), m.box("*"), m.env, []*chat.ToolCall{{ID: why, Name: "gate.unlock", Raw: arguments}})
	}
	first := make(chan []tools.Result, 1)
	go func() { first <- propose("a guest") }()
	c := n.Caller(t, "caller")
	var waiting struct {
		Approvals []struct {
			ID    string `json:"approval_id"`
			Nonce string `json:"nonce"`
		} `json:"approvals"`
	}
	eventually.Holds(t, "somebody is asked", func() bool {
		return json.Unmarshal(must(t, c, "approval.list", `{"state":"pending"}`), &waiting) == nil && len(waiting.Approvals) == 1
	})
	if r := propose("the same guest"); r[0].Status == tools.Success || !strings.Contains(r[0].Text, "waits for an approval already") {
		t.Errorf("proposed again: %s %s", r[0].Status, r[0].Text)
	}
	must(t, c, "approval.decide", fmt.Sprintf(`{"approval_id":%q,"nonce":%q,"decision":"approve"}`, waiting.Approvals[0].ID, waiting.Approvals[0].Nonce))
	if r := <-first; r[0].Status != tools.Success {
		t.Errorf("approved: %s %s", r[0].Status, r[0].Text)
	}
	got := string(must(t, c, "skill.invoke", `{"skill_id":"gate","capability_id":"unlock","params":{"door":"front"}}`))
	if !strings.Contains(got, `"key":"door:front"`) || unlocked.Load() != 1 {
		t.Errorf("unlocked %d times; the person has %s", unlocked.Load(), got)
	}
}
