package main

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/llm/wire/scripted"
)

// TestTheHomeAssistantPageWorksAsWritten runs its commands in one shell, with a
// model that does as it is told: an announcement alone makes a lamp that a chat
// dims after an approval.
func TestTheHomeAssistantPageWorksAsWritten(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"bash", "awk", "mosquitto_pub", "mosquitto_sub"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not installed", tool)
		}
	}
	model := scripted.ForBridge(t, callsTool("ha_light_hall_light_set", `{"brightness":50}`), saysText("The lamp is at 50 percent."))
	bridge := startBinary(t, t.TempDir(), "--dev", "--connect-homeassistant-space", "default", "--connect-homeassistant-topics", "zigbee2mqtt/#", "--approvals-ask-about", "medium",
		"--connect-homeassistant-publish-space", "default", "--connect-homeassistant-publish-skills", "desk*",
		"--llm-base-url", model.URL+"/v1", "--llm-model", "obedient")
	shell := startShell(t, bridge)
	fmt.Fprintln(shell.in, `aibridge() { bin/aibridge "$@"; }`)
	shell.follow(t, tour(readPage(t, "home-assistant.md")))
	if told := model.Requests(); len(told) != 2 || !strings.Contains(string(told[1].Body), `\"confirmed\":true`) {
		t.Errorf("the model was not told that it is done: %d requests", len(told))
	}
}
