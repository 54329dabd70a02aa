package app_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/connect/site"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/protocol"
)

// newHome makes a plant that shows the Cap home, with two lamps in the group all.
func newHome(t *testing.T) *plant {
	t.Helper()
	p := newPlantWith(t, func(j *site.Join) { j.Caps = []string{"home*"} })
	p.lamp()
	p.lampOf("lamp-2", "glow")
	p.edge.must("cap.declare", `{"cap_id":"home","cap_name":"At home","skill_id":"light"}`)
	p.edge.must("group.member.add", `{"cap_id":"home","group_id":"all","skill_id":"light","role":"lamp","attributes":{"floor":"1"}}`)
	p.edge.must("group.member.add", `{"cap_id":"home","group_id":"all","skill_id":"glow","role":"lamp"}`)
	p.edge.must("group.member.add", `{"cap_id":"home","group_id":"all","skill_id":"nobody","role":"ghost"}`)
	p.edge.must("cap.declare", `{"cap_id":"secret","cap_name":"Not shown","skill_id":"light"}`)
	p.becomes("plant.lamp", "online")
	p.becomes("plant.lamp-2", "online")
	return p
}

// groupAtCentre is a group of the Cap plant.home at the centre, as a line; "" if it is not
// there.
func (p *plant) groupAtCentre(id string) string {
	p.t.Helper()
	code, body := p.centre.run(p.person, "group.query", fmt.Sprintf(`{"cap_id":"plant.home","group_id":%q}`, id))
	if code == protocol.NotFound {
		return ""
	}
	var g struct {
		Members []struct {
			Skill      string `json:"skill_id"`
			Role       string
			Status     string
			Attributes map[string]string
		}
		Selector string
		Selected int
		Links    []struct {
			Source string `json:"source_skill_id"`
			Target string `json:"target_skill_id"`
			Type   string `json:"link_type"`
		}
	}
	if code != "" || json.Unmarshal([]byte(body), &g) != nil {
		p.t.Fatalf("%s: %s", code, body)
	}
	line := g.Selector
	if line != "" {
		line += fmt.Sprintf(" chooses %d", g.Selected)
	}
	for _, m := range g.Members {
		line += fmt.Sprintf("%s/%s/%s%v ", m.Skill, m.Role, m.Status, m.Attributes)
	}
	for _, l := range g.Links {
		line += fmt.Sprintf("%s>%s:%s ", l.Source, l.Target, l.Type)
	}
	return strings.TrimSpace(line)
}

// groupBecomes waits for a group of the Cap plant.home at the centre.
func (p *plant) groupBecomes(id, want string) {
	p.t.Helper()
	got := ""
	eventually.Holds(p.t, "the group "+id+" is at the centre as it is at the site", func() bool { got = p.groupAtCentre(id); return got == want }, &got)
}

