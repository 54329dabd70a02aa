package main

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/aibridge/aibridge/internal/eventually"
)

// TestTheCommandLineLearnsTheRootFromTheBridge uses a bridge whose topics are
// elsewhere, told and untold.
func TestTheCommandLineLearnsTheRootFromTheBridge(t *testing.T) {
	bridge := startBinary(t, t.TempDir(), "--dev", "--root", "house")
	watched := watch(t, bridge)
	for i, flags := range [][]string{{}, {"--root", "house"}, {"--url", "mqtt://" + bridge.addresses.MQTT}, {"--url", "ws://" + bridge.addresses.WS}} {
		id := string(rune('a' + i))
		args := append([]string{"call", "agent.register", "agent_id=" + id, "type=end_agent"}, flags...)
		if out, stderr, code := run(t, bridge, args...); code != 0 || !strings.Contains(out, "house/agent/"+id+"/request") {
			t.Errorf("%q: %d %s %s", flags, code, out, stderr)
		}
		eventually.Holds(t, "that watch shows it", func() bool { return strings.Contains(watched(), "house/agent/"+id+"/card") })
	}
	if _, _, code := run(t, bridge, "call", "agent.list", "--root", "elsewhere", "--timeout", "1s"); code == 0 {
		t.Error("another root is answered, too")
	}
}

// watch runs aibridge watch until the test ends, and returns what it has shown
// so far.
func watch(t *testing.T, b *binary) (shown func() string) {
	t.Helper()
	out := new(lockedBuffer)
	cmd := exec.Command(b.path, "watch")
	cmd.Env = append(os.Environ(), "AIBRIDGE_DATA="+b.data)
	cmd.Stdout = out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return out.String
}

// A lockedBuffer is written by one goroutine and read by another.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
