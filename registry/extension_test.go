package registry

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

func TestTheExtensionOfARequestReachesWhoeverIsAsked(t *testing.T) {
	t.Parallel()
	const sent, passedOn = `{"acme":{"site":7},"proof":"of the caller's"}`, `{"acme":{"site":7}}`
	seen := make(chan string, 1)
	server := serve(t, func(rw http.ResponseWriter, _ *http.Request, q *protocol.Request) {
		seen <- string(q.Extension)
		success(rw, q, `{"litres":2}`)
	})
	w := newWorld(t, allowPrivate)
	w.device("boiler", heating, func(d *device, r *protocol.Request) {
		seen <- string(r.Extension)
		d.succeed(r, `{"litres":2}`)
	})
	w.do(alice, "skill.register", `{"skill":{"skill_id":"web","name":"Web","endpoints":["`+server.URL+`"],"capabilities":["bleed"]}}`, nil)
	call := &commands.Call{Principal: alice, Deadline: time.Now().Add(time.Minute), Extension: json.RawMessage(sent)}
	for name, ask := range map[string]func(){
		"a skill with an agent": func() {
			w.must(w.ask(question{who: alice, command: "skill.invoke", params: bleed, extension: sent}), nil)
		},
		"a skill with an endpoint": func() {
			w.must(w.ask(question{who: alice, command: "skill.invoke", params: `{"skill_id":"web","capability_id":"bleed"}`, extension: sent}), nil)
		},
		"an agent with a command of its own": func() {
			if _, err := w.Forward(t.Context(), call, "boiler", "acme.blink", json.RawMessage(`{}`)); err != nil {
				t.Error(err)
			}
		},
		"a member of a group": func() {
			h := make(heard, 1)
			c := durable(h)
			c.Skill, c.Agent, c.Capability, c.Extension = "heating", "boiler", "bleed", json.RawMessage(passedOn)
			w.asking.AskDurably(c)
			h.expect(t, `answered {"litres":2}`)
		},
	} {
		ask()
		if got := <-seen; got != passedOn {
			t.Errorf("%s gets the extension %s, want %s", name, got, passedOn)
		}
	}
}

func TestAnAdministratorIsToldTheSpaceToName(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.do(carol, "agent.register", `{"agent_id":"lamp","type":"end_agent","skills":[{"skill_id":"light","name":"Light","capabilities":["on"]}]}`, nil)
	w.do(carol, "resource.register", `{"resource":{"resource_id":"room","name":"Room","type":"room"}}`, nil)
	for command, params := range map[string]string{
		"skill.invoke": `{"skill_id":"light","capability_id":"on"}`,
		"agent.get":    `{"agent_id":"lamp"}`,
		"resource.get": `{"resource_id":"room"}`,
	} {
		err := w.fails(root, command, params, protocol.NotFound)
		if spaces, _ := json.Marshal(err.Details["space_ids"]); string(spaces) != `["lab"]` {
			t.Errorf("%s: the administrator is told %v", command, err.Details)
		}
		for _, q := range []question{ // those to whom other spaces do not exist, and who has named one
			{who: alice, command: command, params: params},
			{who: root, command: command, params: params[:len(params)-1] + `,"space_id":"office"}`},
		} {
			if err := w.failed(w.ask(q), protocol.NotFound); err.Details["space_ids"] != nil {
				t.Errorf("%s: %s is told %v", command, q.who.ID, err.Details)
			}
		}
	}
}
