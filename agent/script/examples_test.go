package script

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/agent/skill"
	"github.com/aibridge/aibridge/protocol"
)

func TestTheExamplesDoWhatTheySay(t *testing.T) {
	t.Parallel()
	r := runner(t, Options{})
	for _, c := range []struct{ skill, capability, params, want string }{
		{"unit-converter", "celsius_to_fahrenheit", `{"celsius":25}`, `{"fahrenheit": 77}`},
		{"unit-converter", "celsius_to_fahrenheit", `{"celsius":-273.15}`, `{"fahrenheit": -459.67}`},
		{"unit-converter", "fahrenheit_to_celsius", `{"fahrenheit":7.7e1}`, `{"celsius": 25}`},
		{"unit-converter", "convert_length", `{"value":1,"from":"mi"}`, `{"value": 1609.344, "unit": "m"}`},
		{"unit-converter", "convert_length", `{"value":3,"from":"ft","to":"yd"}`, `{"value": 1, "unit": "yd"}`},
		{"weather-station", "current", `{}`, `{"station": "roof", "celsius": `},
		{"weather-station", "observe", `{"samples":2,"interval_seconds":0.01,"station":"summit"}`, `{"station": "summit", "samples": 2, "mean_celsius": `},
		{"weather-station", "current", `{"station":"moon"}`, `3001: scripts/current.sh exited with status 66: no station is called moon`},
		{"weather-station", "current", `{"station":"\" }, {\\n"}`, `3001: `},
	} {
		t.Run(c.capability, func(t *testing.T) {
			t.Parallel()
			s, err := skill.Load(filepath.Join("..", "..", "examples", "skills", c.skill))
			if err != nil {
				t.Fatal(err)
			}
			out, err := r.Run(t.Context(), Job{Skill: s, Capability: protocol.CapabilityID(c.capability), Params: json.RawMessage(c.params)})
			got := string(out)
			if err != nil {
				got = err.Error()
			}
			if !strings.HasPrefix(got, c.want) {
				t.Errorf("%s: got %s, want %s", c.params, got, c.want)
			}
		})
	}
}

func TestEveryCapabilityOfTheExamplesHasAScript(t *testing.T) {
	t.Parallel()
	folders, err := filepath.Glob("../../examples/skills/*/skill.yaml")
	if err != nil || len(folders) < 2 {
		t.Fatal(folders, err)
	}
	for _, f := range folders {
		s, err := skill.Load(filepath.Dir(f))
		if err != nil {
			t.Error(err)
			continue
		}
		for _, c := range s.Capabilities {
			if _, err := s.Script(c.ID); err != nil {
				t.Errorf("%s: %v", s.ID, err)
			}
		}
		if !s.Documented {
			t.Errorf("%s has no %s", s.ID, skill.DocumentFile)
		}
	}
}
