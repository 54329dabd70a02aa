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
// the last command of a step is run again until it prints what the step promises.
func (s *shell) follow(t *testing.T, steps []step) {
	t.Helper()
	if len(steps) < 3 {
		t.Fatalf("found only %d steps", len(steps))
	}
	for i, step := range steps {
		out := s.run(t, i, step.script)
		eventually.Holds(t, fmt.Sprintf("%s prints %q", step.script, step.want), func() bool {
			if strings.Contains(out, step.want) {
				return true
			}
			out = s.run(t, i, lastCommand(t, step.script))
			return false
		}, &out)
	}
}

// lastCommand is the last command of a script, with all of its lines.
func lastCommand(t *testing.T, script string) string {
	t.Helper()
	lines := strings.SplitAfter(strings.TrimSuffix(script, "\n"), "\n")
	for first := len(lines) - 1; first > 0; first-- {
		command := strings.Join(lines[first:], "")
		if goesOn := strings.HasSuffix(lines[first-1], "\\\n"); !goesOn && exec.CommandContext(t.Context(), "bash", "-n", "-c", command).Run() == nil {
			return command + "\n"
		}
	}
	return script
}

// TestTheLastCommandIsWhole has commands of several lines, in one pair of quotes and
// with a line that goes on in the next.
func TestTheLastCommandIsWhole(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("bash is not installed")
	}
	for script, want := range map[string]string{
		"one\n":                              "one\n",
		"one\ntwo\n":                         "two\n",
		"one\ntwo '{\n  \"a\": 1}'\n":        "two '{\n  \"a\": 1}'\n",
		"one\ntwo \\\n  -d '{\n\"a\": 1}'\n": "two \\\n  -d '{\n\"a\": 1}'\n",
		"one \\\n  -x\n":                     "one \\\n  -x\n",
		"two '{\n  \"a\": 1}'\n":             "two '{\n  \"a\": 1}'\n",
	} {
		if got := lastCommand(t, script); got != want {
			t.Errorf("the last command of\n%sis\n%snot\n%s", script, got, want)
		}
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
