package site

import (
	"reflect"
	"testing"

	"github.com/aibridge/aibridge/protocol"
)

func TestSelectorsChooseTheSameAtTheCentre(t *testing.T) {
	t.Parallel()
	s := &Site{Options: Options{Join: Join{Name: "plant"}}}
	for here, want := range map[string]string{
		"model=x2,firmware<1.10":            "model=x2,firmware<1.10,site=plant",
		"agent.id in (a,b),skill.id!=light": "agent.id in (plant.a,plant.b),skill.id!=plant.light,site=plant",
		"skill.cap=home,state.level>3":      "skill.cap=plant.home,state.level>3,site=plant",
		"site=hall":                         "",
	} {
		if got, err := s.selected(here); got != want || (err != nil) != (want == "") {
			t.Errorf("%s is %s at the centre, %v", here, got, err)
		}
	}
}

func TestAGroupKeepsWhatIsShown(t *testing.T) {
	t.Parallel()
	of := func() *group {
		return &group{
			Members: []member{{Skill: "a"}, {Skill: "b"}, {Skill: "hidden"}},
			Links:   []edge{{"a", "b", "x"}, {"a", "hidden", "x"}},
		}
	}
	shown := map[protocol.SkillID]bool{"a": true, "b": true}
	for linkType, want := range map[string][]edge{"directed": {{"a", "b", "x"}}, "bidirectional": {{"a", "b", "x"}, {"b", "a", "x"}}} {
		g := of()
		if g.keep(shown, linkType); len(g.Members) != 2 || !reflect.DeepEqual(g.Links, want) {
			t.Errorf("%s: %+v", linkType, g)
		}
	}
}
