package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/aibridge/aibridge/client"
	"github.com/aibridge/aibridge/internal/app"
	"github.com/aibridge/aibridge/internal/eventually"
)

// TestEveryCommandIsFoundByItsWords walks over all declarations.
func TestEveryCommandIsFoundByItsWords(t *testing.T) {
	tree := root()
	for command := range app.Commands().All() {
		words := strings.Split(command.Name, ".")
		cmd, rest, err := tree.Find(words)
		if err != nil || len(rest) > 0 || cmd.DisableFlagsInUseLine { // which marks those that only lead to others
			t.Errorf("%s: %v, %q is left", command.Name, err, rest)
		}
	}
	for _, words := range []string{"skill list", "session list", "approval list", "task watch", "group dispatch", "llm run list"} {
		if cmd, rest, err := tree.Find(strings.Fields(words)); err != nil || len(rest) > 0 || cmd.DisableFlagsInUseLine {
			t.Errorf("aibridge %s: %v, %q is left", words, err, rest)
		}
	}
}

func TestWordsWithoutANameAreRequiredParameters(t *testing.T) {
	required := []string{"skill_id", "capability_id"}
	for words, want := range map[string]string{
		"lamp on":                         "skill_id=lamp capability_id=on",
		"lamp on params.level=3":          "skill_id=lamp capability_id=on params.level=3",
		"capability_id=on lamp":           "capability_id=on skill_id=lamp",
		"on skill_id=lamp":                "capability_id=on skill_id=lamp",
		"@file {\"a\":1} lamp async=true": "@file {\"a\":1} skill_id=lamp async=true",
		"":                                "",
	} {
		got, err := nameWords(strings.Fields(words), required)
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("%s: %q, %v", words, got, err)
		}
	}
	if got, err := nameWords([]string{"lamp", "on", "more"}, required); err == nil || !strings.Contains(err.Error(), `"more"`) {
		t.Errorf("a word too many: %q, %v", got, err)
	}
}

// TestYAMLMeansWhatJSONDoes reads back what is shown, with what YAML would take
// for something else.
func TestYAMLMeansWhatJSONDoes(t *testing.T) {
	const result = `{"b":1,"a":-2.5e3,"yes":"yes","no":false,"null":null,"text":"null","number":"012","time":"2026-01-02","lines":"a\nb\n","emoji":"\ud83d\ude00 灯","empty":"","list":[],"in":{"x":[{"y":"- z: #"}],"o":{}}}`
	var out bytes.Buffer
	if err := asYAML.write(&out, json.RawMessage(result), nil); err != nil {
		t.Fatal(err)
	}
	var got, want any
	if err := yaml.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatalf("%v:\n%s", err, out.String())
	}
	again, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(again, &got); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(result), &want); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v:\n%s", got, want, out.String())
	}
	if !strings.HasPrefix(out.String(), "b: 1\na: ") {
		t.Errorf("not in the order of the bridge:\n%s", out.String())
	}
	out.Reset()
	if err := asYAML.write(&out, json.RawMessage(`{"name":"\u001b[31m\u202ered"}`), nil); err != nil || strings.ContainsAny(out.String(), "\x1b\u202e") {
		t.Errorf("%v: it steers the terminal: %q", err, out.String())
	}
}

// TestNounsWork uses the commands that people try first against a bridge.
func TestNounsWork(t *testing.T) {
	bridge := startBinary(t, t.TempDir())
	key, err := os.ReadFile(filepath.Join(bridge.data, app.AdminKeyFile))
	if err != nil {
		t.Fatal(err)
	}
	c := dial(t, bridge, client.WithAPIKey(strings.TrimSpace(string(key))), client.WithAgent(client.Agent{ID: "lights"}))
	if _, err := c.ServeSkill(t.Context(), client.Skill{
		ID: "led-strip", Name: "LED strip", Description: "Light", Version: "1.0.0",
		Capabilities: []client.Capability{{ID: "dim", Handler: client.Handle(func(_ context.Context, _ *client.Invocation, p struct {
			Level int `json:"level"`
		},
		) (map[string]int, error) {
			return map[string]int{"level": p.Level}, nil
		})}},
	}); err != nil {
		t.Fatal(err)
	}
	watched := watch(t, bridge)
	for args, want := range map[string]string{
		"agent list":                                      "lights",
		"agent get lights -o yaml":                        "agent_id: lights",
		"skill list -o json":                              `"skill_id": "led-strip"`,
		"skill invoke led-strip dim params.level=7":       `{"level":7}`,
		"skill invoke capability_id=dim led-strip --json": `"level": 0`,
		"task list --output=table":                        "tasks",
	} {
		if out := bridge.aibridge(t, strings.Fields(args)...); !strings.Contains(out, want) {
			t.Errorf("aibridge %s: %s", args, out)
		}
	}
	eventually.Holds(t, "that watch shows an invocation and its answer", func() bool {
		bridge.aibridge(t, "skill", "invoke", "led-strip", "dim", "params.level=7") // until it has subscribed
		seen := watched()
		return strings.Contains(seen, `→ skill.invoke {"skill_id":"led-strip","capability_id":"dim","params":{"level":7}}`) && strings.Contains(seen, `← success {"level":7}`)
	})
	if out, stderr, code := run(t, bridge, "version", "-o", "yaml"); code != 0 || !strings.Contains(out, "protocol:") {
		t.Errorf("aibridge version: %d %s%s", code, out, stderr)
	}
	for args, want := range map[string]string{
		"skill invoke ledstrip dim":                             "did you mean led-strip?",
		"call skill.invoke skill_id=ledstrip capability_id=dim": "did you mean led-strip?",
		"agent get light":                                       "did you mean lights?",
		"agent get lights too much":                             `"too" has no name`,
		"agent list -o xml":                                     "none of [table json yaml csv]",
		"skill invok led-strip dim":                             "did you mean invoke?",
	} {
		if _, stderr, code := run(t, bridge, strings.Fields(args)...); code == 0 || !strings.Contains(stderr, want) {
			t.Errorf("aibridge %s: %d %s", args, code, stderr)
		}
	}
}