func TestGroupsOfASiteAreAtItsCentre(t *testing.T) {
	t.Parallel()
	p := newHome(t)
	two := "plant.light/lamp/onlinemap[floor:1] plant.glow/lamp/onlinemap[]"
	p.groupBecomes("all", two)
	if body := p.centre.must("cap.query", `{}`); !strings.Contains(body, `"cap_name":"At home"`) || strings.Contains(body, "secret") || !strings.Contains(body, `"sync_enabled":false`) {
		t.Errorf("the Caps at the centre are %s", body)
	}

	p.edge.must("group.link.add", `{"cap_id":"home","group_id":"all","source_skill_id":"light","target_skill_id":"glow","link_type":"dim"}`)
	p.groupBecomes("all", two+" plant.light>plant.glow:dim plant.glow>plant.light:dim")
	p.edge.must("group.link.remove", `{"cap_id":"home","group_id":"all","source_skill_id":"light","target_skill_id":"glow"}`)
	p.groupBecomes("all", two)
	p.edge.must("group.declare", `{"cap_id":"home","group_id":"chosen","selector":"agent.id in (lamp,lamp-3)"}`)
	p.groupBecomes("chosen", `agent.id in (plant.lamp,plant.lamp-3),site=plant chooses 1`)

	// A value that the site's group shares.
	p.edge.must("group.data.set", `{"cap_id":"home","group_id":"all","data_key":"level","data_value":40,"data_type":"number"}`)
	saw := ""
	eventually.Holds(t, "the value is at the centre", func() bool {
		_, saw = p.centre.run(p.person, "group.data.get", `{"cap_id":"plant.home","group_id":"all","data_key":"level"}`)
		return strings.Contains(saw, `"data_value":40`)
	}, &saw)

	// What the centre adds stays; what changes while the line is down follows.
	p.centre.must("group.member.add", `{"cap_id":"plant.home","group_id":"all","skill_id":"panel","role":"panel"}`)
	p.line.rests(true)
	p.becomes("plant.lamp", "offline")
	p.edge.must("group.member.remove", `{"cap_id":"home","group_id":"all","skill_id":"glow"}`)
	p.edge.must("group.member.update", `{"cap_id":"home","group_id":"all","skill_id":"light","role":"light"}`)
	p.edge.must("group.remove", `{"cap_id":"home","group_id":"chosen"}`)
	p.line.rests(false)
	p.groupBecomes("all", "plant.light/light/onlinemap[floor:1] panel/panel/offlinemap[]")
	p.groupBecomes("chosen", "")

	p.edge.must("cap.update", `{"cap_id":"home","cap_info":{"status":"inactive"}}`)
	eventually.Holds(t, "the Cap is inactive at the centre", func() bool {
		return strings.Contains(p.centre.must("cap.query", `{"cap_id":"plant.home"}`), `"status":"inactive"`)
	})
	p.edge.must("cap.remove", `{"cap_id":"home","force":true}`)
	eventually.Holds(t, "the Cap is gone from the centre", func() bool {
		return strings.Contains(p.centre.must("cap.query", `{"cap_id":"plant.home"}`), `"total":0`)
	})
}

// TestWhatOfAGroupDoesNotCrossIsSaid has a group whose selector has no meaning at the
// centre; it does not hold up the others.
func TestWhatOfAGroupDoesNotCrossIsSaid(t *testing.T) {
	t.Parallel()
	p := newHome(t)
	p.edge.must("group.declare", `{"cap_id":"home","group_id":"a-hall","selector":"site=hall"}`)
	p.groupBecomes("all", "plant.light/lamp/onlinemap[floor:1] plant.glow/lamp/onlinemap[]")
	body := ""
	eventually.Holds(t, "the site says what is not shown", func() bool {
		body = p.edge.must("bridge.status", `{}`)
		return strings.Contains(body, `Cap plant.home: group \"a-hall\"`) && strings.Contains(body, "goes by the tag site")
	}, &body)
	if got := p.groupAtCentre("a-hall"); got != "" {
		t.Errorf("the group is at the centre as %s", got)
	}
}

// TestACentreDispatchesToAGroupOfASite over a line that drops, delays and reorders: no
// member does anything twice.
func TestACentreDispatchesToAGroupOfASite(t *testing.T) {
	t.Parallel()
	p := newHome(t)
	p.groupBecomes("all", "plant.light/lamp/onlinemap[floor:1] plant.glow/lamp/onlinemap[]")
	dispatch := func(n string) string {
		t.Helper()
		var started struct {
			Task string `json:"task_id"`
		}
		code, body := p.centre.run(p.person, "group.dispatch", fmt.Sprintf(`{"cap_id":"plant.home","group_id":"all","capability_id":"set","params":{"n":%q}}`, n))
		if code != "" || json.Unmarshal([]byte(body), &started) != nil {
			t.Fatalf("%s: %s", code, body)
		}
		end := ""
		eventually.Holds(t, "the task has ended", func() bool {
			_, end = p.centre.run(p.person, "task.get", fmt.Sprintf(`{"task_id":%q}`, started.Task))
			return strings.Contains(end, `"ended_at"`)
		}, &end)
		return end
	}
	if end := dispatch("smooth"); p.ran("light smooth") != 1 || p.ran("glow smooth") != 1 || strings.Count(end, `"state":"ok"`) < 2 {
		t.Errorf("%d and %d members did it: %s", p.ran("light smooth"), p.ran("glow smooth"), end)
	}
	p.line.isRough(true)
	for i := range 20 {
		n := fmt.Sprint("rough", i)
		dispatch(n)
		if light, glow := p.ran("light "+n), p.ran("glow "+n); light > 1 || glow > 1 {
			t.Errorf("%s was done %d and %d times", n, light, glow)
		}
	}
	if p.line.wasCut() == 0 {
		t.Error("the line was not cut")
	}
}

