package entities

import (
	"fmt"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/protocol"
)

// acts is a capability that acts, by the properties of its params.
func acts(id, properties, required string) Capability {
	params := fmt.Sprintf(`{"type":"object","properties":{%s},"required":[%s]}`, properties, required)
	return Capability{ID: protocol.CapabilityID(id), Params: []byte(params)}
}

// reads is one that reads, by the properties of its answer.
func reads(id, properties string) Capability {
	return Capability{ID: protocol.CapabilityID(id), Reads: true, Result: fmt.Appendf(nil, `{"type":"object","properties":{%s}}`, properties)}
}

func with(c Capability, change func(*Capability)) Capability {
	change(&c)
	return c
}

func TestSkillsBecomeEntities(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		capabilities []Capability
		entities     string // platform key, in order of the keys
		leftOut      string
	}{
		"a button":          {[]Capability{acts("ring", "", "")}, "button ring (ring)", ""},
		"a switch":          {[]Capability{acts("set", `"on":{"type":"boolean"}`, `"on"`), reads("state", `"on":{"type":"boolean"}`)}, "switch set_on (set)", ""},
		"a number":          {[]Capability{acts("set_level", `"level":{"type":"integer","minimum":0,"maximum":100}`, `"level"`)}, "number set_level_level (set_level)", ""},
		"a select":          {[]Capability{acts("set", `"program":{"enum":["eco","fast"]}`, "")}, "select set_program (set)", ""},
		"a text":            {[]Capability{acts("show", `"text":{"type":"string","maxLength":20}`, `"text"`)}, "text show_text (show)", ""},
		"sensors":           {[]Capability{reads("state", `"celsius":{"type":"number","unit":"°C"},"open":{"type":"boolean"}`)}, "sensor state_celsius; binary_sensor state_open", ""},
		"a single value":    {[]Capability{{ID: "get", Reads: true, Result: []byte(`{"type":"number"}`)}}, "sensor get", ""},
		"a lock":            {[]Capability{acts("lock", "", ""), acts("unlock", "", ""), acts("open", "", ""), reads("state", `"state":{"type":"string"}`)}, "lock lock (lock, unlock, open)", ""},
		"a cover":           {[]Capability{acts("open", "", ""), acts("close", "", ""), reads("state", `"position":{"type":"number"}`), acts("set_position", `"position":{"type":"number","minimum":0,"maximum":100}`, `"position"`)}, "cover cover (open, close, set_position)", ""},
		"a light":           {[]Capability{acts("set", `"on":{"type":"boolean"},"brightness":{"type":"number","minimum":0,"maximum":100},"transition":{"type":"number"}`, "")}, "light set (set)", `set: the parameter "transition" goes with others`},
		"a thermostat":      {[]Capability{acts("set", `"temperature":{"type":"number"},"mode":{"enum":["off","heat"]},"child_lock":{"type":"boolean"}`, "")}, "climate set (set); switch set_child_lock (set)", ""},
		"a mode of its own": {[]Capability{acts("set", `"temperature":{"type":"number"},"mode":{"enum":["off","party"]}`, "")}, "select set_mode (set); number set_temperature (set)", ""},
		"risk":              {[]Capability{with(acts("unlock", "", ""), func(c *Capability) { c.Risk = "high" }), with(acts("burn", "", ""), func(c *Capability) { c.Risk = "deny" })}, "button unlock (unlock), after an approval", "burn: its risk is deny"},
		"several params":    {[]Capability{acts("move", `"x":{"type":"number"},"y":{"type":"number"}`, `"x","y"`)}, "", "move: it needs 2 params at once"},
		"one with another":  {[]Capability{acts("move", `"x":{"type":"number"},"y":{"type":"number"}`, `"x"`)}, "number move_x (move)", `move: the parameter "y" goes with "x"`},
		"objects":           {[]Capability{acts("paint", `"color":{"type":"object"}`, ""), {ID: "any", Params: []byte(`{"oneOf":[{}]}`)}}, "", `paint: the parameter "color" is no single value; any: its params are no plain object`},
		"reading":           {[]Capability{{ID: "a", Reads: true}, {ID: "b", Reads: true, Params: []byte(`{"required":["x"]}`)}, {ID: "c", Reads: true, Result: []byte(`{"type":"array"}`)}}, "", "a: it does not declare what it answers (result_schema); b: it reads only with params; c: it answers with what is no single value"},
		"sealed":            {[]Capability{with(acts("say", "", ""), func(c *Capability) { c.Sealed = true })}, "", "say: its params must be sealed, which the bridge cannot do"},
		"hostile names":     {[]Capability{acts("{{x}}", `"{{ states('x') }}/#":{"type":"boolean"}`, "")}, "switch " + safe("{{x}}") + "_" + safe("{{ states('x') }}/#") + " ({{x}})", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := Show(&Skill{ID: "s", Name: "S", Capabilities: test.capabilities})
			var entities, leftOut []string
			for i := range d.Entities {
				entities = append(entities, d.Entities[i].String())
			}
			for _, l := range d.LeftOut {
				leftOut = append(leftOut, string(l.Capability)+": "+l.Reason)
			}
			if got := strings.Join(entities, "; "); got != test.entities {
				t.Errorf("entities %s\nwant %s", got, test.entities)
			}
			if got := strings.Join(leftOut, "; "); got != test.leftOut {
				t.Errorf("left out %s\nwant %s", got, test.leftOut)
			}
		})
	}
}

func TestPayloadsBecomeCalls(t *testing.T) {
	t.Parallel()
	level, lamp := acts("set", `"level":{"type":"number"}`, ""), acts("set", `"on":{"type":"boolean"}`, "")
	for _, test := range []struct {
		in            input
		payload, want string // the params, or the error
	}{
		{valued(&level, "level", "number"), "21.5", `{"level":21.5}`},
		{valued(&level, "level", "integer"), "40.0", `{"level":40}`},
		{valued(&level, "level", "number"), "NaN", "the payload is no number"},
		{valued(&level, "level", "number"), `1}`, "the payload is no number"},
		{valued(&level, "level", "text"), `"},"x":{"`, `{"level":"\"},\"x\":{\""}`},
		{valued(&lamp, "on", "boolean"), "ON", `{"on":true}`},
		{valued(&lamp, "on", "boolean"), "on", "the payload is none of the words that are announced"},
		{words(map[string]*Capability{"PRESS": &lamp}), "PRESS", `{}`},
		{words(map[string]*Capability{"PRESS": &lamp}), "", "the payload is none of the words that are announced"},
		{valued(&level, "level", "text"), strings.Repeat("x", maxCommand+1), "the payload is too long, or no text"},
		{valued(&level, "level", "text"), "\xff", "the payload is too long, or no text"},
	} {
		c, err := test.in.call([]byte(test.payload))
		got := string(c.params)
		if err != nil {
			got = err.Error()
		}
		if got != test.want {
			t.Errorf("%.40q: %s, want %s", test.payload, got, test.want)
		}
	}
}

func TestNamesAreNoOthers(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for _, name := range []string{"a", "a.b", "a_b", "a-b", "a/b", "_a", "", "_", "{{a}}", strings.Repeat("x", 40), strings.Repeat("x", 41), "é", safe("a.b")} {
		made := safe(name)
		if strings.Trim(made, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") != "" || made == "" {
			t.Errorf("%q becomes %q", name, made)
		}
		if other, taken := seen[made]; taken {
			t.Errorf("%q and %q are %q", name, other, made)
		}
		seen[made] = name
	}
}
