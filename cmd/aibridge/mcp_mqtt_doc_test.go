package main

import (
	"os/exec"
	"testing"
)

// TestTheMCPOverMQTTPageWorksAsWritten runs its commands in one shell, at a bridge with
// all that the page switches on.
func TestTheMCPOverMQTTPageWorksAsWritten(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"bash", "mosquitto_pub", "mosquitto_rr", "mosquitto_sub"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not installed", tool)
		}
	}
	bridge := startBinary(t, t.TempDir(), "--dev", "--mcp-devices-on", "--mcp-mqtt", "aibridge")
	startShell(t, bridge).follow(t, tour(readPage(t, "mcp-over-mqtt.md")))
}
