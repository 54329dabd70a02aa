package binding_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/connect/binding"
	"github.com/aibridge/aibridge/connect/device"
)

// lamp is a whole file.
const lamp = `
space: default
devices:
  - agent: desk-lamp
    name: Lamp on the desk
    presence: {topic: lamps/desk/online, online: 1, offline: 0}
    skills:
      - skill: desk-lamp
        description: The lamp on the desk.
        state:
          on: {topic: lamps/desk/state, path: state, map: {ON: true, OFF: false}, type: boolean}
          brightness: {topic: lamps/desk/state, path: light.level, type: integer, unit: "%"}
        capabilities:
          set:
            description: Switch the lamp, or dim it.
            params:
              on: {type: boolean, required: true}
              brightness: {type: integer, minimum: 0, maximum: 100, unit: "%"}
            publish:
              topic: lamps/desk/set
              json: {state: "{{ 'ON' if on else 'OFF' }}", level: "{{ brightness }}"}
            answer: {topic: lamps/desk/state, timeout: 1m}
            idempotent: true
`

func parse(t *testing.T, text string) *binding.File {
	t.Helper()
	f, err := binding.Parse("lamp.yaml", []byte(text), "aibridge")
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestAFileBecomesDevices(t *testing.T) {
	t.Parallel()
	f := parse(t, lamp)
	if len(f.Devices) != 1 || f.Space != "default" {
		t.Fatalf("%+v", f)
	}
	d := f.Devices[0]
	if got := strings.Join(d.Topics(), " "); got != "lamps/desk/online lamps/desk/state" {
		t.Error(got)
	}
	c := &d.Skills[0].Capabilities[0]
	var schema struct {
		Properties map[string]map[string]any `json:"properties"`
		Required   []string                  `json:"required"`
	}
	if err := json.Unmarshal(c.Params, &schema); err != nil || schema.Properties["brightness"]["description"] != "In %." || strings.Join(schema.Required, "") != "on" {
		t.Errorf("%s %v", c.Params, err)
	}
	for params, want := range map[string]string{
		`{"on":true}`:                   `{"state":"ON"}`,
		`{"on":false,"brightness":40}`:  `{"level":40,"state":"OFF"}`,
		`{"on":false,"brightness":4.0}`: `{"level":4.0,"state":"OFF"}`,
	} {
		m, err := c.Messages([]byte(params), "aibridge")
		if err != nil || len(m) != 1 || m[0].Topic != "lamps/desk/set" || !same(m[0].Payload, want) {
			t.Errorf("%s: %s %v", params, m[0].Payload, err)
		}
	}
	on := d.Skills[0].State[0].Read
	if v, err := on.Read([]byte(`{"state":"ON","light":{"level":7}}`)); v != true || err != nil {
		t.Error(v, err)
	}
	if _, err := on.Read([]byte(`{"state":"BLINK"}`)); err == nil || !strings.Contains(err.Error(), "BLINK") {
		t.Error(err)
	}
}

func same(a []byte, b string) bool {
	var x, y any
	if json.Unmarshal(a, &x) != nil || json.Unmarshal([]byte(b), &y) != nil {
		return false
	}
	s, _ := json.Marshal(x)
	u, _ := json.Marshal(y)
	return string(s) == string(u)
}

func TestDigestsTellWhetherADeviceHasChanged(t *testing.T) {
	t.Parallel()
	first, again := parse(t, lamp).Devices[0].Digest, parse(t, "# a comment\n"+lamp).Devices[0].Digest
	other := parse(t, strings.Replace(lamp, "level", "bri", 1)).Devices[0].Digest
	if first != again || first == other {
		t.Error(first, again, other)
	}
}

// TestFaultsNameFileLineAndField breaks the file in one place each.
func TestFaultsNameFileLineAndField(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ old, new, want string }{
		{"path: state,", "pth: state,", "lamp.yaml:11: devices[0].skills[0].state.on.pth: there is no such key; did you mean path?"},
		{"lamps/desk/set", "lamps/+/set", "publish.topic: the topic has a wildcard"},
		{"lamps/desk/set", "aibridge/bridge/request", "publish.topic: topics below aibridge are the bridge's own"},
		{"lamps/desk/set", "$SYS/x", "publish.topic: topics that begin with $"},
		{"lamps/desk/set", "lamps/{{ romm }}/set", "publish.topic: there is no romm that a template could use here"},
		{"'ON' if on", "'ON' if onn", "publish.json.state: there is no onn"},
		{"{{ brightness }}", "{{ brightness | wobble }}", `publish.json.level: the filter "wobble" is not understood`},
		{"json: {state: \"{{ 'ON' if on else 'OFF' }}\", level: \"{{ brightness }}\"}", `payload: '{"state":"{{ on }}"}'`, "publish.payload: JSON goes below the key json"},
		{"type: boolean, required", "type: bool, required", `params.on.type: "bool" is none of boolean, integer, number, string`},
		{"timeout: 1m", "timeout: 1 minute", `answer.timeout: "1 minute" is no time of at most 10m0s`},
		{"idempotent: true", "idempotent: maybe", "idempotent: must be true or false"},
		{"agent: desk-lamp", "agent: desk/lamp", "devices[0].agent: may not contain '/'"},
		{"agent: desk-lamp", "{}", "is no YAML"},
		{"path: light.level", "path: light..level", `state.brightness.path: "light..level" is no path`},
		{"path: light.level", "path: level, value: x", "state.brightness.value: path is there already"},
		{"map: {ON: true, OFF: false}", "regexp: '('", "state.on.regexp: is no regular expression"},
		{"topic: lamps/desk/online, online: 1, offline: 0", "online: 1", "presence: topic or fresh is needed"},
		{"space: default", "space: a/b", "space: may not contain '/'"},
		{"          set:\n", "          state:\n", "the capability state is the one that reads the state"},
		{"name: Lamp on the desk", "name: &x Lamp\n    x: *x", "devices[0].x: anchors are not understood"},
		{"name: Lamp on the desk", "name: Lamp\n    name: Lamp", "devices[0].name: is there twice"},
	} {
		if !strings.Contains(lamp, test.old) {
			t.Fatalf("%q is not in the file", test.old)
		}
		_, err := binding.Parse("lamp.yaml", []byte(strings.Replace(lamp, test.old, test.new, 1)), "aibridge")
		if err == nil || !strings.Contains(err.Error(), test.want) || !strings.HasPrefix(err.Error(), "lamp.yaml:") {
			t.Errorf("%s:\n%v\nwant %s", test.new, err, test.want)
		}
	}
}

