package main

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/internal/eventually"
)

// TestAnAgentTakesNobodysIDByMistake starts a second agent under the id of one
// that is at work.
func TestAnAgentTakesNobodysIDByMistake(t *testing.T) {
	bridge := startBinary(t, t.TempDir())
	serve := func(flags ...string) (log *lockedBuffer, ended chan struct{}) {
		t.Helper()
		log, ended = new(lockedBuffer), make(chan struct{})
		cmd := exec.Command(bridge.path, append([]string{"agent", "end", "--id", "device", "--skills", "../../examples/skills", "--data", bridge.data}, flags...)...)
		cmd.Stderr = log
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		go func() {
			_ = cmd.Wait()
			close(ended)
		}()
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			<-ended
		})
		return log, ended
	}
	first, firstEnded := serve()
	eventually.Holds(t, "the first", func() bool { return strings.Contains(bridge.aibridge(t, "agent", "list"), "online") })

	_, stderr, code := run(t, bridge, "agent", "end", "--id", "device", "--skills", "../../examples/skills")
	if code != 30 || !strings.Contains(stderr, "3006") || !strings.Contains(stderr, "--take-over") {
		t.Errorf("a second agent: %d %s", code, stderr)
	}
	select {
	case <-firstEnded:
		t.Fatalf("the first has ended: %s", first)
	default:
	}
	second, _ := serve("--take-over")
	eventually.Holds(t, "that the second takes its place", func() bool {
		select {
		case <-firstEnded:
			return strings.Contains(second.String(), "serves")
		default:
			return false
		}
	})
}
