package selector

import (
	"slices"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/protocol"
)

// A thing is a subject by the names of its keys.
type thing map[string][]string

func (t thing) Values(k Key) []string { return t[k.String()] }

func (t thing) Has(k Key) bool { _, ok := t[k.String()]; return ok }

var lamp = thing{
	"site": {"hall"}, "model": {"x2"}, "firmware": {"1.10.0-rc1"}, "note": {`a "b", c\d`}, "count": {"9"},
	"agent.type": {"end_agent"}, "agent.status": {"online"}, "skill.version": {"1.9.0"}, "skill.cap": {"home", "light"},
	"state.battery": {"9.5"}, "state.on": {"true"}, "state.colour": nil,
}

func TestSelectorsSelect(t *testing.T) {
	for text, want := range map[string]bool{
		"site=hall": true, "site==hall": true, "site = hall": true, "site=attic": false, "room=hall": false,
		"site!=hall": false, "site!=attic": true, "room!=hall": true,
		"site in (hall, attic)": true, "site in(attic)": false, "site notin (attic)": true, "site notin (hall)": false, "room notin (hall)": true,
		"site": true, "!site": false, "room": false, "! room": true,
		"site=hall,model=x2": true, "site=hall, model=x1": false, " site = hall , !room ": true,
		`note="a \"b\", c\\d"`: true, `note=""`: false, `note!=""`: true,
		"skill.version>=1.9": true, "skill.version<1.10": true, "skill.version>1.9.0": false, "skill.version<=1.9.0": true,
		"firmware<1.10": true, "firmware>1.9": true, "firmware>=1.10.0-rc1": true, "firmware<1.10.0-rc2": true, "firmware<1.10.0-beta": false,
		"count<10": true, "count>10": false, "site<2": false, "room<2": false, "room>=0": false,
		"skill.cap=light": true, "skill.cap in (garden)": false, "skill.cap!=light": false, "skill.cap": true,
		"state.battery<10": true, "state.battery>=9.50": true, "state.on=true": true, "state.colour": true, "state.colour=red": false,
		"!state.colour": false, "state.missing": false, "agent.status=online,agent.type in (end_agent,mcp_agent)": true,
		"in in (in)": false, "in": false, "notin notin (x)": true,
	} {
		s, err := Parse(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got := s.Matches(lamp); got != want {
			t.Errorf("%s is %v", text, got)
		}
		if again, err := Parse(s.String()); err != nil || again.String() != s.String() || again.Matches(lamp) != want {
			t.Errorf("%s is written as %s, which is something else: %v", text, s, err)
		}
	}
}

func TestBadSelectorsSayWhatAndWhere(t *testing.T) {
	for text, want := range map[string]string{
		"":                               "needs a key, and ends at character 1",
		"  ":                             "needs a key, and ends at character 3",
		"site=":                          "needs a value (in quotes if it has other characters than letters, digits and ._-:/+@~), and ends at character 6",
		"site=hall,":                     "needs a key, and ends at character 11",
		"site=hall model=x":              `needs a comma or the end, not 'm' at character 11`,
		"site=ä":                         `needs a value (in quotes if it has other characters than letters, digits and ._-:/+@~), not 'ä' at character 6`,
		`s="ä",?`:                        `needs a key, not '?' at character 7`,
		"site in hall":                   `needs values in brackets, not 'h' at character 9`,
		"site in ()":                     `needs a value (in quotes if it has other characters than letters, digits and ._-:/+@~), not ')' at character 10`,
		"site in (a b)":                  `needs a comma or a closing bracket, not 'b' at character 12`,
		"site in (a":                     `needs a comma or a closing bracket, and ends at character 11`,
		`site="hall`:                     "needs a closing quote, and ends at character 11",
		`site="\n"`:                      `needs a quote or a backslash behind \, not 'n' at character 8`,
		"site=\"a\nb\"":                  "has a control character at character 8",
		"site<warm":                      "needs a number or a version behind < at character 6",
		"agent.colour=red":               `has the unknown key "agent.colour"; there are agent.id, agent.name, agent.status, agent.type at character 1`,
		"a,skill.vers>1":                 `has the unknown key "skill.vers"; there are skill.cap, skill.capability, skill.id, skill.type, skill.version at character 3`,
		"zone.site=a":                    `has the unknown key "zone.site"; keys with a dot begin with agent., skill. or state. at character 1`,
		"state.=1":                       `has the key "state.", which names no state at character 1`,
		"state.a..b=1":                   `has the key "state.a..b", which names no state at character 1`,
		"-site":                          `has the name "-site"; names of tags have 1 to 63 letters, digits, _ and -, and begin and end with a letter or digit at character 1`,
		"site=a\xff":                     "is not UTF-8 at character 1",
		"!site=a":                        `needs a comma or the end, not '=' at character 6`,
		strings.Repeat("a", MaxLength+1): "is longer than 2048 bytes at character 2049",
		strings.TrimSuffix(strings.Repeat("a,", MaxRequirements+1), ","): "has more than 32 requirements at character 65",
	} {
		_, err := Parse(text)
		if err == nil || err.Error() != want {
			t.Errorf("%.40q: %v, want %s", text, err, want)
		}
	}
	err := protocol.AsError(Check("selector", "site=hall x"))
	if err.Code != protocol.InvalidParameter || err.Details["param_name"] != "selector" || err.Details["position"] != 11 {
		t.Errorf("%v %v", err, err.Details)
	}
}

func TestVersionsAreOrdered(t *testing.T) {
	ordered := []string{"0", "0.9", "1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-alpha.beta", "1.0.0-beta.2", "1.0.0-beta.11", "1.0.0-rc.1", "1.0.0", "1.0.1", "1.9", "1.10", "2"}
	for i, a := range ordered {
		for j, b := range ordered {
			order, ok := compare(a, b, false)
			if !ok || (order < 0) != (i < j) || (order > 0) != (i > j) {
				t.Errorf("%s and %s: %d", a, b, order)
			}
		}
	}
	for _, same := range [][2]string{{"1", "1.0.0"}, {"v1.2", "1.2"}, {"1.2+build1", "1.2+build2"}, {"01", "1"}} {
		if order, ok := compare(same[0], same[1], false); !ok || order != 0 {
			t.Errorf("%v: %d", same, order)
		}
	}
}

func TestWhatIsNoNumberHasNoOrder(t *testing.T) {
	for _, value := range []string{"nan", "NaN", "", "warm"} {
		if order, ok := compare(value, "20", true); ok {
			t.Errorf("%q is compared with 20: %d", value, order)
		}
	}
	if order, ok := compare("-3.5", "20", true); !ok || order >= 0 {
		t.Errorf("-3.5 and 20: %d, %v", order, ok)
	}
}

func TestTagsAreChecked(t *testing.T) {
	many := Tags{}
	for i := range MaxTags + 1 {
		many["t"+strings.Repeat("x", i)] = ""
	}
	for name, c := range map[string]struct {
		tags Tags
		want string
	}{
		"none":          {nil, ""},
		"good":          {Tags{"site": "Große Halle", "x_1-y": "", "0": "v"}, ""},
		"a dot":         {Tags{"a.b": ""}, "tags"},
		"no name":       {Tags{"": ""}, "tags"},
		"a long name":   {Tags{strings.Repeat("a", 64): ""}, "tags"},
		"a long value":  {Tags{"a": strings.Repeat("ä", 129)}, "tags.a"},
		"a line":        {Tags{"a": "b\nc"}, "tags.a"},
		"too many":      {many, "tags"},
		"too much":      {Tags{"a": strings.Repeat("ä", 128), "b": strings.Repeat("字", 128), "c": strings.Repeat("字", 128), "d": strings.Repeat("字", 128), "e": strings.Repeat("字", 128), "f": strings.Repeat("字", 128)}, "tags"},
		"ends in minus": {Tags{"a-": ""}, "tags"},
	} {
		err := protocol.AsError(c.tags.Check("tags"))
		if got := ""; err != nil {
			got, _ = err.Details["param_name"].(string)
			if got != c.want {
				t.Errorf("%s: %v", name, err)
			}
		} else if c.want != "" {
			t.Errorf("%s: nothing is wrong", name)
		}
	}
}

// What parses is written so that it parses as the same.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"site=hall", "a in (b, c),!d", `x!="q\"\\"`, "skill.version>=1.2.3,state.a.b<4", "a notin (b)", "=", "a=\x00", "((", "in in (in)"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Parse(text)
		if err != nil {
			if e, ok := err.(*Error); !ok || e.At < 0 || e.At > len(text) { //nolint:errorlint // as Parse says
				t.Fatalf("%q: %v", text, err)
			}
			return
		}
		again, err := Parse(s.String())
		if len(s.String()) > MaxLength {
			return
		}
		if err != nil || again.String() != s.String() {
			t.Fatalf("%q is written as %q: %v", text, s, err)
		}
		if !slices.EqualFunc(s.Requirements(), again.Requirements(), func(a, b Requirement) bool {
			return a.Key == b.Key && a.Op == b.Op && slices.Equal(a.Values, b.Values)
		}) {
			t.Fatalf("%q is read as something else", s)
		}
		if s.Matches(lamp) != again.Matches(lamp) {
			t.Fatalf("%q", s)
		}
	})
}

func BenchmarkMatches(b *testing.B) {
	s, err := Parse("site=hall,model in (x1,x2),firmware>=1.2")
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if !s.Matches(lamp) {
			b.Fatal("no match")
		}
	}
}
