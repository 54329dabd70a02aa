package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/llm/wire/scripted"
)

// TestModelsOfLiteLLMGoOn runs the page, serves what it made, and asks: first
// the service with its key, then the one to fall back to.
func TestModelsOfLiteLLMGoOn(t *testing.T) {
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("bash is not installed")
	}
	page, err := os.ReadFile("../../docs/coming-from-litellm.md")
	if err != nil {
		t.Fatal(err)
	}
	path, err := build()
	if err != nil {
		t.Fatal(err)
	}
	answer := scripted.Stream(`{"choices":[{"delta":{"content":"A bit."}}]}`,
		`{"choices":[{"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":10,"completion_tokens":3}}`, "[DONE]")
	house, spare := scripted.ForBridge(t, answer), scripted.ForBridge(t, answer)
	section := strings.NewReplacer("http://127.0.0.1:8000", house.URL, "http://127.0.0.1:11434", spare.URL).Replace(sectionOf(t, string(page), "Try it"))
	work := t.TempDir()
	in := func(script string) (string, error) {
		shell := exec.Command("bash", "-e", "-c", script)
		shell.Dir = work
		shell.Env = append(os.Environ(), "PATH="+filepath.Dir(path)+":"+os.Getenv("PATH"))
		out, err := shell.CombinedOutput()
		return string(out), err
	}
	steps := tour(section)
	if len(steps) != 4 {
		t.Fatalf("the page has %d steps", len(steps))
	}
	for i, step := range steps {
		if out, err := in(step.script); err != nil || !strings.Contains(out, step.want) {
			t.Fatalf("step %d\n%s\nmust print %q, but printed\n%s%v", i, step.script, step.want, out, err)
		}
	}
	if out, err := in("aibridge import litellm old/config.yaml --to new"); err == nil || !strings.Contains(out, "is there already") {
		t.Errorf("a file is overwritten: %s", out)
	}
	b := startBinary(t, t.TempDir(), "--llm-file", filepath.Join(work, "new", "llm.yaml"))
	ask := func(query string) {
		t.Helper()
		out, stderr, code := run(t, b, "call", "llm.advanced-query", `{"query":"`+query+`","options":{"model":"default-model"}}`)
		if code != 0 || !strings.Contains(out, "A bit.") {
			t.Fatalf("the answer is %s%s", out, stderr)
		}
	}
	ask("Is it too warm?")
	asked := false
	for _, r := range house.Requests() {
		asked = asked || r.Path == "/v1/chat/completions" && r.Header.Get("Authorization") == "Bearer correct-horse" && strings.Contains(string(r.Body), "qwen3-32b")
	}
	if !asked {
		t.Errorf("the service was not asked with its key: %v", house.Requests())
	}
	house.Stop()
	ask("Is it too cold?")
	asked = false
	for _, r := range spare.Requests() {
		asked = asked || r.Path == "/v1/chat/completions" && strings.Contains(string(r.Body), "llama3.2")
	}
	if !asked {
		t.Error("the service to fall back to was not asked")
	}
}
