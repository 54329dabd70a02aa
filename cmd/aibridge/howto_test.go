package main

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestTheHowTosWorkAsWritten runs the commands of docs/how-to.md against a bridge
// that lets nobody in without a key.
func TestTheHowTosWorkAsWritten(t *testing.T) {
	for _, tool := range []string{"bash", "curl", "jq"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not installed", tool)
		}
	}
	page, err := os.ReadFile("../../docs/how-to.md")
	if err != nil {
		t.Fatal(err)
	}
	if wishes := strings.Count(string(page), "\n## "); wishes < 20 {
		t.Errorf("the page has %d wishes", wishes)
	}
	steps := tour(string(page))
	if len(steps) < 14 {
		t.Fatalf("found %d steps", len(steps))
	}
	shell := startShell(t, startBinary(t, t.TempDir()))
	for i, step := range steps {
		shell.take(t, i, step)
	}
}

// TestTheSettingsOfTheHowTosAreValid reads each block of settings as a bridge
// does that starts.
func TestTheSettingsOfTheHowTosAreValid(t *testing.T) {
	page, err := os.ReadFile("../../docs/how-to.md")
	if err != nil {
		t.Fatal(err)
	}
	read := 0
	for _, block := range blocks(string(page), "yaml") {
		if strings.HasPrefix(block, " ") {
			continue // a part of a skill.yaml
		}
		read++
		file := filepath.Join(t.TempDir(), "bridge.yaml")
		if err := os.WriteFile(file, []byte(block), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := root()
		cmd.SetOut(io.Discard)
		cmd.SetArgs([]string{"serve", "--config", file, "--data", t.TempDir(), "--print-config"})
		if err := cmd.Execute(); err != nil {
			t.Errorf("%s\n%v", block, err)
		}
	}
	if read < 3 {
		t.Errorf("found %d blocks of settings", read)
	}
}
