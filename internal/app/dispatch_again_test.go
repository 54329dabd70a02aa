package app_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/protocol"
)

// TestAMemberThatComesLateIsAskedOnlyIfItsCallerStillMay has rights change
// between the beginning of a dispatch and the return of its members, and the
// bridge be restarted in between.
func TestAMemberThatComesLateIsAskedOnlyIfItsCallerStillMay(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	var olgas struct {
		ID  string `json:"key_id"`
		Key string `json:"key"`
	}
	if err := json.Unmarshal([]byte(h.must("key.create", `{"principal_id":"olga","kind":"operator","roles":["operator"]}`)), &olgas); err != nil {
		t.Fatal(err)
	}
	olga := h.connect("olga", olgas.Key)
	agents := map[string]string{}
	for _, skill := range []string{"safe", "lamp"} {
		agents[skill] = h.key(protocol.KindAgent, skill, protocol.RoleEndAgent)
		r := h.connect(skill, agents[skill])
		must(t, r, "agent.register", fmt.Sprintf(`{"agent_id":%q,"type":"end_agent"}`, skill))
		must(t, r, "skill.register", fmt.Sprintf(`{"agent_id":%q,"skill":{"skill_id":%q,"name":"S","capabilities":["switch"]}}`, skill, skill))
	}
	home(t, olga, "safe", "lamp")
	first := dispatched(t, olga, `,"deadline_ms":3600000`) // nobody listens yet
	becomes(t, olga, first, "running: offline offline")
	h.must("policy.put", `{"name":"night","policy":"forbid (principal == Operator::\"olga\", action == Action::\"skill:invoke\", resource) when { resource.id == \"safe\" };"}`)
	h.Restart(t)
	olga = h.connect("olga", olgas.Key)

	listen := func(skill string) *bridgetest.Raw {
		r := h.connect(skill, agents[skill])
		r.Listen(t, "aibridge/agent/"+skill+"/request")
		return r
	}
	safe, lamp := listen("safe"), listen("lamp")
	lamp.Reply(t, "lamp", lamp.Invocation(t), map[string]bool{"on": true})
	task := becomes(t, olga, first, "partial: denied ok")
	if got := task.Group.Members[0].Error.Code; got != protocol.PermissionDenied {
		t.Errorf("safe is denied for %s", got)
	}
	eventually.Holds(t, "it is on record", func() bool {
		return strings.Contains(h.must("audit.query", `{"event":"group.dispatch.denied"}`), string(first))
	})

	// Once its key is gone, its dispatches are called off.
	h.must("policy.remove", `{"name":"night"}`)
	safe.Drop()
	eventually.Holds(t, "safe is gone", func() bool {
		return strings.Contains(string(must(t, olga, "group.query", `{"cap_id":"home","group_id":"all"}`)), `"offline"`)
	})
	second := dispatched(t, olga, `,"target":{"skill_ids":["safe"]},"deadline_ms":3600000`)
	becomes(t, olga, second, "running: offline")
	h.must("key.revoke", fmt.Sprintf(`{"key_id":%q}`, olgas.ID))
	eventually.Holds(t, "the dispatch is called off", func() bool {
		body := h.must("task.get", fmt.Sprintf(`{"task_id":%q}`, second))
		return strings.Contains(body, `"cancelled"`) && strings.Contains(body, "the API key was revoked")
	})
	safe = listen("safe")

	// The first that safe hears of is what somebody asks who may.
	h.must("group.dispatch", `{"cap_id":"home","group_id":"all","capability_id":"switch","params":{"by":"admin"},"target":{"skill_ids":["safe"]}}`)
	if asked := safe.Invocation(t); !strings.Contains(string(asked.Params), `"by":"admin"`) {
		t.Errorf("safe is asked %s", asked.Params)
	}
}