func TestCapsOfASiteAreConfined(t *testing.T) {
	t.Parallel()
	p := newHome(t)
	p.groupBecomes("all", "plant.light/lamp/onlinemap[floor:1] plant.glow/lamp/onlinemap[]")

	red := p.centre.key(protocol.KindOperator, "rob", "operator", `,"space_id":"red"`)
	if _, body := p.centre.run(red, "cap.query", `{}`); strings.Contains(body, "plant") {
		t.Errorf("another tenant sees %s", body)
	}
	for command, params := range map[string]string{
		"group.query":      `{"cap_id":"plant.home","group_id":"all"}`,
		"group.dispatch":   `{"cap_id":"plant.home","group_id":"all","capability_id":"set","params":{"n":"red"}}`,
		"group.member.add": `{"cap_id":"plant.home","group_id":"all","skill_id":"red","role":"x"}`,
		"cap.remove":       `{"cap_id":"plant.home"}`,
	} {
		if code, _ := p.centre.run(red, command, params); code != protocol.NotFound {
			t.Errorf("another tenant may %s: %s", command, code)
		}
	}
	if p.ran("red") != 0 {
		t.Error("the lamps did what another tenant wanted")
	}

	p.centre.must("cap.declare", `{"cap_id":"bank","cap_name":"Bank","skill_id":"vault"}`)
	p.centre.must("group.member.add", `{"cap_id":"bank","group_id":"all","skill_id":"vault","role":"x"}`)
	other := p.centre.key(protocol.KindAgent, "other", "end_agent")
	for name, c := range map[string]struct{ key, command, params string }{
		"an agent declares a Cap of its name":       {other, "cap.declare", `{"cap_id":"plant.hall","cap_name":"x","skill_id":"x"}`},
		"an administrator does":                     {p.centre.admin, "cap.declare", `{"cap_id":"plant.hall","cap_name":"x","skill_id":"x"}`},
		"the site declares another name":            {p.key, "cap.declare", `{"cap_id":"hall","cap_name":"x","skill_id":"plant.light"}`},
		"the site has a Cap of another skill":       {p.key, "cap.declare", `{"cap_id":"plant.hall","cap_name":"x","skill_id":"vault"}`},
		"the site has another skill join its group": {p.key, "group.member.add", `{"cap_id":"plant.home","group_id":"all","skill_id":"vault","role":"x"}`},
		"the site joins the group of another":       {p.key, "group.member.add", `{"cap_id":"bank","group_id":"all","skill_id":"plant.light","role":"x"}`},
		"the site looks into the group of another":  {p.key, "group.query", `{"cap_id":"bank","group_id":"all"}`},
		"the site removes the Cap of another":       {p.key, "cap.remove", `{"cap_id":"bank"}`},
		"the site has members do something":         {p.key, "group.dispatch", `{"cap_id":"plant.home","group_id":"all","capability_id":"set","params":{"n":"own"}}`},
		"the site sets a value for others":          {p.key, "group.data.set", `{"cap_id":"bank","group_id":"all","data_key":"x","data_value":1,"data_type":"number"}`},
	} {
		if code, body := p.centre.run(c.key, c.command, c.params); code != protocol.PermissionDenied {
			t.Errorf("%s: %s %s", name, code, body)
		}
	}
}
