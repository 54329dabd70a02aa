package main

import (
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestAServiceOfEMQXGoesOn runs the page: the service, a bridge that asks it, and
// clients that it knows and does not know.
func TestAServiceOfEMQXGoesOn(t *testing.T) {
	for _, tool := range []string{"bash", "curl", "python3", "mosquitto_pub"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not installed", tool)
		}
	}
	page, err := os.ReadFile("../../docs/coming-from-emqx.md")
	if err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(freeAddress())
	if err != nil {
		t.Fatal(err)
	}
	section := strings.ReplaceAll(sectionOf(t, string(page), "Try it"), "8081", port)
	config := settingsOf(t, section)
	steps := tour(section)
	if len(steps) != 4 {
		t.Fatalf("the page has %d steps", len(steps))
	}
	shell := startShell(t, startBinary(t, t.TempDir(), "--config", config))
	for i, step := range steps {
		shell.take(t, i, step)
	}
}
