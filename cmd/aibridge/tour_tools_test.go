package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/internal/gobuild"
	"github.com/aibridge/aibridge/llm/wire/scripted"
)

// callsTool is a provider's answer that calls one tool.
func callsTool(name, arguments string) scripted.Reply {
	text, _ := json.Marshal(arguments)
	return scripted.Stream(`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"call","type":"function","function":{"name":"`+name+`","arguments":`+string(text)+`}}]}}]}`,
		`{"choices":[{"delta":{},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":10,"completion_tokens":3}}`, "[DONE]")
}

func saysText(text string) scripted.Reply {
	raw, _ := json.Marshal(text)
	return scripted.Stream(`{"choices":[{"delta":{"content":`+string(raw)+`}}]}`,
		`{"choices":[{"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":10,"completion_tokens":3}}`, "[DONE]")
}

// TestLettingAModelUseToolsWorksAsWritten runs the tour's section about
// tools, with a model that does as it is told.
func TestLettingAModelUseToolsWorksAsWritten(t *testing.T) {
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("bash is not installed")
	}
	page, err := os.ReadFile("../../docs/tour.md")
	if err != nil {
		t.Fatal(err)
	}
	model := scripted.ForBridge(t,
		callsTool("thermostat-go_set_target", `{"celsius":22}`), callsTool("thermostat-go_read", `{}`), saysText("It is set."),
		callsTool("oven_heat", `{"celsius":220}`), saysText("I was not allowed to."))
	thermostat := filepath.Join(t.TempDir(), "thermostat-go")
	if out, err := gobuild.Command(t.Context(), "build", "-o", thermostat, "../../examples/thermostat-go").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	section := strings.ReplaceAll(sectionOf(t, string(page), "Let it use tools"), "go run ./examples/thermostat-go", thermostat)
	steps := tour(section)
	if len(steps) != 11 {
		t.Fatalf("found %d steps", len(steps))
	}
	shell := startShell(t, startBinary(t, t.TempDir(), "--dev", "--llm-base-url", model.URL+"/v1", "--llm-model", "obedient"))
	for i, step := range steps {
		shell.take(t, i, step)
	}
	told := model.Requests()
	for n, want := range map[int]string{2: `\"target\":22`, 4: "denied the call: nobody is home"} {
		if body := string(told[n].Body); !strings.Contains(body, want) {
			t.Errorf("the model was not told %s but %s", want, body)
		}
	}
}
