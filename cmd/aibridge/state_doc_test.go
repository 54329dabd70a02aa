package main

import (
	"fmt"
	"os/exec"
	"testing"
)

// TestTheStatePageWorksAsWritten runs its commands in one shell.
func TestTheStatePageWorksAsWritten(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"bash", "mosquitto_pub", "mosquitto_sub"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not installed", tool)
		}
	}
	shell := startShell(t, startBinary(t, t.TempDir(), "--dev"))
	fmt.Fprintln(shell.in, `aibridge() { bin/aibridge "$@"; }`)
	shell.follow(t, tour(readPage(t, "state.md")))
}