func TestFilesAreBounded(t *testing.T) {
	t.Parallel()
	one := "  - {agent: a, skills: [{skill: s, state: {x: {topic: t}}}]}\n"
	for name, text := range map[string]string{
		"bytes":     strings.Repeat("#", binding.MaxFile+1),
		"devices":   "devices:\n" + strings.Repeat(one, 1001),
		"documents": "devices: []\n---\ndevices: []\n",
		"twice":     "devices:\n" + one + one,
	} {
		if _, err := binding.Parse("x.yaml", []byte(text), "aibridge"); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
	if f, err := binding.Parse("x.yaml", nil, "aibridge"); err != nil || len(f.Devices) != 0 {
		t.Error("an empty file", err)
	}
}

// TestParametersCannotLeaveTheirLevel fills a topic with what would reach
// another.
func TestParametersCannotLeaveTheirLevel(t *testing.T) {
	t.Parallel()
	f := parse(t, `
devices:
  - agent: hub
    skills:
      - skill: hub
        capabilities:
          say:
            params: {room: {type: string, required: true}, text: {type: string}}
            publish: {topic: "{{ room }}/say", json: {text: "{{ text }}", raw: "<{{ text }}>"}}
`)
	c := &f.Devices[0].Skills[0].Capabilities[0]
	for _, room := range []string{"a/b", "+", "#", "", "aibridge", "$SYS", "a\u0000", "a\nb"} {
		params, _ := json.Marshal(map[string]string{"room": room, "text": "x"})
		if m, err := c.Messages(params, "aibridge"); err == nil {
			t.Errorf("%q: %+v", room, m)
		}
	}
	params, _ := json.Marshal(map[string]string{"room": "hall", "text": `","admin":true,"x":"{{ room }}`})
	m, err := c.Messages(params, "aibridge")
	if err != nil || !same(m[0].Payload, `{"text":"\",\"admin\":true,\"x\":\"{{ room }}","raw":"<\",\"admin\":true,\"x\":\"{{ room }}>"}`) {
		t.Errorf("%s %v", m[0].Payload, err)
	}
}

func TestReadingsOfEveryKind(t *testing.T) {
	t.Parallel()
	for rule, test := range map[string]struct {
		payload string
		want    any
	}{
		"type: number":                           {"21.5", 21.5},
		"type: integer":                          {"21.5", int64(21)},
		"type: boolean":                          {"on", true},
		"regexp: 'T=([0-9.]+)', type: number":    {"x T=19.5C", 19.5},
		"regexp: '[0-9]+'":                       {"a12", "12"},
		"path: '$.list[1]'":                      {`{"list":[1,"b"]}`, "b"},
		"path: \"['a b'].c\"":                    {`{"a b":{"c":null}}`, nil},
		"value: '{{ value_json.t | round(1) }}'": {`{"t":20.04}`, 20.0},
		"map: {'0': closed, '1': open}":          {"1", "open"},
	} {
		f := parse(t, "devices: [{agent: a, skills: [{skill: s, state: {x: {topic: t, "+rule+"}}}]}]")
		read := f.Devices[0].Skills[0].State[0].Read
		if got, err := read.Read([]byte(test.payload)); err != nil || got != test.want {
			t.Errorf("%s: %v %v, want %v", rule, got, err, test.want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(lamp)
	f.Add("devices: [{agent: a, skills: [{skill: s, state: {x: {topic: t, path: a.b}}}]}]")
	f.Fuzz(func(t *testing.T, text string) {
		file, err := binding.Parse("x.yaml", []byte(text), "aibridge")
		if (file == nil) == (err == nil) {
			t.Fatal(file, err)
		}
		if err != nil {
			return
		}
		for _, d := range file.Devices {
			for _, topic := range d.Topics() {
				if device.CheckTopic(topic, "aibridge") != nil {
					t.Errorf("topic %q", topic)
				}
			}
			for i := range d.Skills {
				for j := range d.Skills[i].Capabilities {
					messages, _ := d.Skills[i].Capabilities[j].Messages([]byte(`{"on":true,"room":"x","text":"a/b"}`), "aibridge")
					for _, m := range messages {
						if device.CheckTopic(m.Topic, "aibridge") != nil {
							t.Errorf("topic %q", m.Topic)
						}
					}
				}
			}
		}
	})
}

func FuzzPath(f *testing.F) {
	for _, path := range []string{"a", "$.a.b[0]", "['x y'].z", "[-1]"} {
		f.Add(path)
	}
	f.Fuzz(func(t *testing.T, path string) {
		if parsed, err := binding.Path(path); err == nil {
			if v := parsed.Variables(); len(v) != 1 || v[0] != "value_json" {
				t.Errorf("%q reads %v", path, v)
			}
		}
	})
}
