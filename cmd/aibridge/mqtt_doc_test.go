package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestTheMQTTPageWorksAsWritten runs its commands with the bridge of its settings.
func TestTheMQTTPageWorksAsWritten(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"bash", "curl", "jq", "mosquitto_pub", "mosquitto_sub"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not installed", tool)
		}
	}
	page, dir := readPage(t, "mqtt.md"), t.TempDir()
	for file, mark := range map[string]string{"state.schema.json": "JSON", "bridge.yaml": "YAML"} {
		_, rest, _ := strings.Cut(page, "<<'"+mark+"'\n")
		text, _, found := strings.Cut(rest, mark+"\n")
		if !found {
			t.Fatalf("the page has no %s", file)
		}
		text = strings.ReplaceAll(text, "state.schema.json", filepath.Join(dir, "state.schema.json"))
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	shell := startShell(t, startBinary(t, t.TempDir(), "--config", filepath.Join(dir, "bridge.yaml")))
	shell.follow(t, tour(page))
}
