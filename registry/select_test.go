package registry

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/internal/records/recordstest"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/protocol/selector"
)

func parsed(t testing.TB, text string) *selector.Selector {
	t.Helper()
	s, err := selector.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// chosen lists what a selector chooses, sorted.
func (w *world) chosen(space protocol.SpaceID, text string, capability protocol.CapabilityID) string {
	var list []string
	for agent, skill := range w.Select(space, parsed(w.t, text), capability) {
		list = append(list, string(agent)+"/"+string(skill))
	}
	slices.Sort(list)
	return strings.Join(list, " ")
}

// fleet registers four lamps and a probe of another space.
func fleet(t *testing.T) *world {
	w := newWorld(t, func(o *Options) {
		o.CapsKnowing = func(_ protocol.SpaceID, skill protocol.SkillID) []protocol.CapID {
			if skill == "light-1" {
				return []protocol.CapID{"garden", "home"}
			}
			return nil
		}
		o.Reported = func(_ protocol.SpaceID, agent protocol.AgentID, skill protocol.SkillID) (json.RawMessage, bool) {
			n := strings.TrimPrefix(string(agent), "lamp-")
			if n == "4" || !strings.HasPrefix(string(skill), "light") {
				return nil, false
			}
			return json.RawMessage(`{"battery":` + n + `0,"firmware":{"version":"1.` + n + `"},"on":true,"list":[1]}`), true
		}
	})
	for i, tags := range []string{`{"site":"hall","model":"x1"}`, `{"site":"hall","model":"x2"}`, `{"site":"attic","model":"x2","broken":""}`, `{}`} {
		w.do(alice, "agent.register", fmt.Sprintf(`{"agent_id":"lamp-%d","type":"end_agent","name":"Lamp %d","tags":%s,"skills":[
			{"skill_id":"light-%d","name":"Light","version":"1.%d.0","capabilities":["switch","dim"]}]}`, i+1, i+1, tags, i+1, 8+i), nil)
	}
	w.do(alice, "skill.register", `{"agent_id":"lamp-1","skill":{"skill_id":"clock-1","name":"Clock","capabilities":["tell"]}}`, nil)
	w.do(carol, "agent.register", `{"agent_id":"lamp-1","type":"end_agent","tags":{"site":"hall"},"skills":[{"skill_id":"light-1","name":"Light","capabilities":["switch"]}]}`, nil)
	return w
}

func TestSelectorsChooseAgentsWithSkills(t *testing.T) {
	w := fleet(t)
	for text, want := range map[string]string{
		"site=hall":                           "lamp-1/light-1 lamp-2/light-2",
		"site in (hall,attic,hall), model=x2": "lamp-2/light-2 lamp-3/light-3",
		"site":                                "lamp-1/light-1 lamp-2/light-2 lamp-3/light-3",
		"!site":                               "lamp-4/light-4",
		"site!=hall":                          "lamp-3/light-3 lamp-4/light-4",
		"site,!broken":                        "lamp-1/light-1 lamp-2/light-2",
		"site=cellar":                         "",
		"agent.id":                            "lamp-1/light-1 lamp-2/light-2 lamp-3/light-3 lamp-4/light-4",
		"agent.id=lamp-2":                     "lamp-2/light-2",
		"agent.id=lamp-9":                     "",
		`agent.name="Lamp 3"`:                 "lamp-3/light-3",
		"agent.type=mcp_agent":                "",
		"skill.id=light-3":                    "lamp-3/light-3",
		"skill.id=dark":                       "",
		"skill.version>=1.10":                 "lamp-3/light-3 lamp-4/light-4",
		"skill.version<1.9":                   "lamp-1/light-1",
		"skill.capability=dim,skill.cap=home": "lamp-1/light-1",
		"skill.cap":                           "lamp-1/light-1",
		"skill.type=custom,model=x2":          "lamp-2/light-2 lamp-3/light-3",
		"state.battery>=20":                   "lamp-2/light-2 lamp-3/light-3",
		"state.firmware.version<1.2":          "lamp-1/light-1",
		"state.on=true,site=hall":             "lamp-1/light-1 lamp-2/light-2",
		"state.list":                          "lamp-1/light-1 lamp-2/light-2 lamp-3/light-3",
		"state.list=1":                        "",
		"!state.battery":                      "lamp-4/light-4",
		"state.on.deeper":                     "",
		"agent.status=online,site=hall,model!=x2":  "",
		"agent.status=offline,site=hall,model!=x2": "lamp-1/light-1",
	} {
		if got := w.chosen("default", text, "switch"); got != want {
			t.Errorf("%s chooses %q, want %q", text, got, want)
		}
	}
	if got := w.chosen("default", "site=hall", ""); got != "lamp-1/clock-1 lamp-1/light-1 lamp-2/light-2" {
		t.Errorf("with every capability: %q", got)
	}
	if got := w.chosen("lab", "site=hall", "switch"); got != "lamp-1/light-1" {
		t.Errorf("in another space: %q", got)
	}
	if got := w.chosen("nowhere", "site=hall", ""); got != "" {
		t.Errorf("in no space: %q", got)
	}
}

func TestListsOfAgentsTakeASelector(t *testing.T) {
	w := fleet(t)
	for params, want := range map[string]string{
		`{"selector":"site=hall"}`:                                   "lamp-1 lamp-2, 2 in all",
		`{"selector":"site","limit":2,"sort":"-id"}`:                 "lamp-3 lamp-2, 3 in all",
		`{"selector":"skill.capability=tell"}`:                       "lamp-1, 1 in all",
		`{"selector":"skill.version>=1.9,site","find":"Lamp 2"}`:     "lamp-2, 1 in all",
		`{"selector":"site","type":"route_agent","status":"online"}`: ", 0 in all",
	} {
		var got ListAgentsResult
		w.do(alice, "agent.list", params, &got)
		var ids []string
		for _, a := range got.Agents {
			ids = append(ids, string(a.AgentID))
		}
		if list := strings.Join(ids, " ") + ", " + strconv.Itoa(got.Total) + " in all"; list != want {
			t.Errorf("%s: %s, want %s", params, list, want)
		}
	}
	w.fails(alice, "agent.list", `{"selector":"site=hall or site=attic"}`, protocol.InvalidParameter)
}

func TestTagsAreChangedByWhoMay(t *testing.T) {
	w := fleet(t)
	var got TagAgentResult
	w.do(alice, "agent.tag", `{"agent_id":"lamp-1","tags":{"site":"cellar","new":"1"},"remove":["model","absent"]}`, &got)
	if fmt.Sprint(got.Tags) != "map[new:1 site:cellar]" {
		t.Errorf("%v", got.Tags)
	}
	if chosen := w.chosen("default", "site=hall", "switch") + ", " + w.chosen("default", "new>=1", "switch"); chosen != "lamp-2/light-2, lamp-1/light-1" {
		t.Errorf("chosen after the change: %s", chosen)
	}
	got = TagAgentResult{}
	w.do(root, "agent.tag", `{"agent_id":"lamp-1","remove":["site","new"],"space_id":"default"}`, &got)
	if len(got.Tags) != 0 || w.chosen("default", "!site,!new", "tell") != "lamp-1/clock-1" {
		t.Errorf("%v", got.Tags)
	}
	w.fails(bob, "agent.tag", `{"agent_id":"lamp-1","tags":{"a":"b"}}`, protocol.PermissionDenied)
	w.fails(carol, "agent.tag", `{"agent_id":"lamp-2","tags":{"a":"b"}}`, protocol.NotFound)
	for _, params := range []string{`"remove":[]`, `"tags":{"a.b":"c"}`, `"tags":{"a":"b\u0007"}`, `"tags":{"a":"b"},"remove":["a"]`} {
		w.fails(alice, "agent.tag", `{"agent_id":"lamp-1",`+params+`}`, protocol.InvalidParameter)
	}
	tags := make([]string, selector.MaxTags)
	for i := range tags {
		tags[i] = fmt.Sprintf(`"t%d":""`, i)
	}
	w.do(alice, "agent.tag", `{"agent_id":"lamp-1","tags":{`+strings.Join(tags, ",")+`}}`, nil)
	w.fails(alice, "agent.tag", `{"agent_id":"lamp-1","tags":{"more":""}}`, protocol.InvalidParameter)
}

func TestARegistrationWithoutTagsKeepsThem(t *testing.T) {
	w := fleet(t)
	w.do(alice, "agent.register", `{"agent_id":"lamp-1","type":"end_agent"}`, nil)
	if got := w.chosen("default", "site=hall,model=x1", "switch"); got != "lamp-1/light-1" {
		t.Errorf("%q", got)
	}
	w.do(alice, "agent.register", `{"agent_id":"lamp-1","type":"end_agent","tags":{}}`, nil)
	if got := w.chosen("default", "site=hall,model=x1", "switch"); got != "" {
		t.Errorf("%q", got)
	}
	w.do(alice, "agent.unregister", `{"agent_id":"lamp-2"}`, nil)
	if got := w.chosen("default", "site=hall", ""); got != "" || len(w.index.spaces["default"].byTag["site"]) != 1 {
		t.Errorf("%q %v", got, w.index.spaces["default"].byTag)
	}
}

const manyAgents = 100_000

// tagged makes a service that knows many agents with a skill each.
func tagged(t testing.TB, n int) *Service {
	t.Helper()
	s := filled(t, n)
	for i := range n {
		a := &Agent{ID: protocol.AgentID(fmt.Sprintf("agent-%06d", i)), Space: protocol.DefaultSpace, Type: EndAgent,
			Tags: selector.Tags{"site": fmt.Sprintf("site-%d", i%100), "firmware": fmt.Sprintf("1.%d.0", i%20), "serial": strconv.Itoa(i)}}
		if _, err := s.opts.Agents.(*recordstest.Memory[Agent]).Create(context.Background(), tableKey(a.Space, a.ID), a); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// BenchmarkSelect selects among 100 000 agents.
func BenchmarkSelect(b *testing.B) {
	s := tagged(b, manyAgents)
	for text, want := range map[string]int{
		"site=site-7":                           manyAgents / 100,
		"serial=4711":                           1,
		"site in (site-7,site-8),firmware>=1.8": 1000,
		"firmware!=1.7.0":                       manyAgents * 19 / 20,
		"skill.version>=1.2.9":                  manyAgents / 10,
	} {
		chosen := parsed(b, text)
		b.Run(text, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				n := 0
				for range s.Select(protocol.DefaultSpace, chosen, "set") {
					n++
				}
				if n != want {
					b.Fatalf("%d, want %d", n, want)
				}
			}
		})
	}
}
