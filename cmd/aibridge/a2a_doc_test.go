package main

import (
	"context"
	"os/exec"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/client"
)

// TestTheA2APageWorksAsWritten runs its commands in one shell, at a bridge with all
// that the page switches on. The agent elsewhere is a second bridge.
func TestTheA2APageWorksAsWritten(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"bash", "curl", "jq", "mosquitto_pub", "mosquitto_sub"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not installed", tool)
		}
	}
	annex := startBinary(t, t.TempDir(), "--dev", "--a2a-on")
	bridge := startBinary(t, t.TempDir(), "--dev", "--a2a-on", "--a2a-remote", "--a2a-remote-private", "--a2a-mqtt", "acme/bridge")
	serveHeater(t, annex)
	serveHeater(t, bridge)
	page := strings.ReplaceAll(readPage(t, "a2a.md"), "127.0.0.1:9011", annex.addresses.HTTP)
	startShell(t, bridge).follow(t, tour(page))
}

// serveHeater serves a heater that tells its target.
func serveHeater(t *testing.T, b *binary) {
	t.Helper()
	_, err := dial(t, b, client.WithAgent(client.Agent{ID: "heater-1"})).ServeSkill(t.Context(), client.Skill{
		ID: "heater", Description: "Heats",
		Capabilities: []client.Capability{{
			ID: "set", Description: "Sets the target",
			Handler: client.Handle(func(_ context.Context, _ *client.Invocation, p struct {
				Celsius float64 `json:"celsius"`
			}) (map[string]float64, error) {
				return map[string]float64{"target": p.Celsius}, nil
			}),
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
}
