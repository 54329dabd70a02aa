package app_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"testing"

	"github.com/aibridge/aibridge/client"
	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/protocol"
)

// TestACopyOfASkillGetsNoCalls: an end agent copies a declaration from
// skill.discover. It gets no call, answers none, and is let into no group.
func TestACopyOfASkillGetsNoCalls(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	lamp := h.connect("lamp", h.key(protocol.KindAgent, "lamp", protocol.RoleEndAgent))
	const light = `{"skill_id":"light","name":"Light","description":"Shines","version":"1.0.0","type":"custom","capabilities":["on"]}`
	must(t, lamp, "agent.register", `{"agent_id":"lamp","type":"end_agent"}`)
	must(t, lamp, "skill.register", `{"agent_id":"lamp","skill":`+light+`}`)
	lamp.Listen(t, "aibridge/agent/lamp/request")
	h.must("cap.declare", `{"cap_id":"home","cap_name":"Home","skill_id":"house"}`)
	h.must("group.member.add", `{"cap_id":"home","group_id":"hall","skill_id":"light","role":"light"}`)
	h.must("group.data.set", `{"cap_id":"home","group_id":"hall","data_key":"code","data_value":1234,"data_type":"number"}`)

	thief := h.connect("thief", h.key(protocol.KindAgent, "thief", protocol.RoleEndAgent))
	must(t, thief, "agent.register", `{"agent_id":"thief","type":"end_agent"}`)
	copied := h.ask(thief, "skill.register", `{"agent_id":"thief","skill":`+light+`}`)
	if protocol.CodeOf(errorOf(copied)) != protocol.AlreadyExists {
		t.Fatalf("it registers the copy: %v", copied.Err)
	}
	thief.Listen(t, "aibridge/agent/thief/request")
	for _, command := range []string{"group.data.get", "group.data.set"} {
		if a := h.ask(thief, command, `{"cap_id":"home","group_id":"hall","data_key":"code","data_value":1,"data_type":"number"}`); a.Err == nil {
			t.Errorf("it uses the group: %s", command)
		}
	}
	caller := h.connect("admin-client", h.admin)
	for i := range 6 { // the calls were shared by turns
		caller.Send(t, "aibridge/bridge/request", bridgetest.Request(fmt.Sprint("call-", i), "skill.invoke", `{"skill_id":"light","capability_id":"on"}`))
		lamp.Reply(t, "lamp", lamp.Invocation(t), map[string]bool{"on": true})
		if answer := caller.Answer(t); answer.Err != nil {
			t.Fatal(answer.Err)
		}
	}
	// When the skill is gone, its name leads into no group either.
	must(t, lamp, "skill.unregister", `{"skill_id":"light"}`)
	if a := h.ask(thief, "skill.register", `{"agent_id":"thief","skill":`+light+`}`); protocol.CodeOf(errorOf(a)) != protocol.AlreadyExists {
		t.Fatalf("it takes the name: %v", a.Err)
	}
	h.must("group.member.remove", `{"cap_id":"home","group_id":"hall","skill_id":"light"}`)
	must(t, thief, "skill.register", `{"agent_id":"thief","skill":`+light+`}`)
}

// TestANameThatNobodyHasRegisteredLeadsIntoNoCap: an end agent takes the name
// that somebody's Cap or group has for a skill which is not there.
func TestANameThatNobodyHasRegisteredLeadsIntoNoCap(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.must("cap.declare", `{"cap_id":"home","cap_name":"Home","skill_id":"house"}`)
	h.must("group.member.add", `{"cap_id":"home","group_id":"hall","skill_id":"light","role":"light"}`)
	h.must("group.data.set", `{"cap_id":"home","group_id":"hall","data_key":"code","data_value":1234,"data_type":"number"}`)
	thief := h.connect("thief", h.key(protocol.KindAgent, "thief", protocol.RoleEndAgent))
	must(t, thief, "agent.register", `{"agent_id":"thief","type":"end_agent"}`)
	for _, skill := range []string{"house", "light"} {
		a := h.ask(thief, "skill.register", fmt.Sprintf(`{"agent_id":"thief","skill":{"skill_id":%q,"name":"Mine","capabilities":["on"]}}`, skill))
		if protocol.CodeOf(errorOf(a)) != protocol.AlreadyExists {
			t.Errorf("it takes the name %s: %v", skill, a.Err)
		}
		if a := h.ask(thief, "group.data.get", `{"cap_id":"home","group_id":"hall","data_key":"code"}`); a.Err == nil {
			t.Errorf("as %s it reads the group's data", skill)
		}
	}
	must(t, thief, "cap.declare", `{"cap_id":"den","cap_name":"Den","skill_id":"den"}`)
	must(t, thief, "skill.register", `{"agent_id":"thief","skill":{"skill_id":"den","name":"Its own","capabilities":["on"]}}`)
}

// TestASecondDeviceJoinsWithATokenOfTheFirst by the Go SDK.
func TestASecondDeviceJoinsWithATokenOfTheFirst(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	serve := func(id, join string) (*client.Client, error) {
		t.Helper()
		c, err := client.Dial(t.Context(), h.MQTTURL(), client.WithClientID(id), client.WithAPIKey(h.key(protocol.KindAgent, id, protocol.RoleEndAgent)),
			client.WithAgent(client.Agent{ID: protocol.AgentID(id)}), client.WithLogger(slog.New(slog.DiscardHandler)))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		_, err = c.ServeSkill(t.Context(), client.Skill{ID: "light", Join: join, Capabilities: []client.Capability{{ID: "who",
			Handler: client.Handle(func(_ context.Context, _ *client.Invocation, _ struct{}) (string, error) { return id, nil })}}})
		return c, err
	}
	first, err := serve("lamp-1", "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := serve("lamp-x", ""); protocol.CodeOf(err) != protocol.AlreadyExists {
		t.Errorf("without a token: %v", err)
	}
	made, err := client.Call[struct {
		Token string `json:"token"`
		ID    string `json:"token_id"`
	}](t.Context(), first, "skill.join.create", map[string]any{"skill_id": "light"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := serve("lamp-2", made.Token); err != nil {
		t.Fatal(err)
	}
	if _, err := serve("lamp-3", made.Token); protocol.CodeOf(err) != protocol.PermissionDenied {
		t.Errorf("with a token that is used up: %v", err)
	}
	var found struct {
		Skills []struct {
			Agents []protocol.AgentID `json:"agent_ids"`
		} `json:"skills"`
	}
	if err := json.Unmarshal([]byte(h.must("skill.discover", `{}`)), &found); err != nil || len(found.Skills) != 1 || fmt.Sprint(found.Skills[0].Agents) != "[lamp-1 lamp-2]" {
		t.Errorf("provided by %+v, %v", found, err)
	}
	// It survives a restart, as a keyed hash.
	h.Restart(t)
	var listed struct {
		Joins []struct {
			Agents []protocol.AgentID `json:"agent_ids"`
		} `json:"joins"`
	}
	if err := json.Unmarshal([]byte(h.must("skill.join.list", `{"skill_id":"light"}`)), &listed); err != nil || len(listed.Joins) != 1 || len(listed.Joins[0].Agents) != 1 {
		t.Errorf("listed %+v, %v", listed, err)
	}
}
