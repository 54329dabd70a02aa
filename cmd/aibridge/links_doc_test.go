package main

import (
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestTheLinksPageWorksAsWritten runs it with a mosquitto, which it kills: a lamp
// there is an agent here.
func TestTheLinksPageWorksAsWritten(t *testing.T) {
	for _, tool := range []string{"bash", "mosquitto_pub", "mosquitto_sub"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not installed", tool)
		}
	}
	if _, err := exec.LookPath("mosquitto"); err != nil {
		if _, err := exec.LookPath("/usr/sbin/mosquitto"); err != nil {
			t.Skip("mosquitto is not installed")
		}
		t.Setenv("PATH", os.Getenv("PATH")+":/usr/sbin") // where Debian has it
	}
	_, port, err := net.SplitHostPort(freeAddress())
	if err != nil {
		t.Fatal(err)
	}
	section := strings.ReplaceAll(sectionOf(t, readPage(t, "links.md"), "Try it"), "1884", port)
	config := settingsOf(t, section)
	shell := startShell(t, startBinary(t, t.TempDir(), "--config", config))
	shell.follow(t, tour(section))
}
