// Package gobuild runs the go command for tests that need a program.
package gobuild

import (
	"context"
	"os"
	"os/exec"
)

// Command is "go args…" with the settings of `make build`. Packages that were compiled
// for other settings are compiled again, all hundreds of them, and under the race
// detector the environment of a test has other settings.
func Command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-trimpath")
	return cmd
}
