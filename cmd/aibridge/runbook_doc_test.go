package main

import (
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// program finds commands of aibridge in prose and in blocks that are not run.
var program = regexp.MustCompile("(?m)(?:^|`)aibridge ([a-z][^`|#\n]*)")

// TestCommandsThatTheRunbookAdvisesAreThere resolves those that stand in its
// sentences, down to their flags.
func TestCommandsThatTheRunbookAdvisesAreThere(t *testing.T) {
	found := program.FindAllStringSubmatch(readPage(t, "runbook.md"), -1)
	if len(found) < 50 {
		t.Errorf("found only %d commands", len(found))
	}
	for _, m := range found {
		if err := advisable(m[1]); err != nil {
			t.Errorf("aibridge %s: %v", m[1], err)
		}
	}
}

// advisable says why nobody could run a line of words.
func advisable(line string) error {
	words := strings.Fields(strings.NewReplacer("'", "", `"`, "").Replace(line))
	cmd, rest, err := root().Find(words)
	if err != nil {
		return err
	}
	if err := cmd.ParseFlags(rest); err != nil {
		return err
	}
	if !cmd.Runnable() {
		return errors.New("it is a family of commands")
	}
	if cmd.Args == nil {
		return nil
	}
	return cmd.Args(cmd, cmd.Flags().Args())
}

// TestTheRunbookWorksAsWritten runs each line that tells where to look, at a bridge
// that is linked to another broker.
func TestTheRunbookWorksAsWritten(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("bash is not installed")
	}
	config := filepath.Join(t.TempDir(), "bridge.yaml")
	if err := os.WriteFile(config, []byte(`links: [{name: away, url: "mqtt://127.0.0.1:1", out: [{topic: "out/#"}]}]`), 0o600); err != nil {
		t.Fatal(err)
	}
	shell := startShell(t, startBinary(t, t.TempDir(), "--dev", "--config", config))
	lines := make(map[string]bool)
	for _, step := range tour(readPage(t, "runbook.md")) {
		for line := range strings.Lines(step.script) {
			lines[line] = true
		}
	}
	if len(lines) < 15 {
		t.Fatalf("found only %d", len(lines))
	}
	for i, line := range slices.Sorted(maps.Keys(lines)) {
		if out := shell.run(t, i, strings.TrimSuffix(line, "\n")+"\necho \"exit $?\"\n"); !strings.HasSuffix(out, "exit 0\n") {
			t.Errorf("%s%s", line, out)
		}
	}
}
