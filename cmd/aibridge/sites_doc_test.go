package main

import (
	"os/exec"
	"strings"
	"testing"
)

// TestTheSitesPageWorksAsWritten runs two bridges, of which one is a site of the
// other, and the commands of the page.
func TestTheSitesPageWorksAsWritten(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"bash", "mosquitto_pub", "mosquitto_sub"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not installed", tool)
		}
	}
	centre := startBinary(t, t.TempDir(), "--dev")
	section := strings.ReplaceAll(sectionOf(t, readPage(t, "sites.md"), "Try it"), "127.0.0.1:1883", centre.addresses.MQTT)
	plant := startBinary(t, t.TempDir(), "--config", settingsOf(t, section)) // at addresses of its own
	section = strings.ReplaceAll(section, "127.0.0.1:1893", plant.addresses.MQTT)
	_, port, _ := strings.Cut(plant.addresses.MQTT, ":")
	section = strings.ReplaceAll(section, "-p 1893", "-p "+port)
	shell := startShell(t, centre)
	shell.follow(t, tour(section))
}
