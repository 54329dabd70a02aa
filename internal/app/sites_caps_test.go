package app_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/aibridge/aibridge/client"
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

// A listener hears the messages of a Cap's channel.
type listener struct {
	mu    sync.Mutex
	heard []string
}

// follow subscribes to the channel of a Cap.
func follow(t *testing.T, c *client.Client, id protocol.CapID) *listener {
	t.Helper()
	l := new(listener)
	ch, err := c.Channel(id)
	if err != nil {
		t.Fatal(err)
	}
	_, err = ch.Subscribe(t.Context(), "#", func(_ context.Context, m client.Message) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.heard = append(l.heard, m.Topic+"="+string(m.Payload))
	})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func (l *listener) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.heard)
}

// hears waits until exactly these messages were heard, in this order.
func (l *listener) hears(t *testing.T, want ...string) {
	t.Helper()
	var got []string
	eventually.Holds(t, fmt.Sprintf("%.200q are heard", want), func() bool { got = l.all(); return slices.Equal(got, want) }, &got)
}

// tell publishes on the channel of a Cap.
func tell(t *testing.T, c *client.Client, id protocol.CapID, topic, text string, qos byte) {
	t.Helper()
	ch, err := c.Channel(id)
	if err != nil {
		t.Fatal(err)
	}
	if err := ch.Publish(t.Context(), topic, client.Message{Payload: []byte(text), QoS: qos}); err != nil {
		t.Fatal(err)
	}
}

// carries waits until the messages of some Caps are carried.
func (p *plant) carries(ids ...string) {
	p.t.Helper()
	got := ""
	eventually.Holds(p.t, fmt.Sprintf("messages of %q are carried", ids), func() bool {
		got = p.edge.must("link.get", `{"link":"site"}`)
		var l struct {
			State   string
			Out, In []struct{ Local string }
			Refused []string
		}
		if err := json.Unmarshal([]byte(got), &l); err != nil {
			p.t.Fatal(err)
		}
		if l.State != "connected" || len(l.Out) != len(ids) || len(l.In) != len(ids) || len(l.Refused) > 0 {
			return false
		}
		for i, id := range ids {
			if l.Out[i].Local != "aibridge/cap/"+id+"/message/" {
				return false
			}
		}
		return true
	}, &got)
}

// panel connects an agent of the centre whose skill is in the group all of plant.home.
func (p *plant) panel() *client.Client {
	p.t.Helper()
	c := p.centre.Dial(p.t, client.WithAPIKey(p.centre.key(protocol.KindAgent, "panel", "end_agent")), client.WithAgent(client.Agent{ID: "panel", Name: "Panel"}))
	if _, err := c.ServeSkill(p.t.Context(), client.Skill{ID: "panel", Name: "Panel", Capabilities: []client.Capability{{
		ID: "show", Handler: func(context.Context, *client.Invocation) (any, error) { return nil, nil },
	}}}); err != nil {
		p.t.Fatal(err)
	}
	p.centre.must("group.member.add", `{"cap_id":"plant.home","group_id":"all","skill_id":"panel","role":"panel"}`)
	return c
}

// TestMessagesOfASitesCapCross has a skill of the centre talk with those of the site, also
// of what was said while the line was down or the site did not run.
func TestMessagesOfASitesCapCross(t *testing.T) {
	t.Parallel()
	p := newHome(t)
	p.carries("home")
	panel := p.panel()
	lamp := p.edge.Dial(t, client.WithAPIKey(p.edge.key(protocol.KindSkill, "light", "skill")))
	there, here := follow(t, panel, "plant.home"), follow(t, lamp, "home")
	tell(t, lamp, "home", "hall/level", "1", 1)
	there.hears(t, "hall/level=1")
	tell(t, panel, "plant.home", "wish", "2", 1)
	here.hears(t, "hall/level=1", "wish=2")

	p.line.rests(true)
	p.becomes("plant.lamp", "offline")
	for i := range 5 {
		tell(t, lamp, "home", "late", fmt.Sprint(i), 1)
		tell(t, panel, "plant.home", "wish", fmt.Sprint(i), 2)
	}
	_ = lamp.Close()
	p.edge.Restart(t)
	lamp = p.edge.Dial(t, client.WithAPIKey(p.edge.key(protocol.KindSkill, "light", "skill")))
	here = follow(t, lamp, "home")
	p.line.rests(false)
	there.hears(t, "hall/level=1", "wish=2", "wish=0", "wish=1", "wish=2", "wish=3", "wish=4", "late=0", "late=1", "late=2", "late=3", "late=4")
	here.hears(t, "wish=0", "wish=1", "wish=2", "wish=3", "wish=4")
	if got := p.edge.must("bridge.status", `{}`); strings.Contains(got, "secret") {
		t.Errorf("the site shows %s", got)
	}

	// A Cap that is not there any more carries nothing, and another one does.
	p.edge.must("cap.declare", `{"cap_id":"home-2","cap_name":"Next door","skill_id":"light"}`)
	p.carries("home", "home-2")
	p.edge.must("cap.remove", `{"cap_id":"home","force":true}`)
	p.carries("home-2")
	// One that somebody removes at the centre is declared anew by the next look.
	p.edge.must("cap.declare", `{"cap_id":"home-3","cap_name":"There","skill_id":"light"}`)
	p.carries("home-2", "home-3")
	p.centre.must("cap.remove", `{"cap_id":"plant.home-2"}`)
	p.edge.must("cap.remove", `{"cap_id":"home-3"}`)
	eventually.Holds(t, "the Cap is there again", func() bool {
		return strings.Contains(p.centre.must("cap.query", `{"cap_id":"plant.home-2"}`), `"total":1`)
	})
	p.carries("home-2")
}

