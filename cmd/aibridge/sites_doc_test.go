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
	section := sectionOf(t, readPage(t, "sites.md"), "Try it")
	there := strings.NewReplacer("127.0.0.1:1883", centre.addresses.MQTT, "127.0.0.1:9010", centre.addresses.HTTP)
	plant := startBinary(t, t.TempDir(), "--config", settingsOf(t, there.Replace(section))) // at addresses of its own
	_, port, _ := strings.Cut(plant.addresses.MQTT, ":")
	// All at once: the address of the centre may begin with that of the page's plant.
	section = strings.NewReplacer("127.0.0.1:1883", centre.addresses.MQTT, "127.0.0.1:1893", plant.addresses.MQTT, "-p 1893", "-p "+port,
		"127.0.0.1:9110", plant.addresses.HTTP).Replace(section)
	shell := startShell(t, centre)
	shell.follow(t, tour(section))
}
