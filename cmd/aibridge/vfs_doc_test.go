package main

import (
	"os/exec"
	"strings"
	"testing"
)

// TestTheFilesPageWorksAsWritten runs its commands in one shell, at a bridge with
// both doors open.
func TestTheFilesPageWorksAsWritten(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"bash", "curl", "jq", "rclone", "mosquitto_pub", "mosquitto_sub"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not installed", tool)
		}
	}
	bridge := startBinary(t, t.TempDir(), "--dev", "--doors-webdav-on", "--doors-s3-on")
	page := strings.ReplaceAll(readPage(t, "vfs.md"), "127.0.0.1:9010", bridge.addresses.HTTP)
	startShell(t, bridge).follow(t, tour(page))
}