// TestMessagesOfASitesCapCrossABadLine sends messages both ways over a line that drops,
// delays and reorders: those of QoS 2 arrive once, those of QoS 1 at least once, and all in
// order.
func TestMessagesOfASitesCapCrossABadLine(t *testing.T) {
	t.Parallel()
	p := newHome(t)
	p.carries("home")
	panel := p.panel()
	lamp := p.edge.Dial(t, client.WithAPIKey(p.edge.key(protocol.KindSkill, "light", "skill")))
	there, here := follow(t, panel, "plant.home"), follow(t, lamp, "home")
	p.line.isRough(true)
	const messages = 60
	var talking sync.WaitGroup
	for _, from := range []struct {
		c    *client.Client
		id   protocol.CapID
		name string
	}{{lamp, "home", "out"}, {panel, "plant.home", "in"}} {
		talking.Go(func() {
			for i := range messages {
				if i%20 == 10 {
					p.line.rests(true) // all that is under way is lost
					p.line.rests(false)
				}
				tell(t, from.c, from.id, fmt.Sprint(from.name, i%2+1), fmt.Sprint(i), byte(i%2+1))
			}
		})
	}
	talking.Wait()
	p.line.isRough(false) // for new connections: the last ones are cut yet
	for _, to := range []struct {
		*listener
		name string
	}{{there, "out"}, {here, "in"}} {
		var firsts []int
		var again map[string]int
		eventually.Holds(t, "all have arrived", func() bool {
			firsts, again = nil, map[string]int{}
			for _, m := range to.all() {
				topic, text, _ := strings.Cut(m, "=")
				var n int
				if _, err := fmt.Sscanf(text, "%d", &n); err == nil && strings.HasPrefix(topic, to.name) {
					if again[m]++; again[m] == 1 {
						firsts = append(firsts, n)
					}
				}
			}
			return len(firsts) == messages
		}, &firsts)
		if !slices.IsSorted(firsts) {
			t.Errorf("the order of %s is %v", to.name, firsts)
		}
		for m, n := range again {
			if strings.HasPrefix(m, to.name+"2") && n != 1 {
				t.Errorf("a message of QoS 2 arrived %d times: %.20s", n, m)
			}
		}
	}
	if p.line.wasCut() < 2 {
		t.Errorf("the line was cut %d times", p.line.wasCut())
	}
	t.Logf("the line was cut %d times", p.line.wasCut())
}

// TestMessagesOfASitesCapAreConfined has others listen and speak who may not.
func TestMessagesOfASitesCapAreConfined(t *testing.T) {
	t.Parallel()
	p := newHome(t)
	p.carries("home")
	red := p.centre.Dial(t, client.WithAPIKey(p.centre.key(protocol.KindOperator, "rob", "operator", `,"space_id":"red"`)))
	foreign := follow(t, red, "plant.home") // a channel of its own space, where there is no such Cap
	stranger := p.centre.Dial(t, client.WithAPIKey(p.centre.key(protocol.KindAgent, "stranger", "end_agent")))
	ch, err := stranger.Channel("plant.home")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ch.Subscribe(t.Context(), "#", func(context.Context, client.Message) {}); err == nil {
		t.Error("an agent that is in no group of the Cap may listen")
	}
	lamp := p.edge.Dial(t, client.WithAPIKey(p.edge.key(protocol.KindSkill, "light", "skill")))
	here := follow(t, lamp, "home")
	there := follow(t, p.panel(), "plant.home")
	operator := p.centre.Dial(t, client.WithAPIKey(p.person))
	hidden := follow(t, operator, "plant.secret")
	tell(t, red, "plant.home", "x", "red", 1)
	tell(t, lamp, "secret", "x", "hidden", 1)
	tell(t, lamp, "home", "x", "1", 1)
	there.hears(t, "x=1")
	tell(t, operator, "plant.home", "x", "2", 1)
	here.hears(t, "x=1", "x=2")
	if got := slices.Concat(hidden.all(), foreign.all()); !slices.Equal(got, []string{"x=red"}) {
		t.Errorf("what was not to cross: %q", got)
	}
}
