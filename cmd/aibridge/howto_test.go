package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
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
	nights := 0
	for i, step := range steps {
		nights += strings.Count(step.script, pageNight)
		step.script = strings.ReplaceAll(step.script, pageNight, farNight())
		shell.take(t, i, step)
	}
	if nights != 1 {
		t.Errorf("%q is on the page %d times", pageNight, nights)
	}
}

// pageNight is when the page has a rollout go on, in Berlin.
const pageNight = "0 2 * * *"

// farNight is half a day away, so that a rollout that waits for the night waits
// at whatever hour the test runs.
func farNight() string {
	return fmt.Sprintf("0 %d * * *", (time.Now().UTC().Hour()+13)%24) // Berlin is one hour ahead, or two
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
