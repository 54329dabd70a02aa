package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/llm/wire/scripted"
)

// TestAskingAModelWorksAsWritten runs the tour's section about
// language models: both ways to serve, with the addresses of providers
// adapted, and every line in between.
func TestAskingAModelWorksAsWritten(t *testing.T) {
	for _, tool := range []string{"bash", "mosquitto_rr", "curl"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not installed", tool)
		}
	}
	page, err := os.ReadFile("../../docs/tour.md")
	if err != nil {
		t.Fatal(err)
	}
	answer := scripted.Stream(`{"choices":[{"delta":{"content":"A bit."}}]}`,
		`{"choices":[{"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":10,"completion_tokens":3}}`, "[DONE]")
	first, second := scripted.ForBridge(t, answer), scripted.ForBridge(t, answer)
	section := strings.NewReplacer("http://127.0.0.1:11434", first.URL, "http://127.0.0.1:11435", second.URL).
		Replace(sectionOf(t, string(page), "Ask a language model"))

	file := filepath.Join(t.TempDir(), "llm.yaml")
	if err := os.WriteFile(file, []byte(blocks(section, "yaml")[0]), 0o600); err != nil {
		t.Fatal(err)
	}
	serves, steps := blocks(section, "console"), tour(section)
	if len(serves) != 2 || len(steps) != 5 {
		t.Fatalf("found %d bridges and %d steps", len(serves), len(steps))
	}
	serve := func(command string) *shell {
		flags, ok := strings.CutPrefix(strings.TrimSpace(command), "bin/aibridge serve ")
		if !ok {
			t.Fatalf("%q serves nothing", command)
		}
		flags = strings.ReplaceAll(flags, "llm.yaml", file)
		return startShell(t, startBinary(t, t.TempDir(), strings.Fields(flags)...))
	}
	shell := serve(serves[0])
	for i, step := range steps[:3] {
		shell.take(t, i, step)
	}
	shell = serve(serves[1])
	shell.take(t, 0, step{"bin/aibridge call llm.query query=hello\n", "result"})
	asked := len(second.Requests())
	first.Stop()
	for i, step := range steps[3:] {
		shell.take(t, i+1, step)
	}
	if len(second.Requests()) == asked {
		t.Error("the second provider was not asked")
	}
}

// blocks are the code blocks of a language in a text.
func blocks(text, language string) (list []string) {
	for _, block := range strings.Split(text, "```"+language+"\n")[1:] {
		block, _, _ = strings.Cut(block, "```")
		list = append(list, block)
	}
	return list
}
