//go:build unix

package script

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/client/agent/skill"
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
			s, err := skill.Load(filepath.Join("..", "..", "..", "examples", "skills", c.skill))
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

// The first script that people try is tried without a bridge, too.
func TestAConverterReadsStandardInput(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ script, params, want string }{
		{"celsius_to_fahrenheit.sh", `{"celsius":25}`, `{"fahrenheit": 77}`},
		{"celsius_to_fahrenheit.sh", `{ "celsius" : -40.5 }`, `{"fahrenheit": -40.9}`},
		{"celsius_to_fahrenheit.sh", `{}`, ``},
		{"fahrenheit_to_celsius.sh", `{"fahrenheit":77}`, `{"celsius": 25}`},
		{"fahrenheit_to_celsius.sh", `{}`, ``},
		{"convert_length.sh", `{}`, ``},
	} {
		run := exec.Command("/bin/sh", filepath.Join("..", "..", "..", "examples", "skills", "unit-converter", "scripts", c.script))
		run.Stdin, run.Env = strings.NewReader(c.params), []string{"PATH=" + os.Getenv("PATH")}
		out, err := run.Output()
		if strings.TrimSpace(string(out)) != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%s of %s: got %s, %v, want %s", c.script, c.params, out, err, c.want)
		}
	}
}

func TestEveryCapabilityOfTheExamplesHasAScript(t *testing.T) {
	t.Parallel()
	folders, err := filepath.Glob("../../../examples/skills/*/skill.yaml")
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

// The guide's first example is run as it is written, but for the last two
// lines, which need a bridge.
func TestTheGuideWorksAsWritten(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"bash", "jq"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip(err)
		}
	}
	guide, err := os.ReadFile("../../../docs/skills.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(guide), "```sh\n")
	example, _, found := strings.Cut(rest, "aibridge agent end")
	if !found {
		t.Fatal("the guide has no example")
	}
	dir := t.TempDir()
	making := exec.Command("bash", "-euc", example)
	making.Dir = dir
	if out, err := making.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	s, err := skill.Load(filepath.Join(dir, "skills", "greeter"))
	if err != nil {
		t.Fatal(err)
	}
	out, err := runner(t, Options{}).Run(t.Context(), Job{Skill: s, Capability: "greet", Params: json.RawMessage(`{"who":"Ada \"x\""}`)})
	if err != nil || !strings.Contains(string(out), `"Hello Ada \"x\"!"`) {
		t.Errorf("got %s, %v", out, err)
	}
}

// The forms of parameters in the guide mean the same.
func TestTheGuidesFormsOfParametersAreAccepted(t *testing.T) {
	t.Parallel()
	guide, err := os.ReadFile("../../../docs/skills.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(guide), "### Parameters and results\n")
	_, rest, _ = strings.Cut(rest, "```yaml\n")
	block, _, _ := strings.Cut(rest, "```")
	forms := strings.Split(strings.TrimSpace(block), "\n\n")
	if len(forms) != 3 {
		t.Fatalf("%d forms", len(forms))
	}
	for _, form := range forms {
		yaml := "apiVersion: skill.ooder.net/v1\nkind: Skill\nmetadata: {id: a, name: A, version: 1.0.0, description: D}\n" +
			"spec:\n  capabilities:\n    - id: c\n      " + strings.ReplaceAll(form, "\n", "\n      ") + "\n"
		m, err := skill.Parse("guide", []byte(yaml))
		if err != nil {
			t.Errorf("%v in\n%s", err, yaml)
			continue
		}
		if p := m.Capabilities[0].Params.Properties(); len(p) == 0 || p[0] != "celsius" {
			t.Errorf("%v in\n%s", p, yaml)
		}
	}
}
