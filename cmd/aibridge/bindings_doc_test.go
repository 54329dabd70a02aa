package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/internal/eventually"
)

// TestTheBindingsPageWorksAsWritten runs its commands in one shell, with its
// files.
func TestTheBindingsPageWorksAsWritten(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"bash", "mosquitto_pub", "mosquitto_sub"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not installed", tool)
		}
	}
	page := readPage(t, "bindings.md")
	folder := t.TempDir()
	file := filepath.Join(folder, "lamp.yaml")
	if err := os.WriteFile(file, []byte(blockOf(t, page, "yaml")), 0o600); err != nil {
		t.Fatal(err)
	}
	bridge := startBinary(t, t.TempDir(), "--dev", "--connect-bindings", file)
	shell := startShell(t, bridge)
	for name, text := range map[string]string{"lamp.yaml": blockOf(t, page, "yaml"), "lamps.cedar": blockOf(t, page, "cedar")} {
		if err := os.WriteFile(filepath.Join(shell.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	fmt.Fprintln(shell.in, `aibridge() { bin/aibridge "$@"; }`)
	shell.follow(t, tour(page))
}

// follow runs steps. What others do in the background may take a moment, so that
// a step that only asks is run again until it prints what it promises.
func (s *shell) follow(t *testing.T, steps []step) {
	t.Helper()
	if len(steps) < 3 {
		t.Fatalf("found only %d steps", len(steps))
	}
	for i, step := range steps {
		out := s.run(t, i, step.script)
		last := step.script[strings.LastIndexByte(strings.TrimSuffix(step.script, "\n"), '\n')+1:]
		eventually.Holds(t, fmt.Sprintf("%s prints %q", step.script, step.want), func() bool {
			if strings.Contains(out, step.want) {
				return true
			}
			out = s.run(t, i, last)
			return false
		}, &out)
	}
}

func readPage(t *testing.T, name string) string {
	t.Helper()
	page, err := os.ReadFile("../../docs/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(page)
}

// blockOf is the first block of a page in a language.
func blockOf(t *testing.T, page, language string) string {
	t.Helper()
	_, block, ok := strings.Cut(page, "```"+language+"\n")
	if !ok {
		t.Fatalf("the page has no block of %s", language)
	}
	block, _, _ = strings.Cut(block, "```")
	return block
}
