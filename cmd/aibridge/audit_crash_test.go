package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/client"
)

// TestTheAuditTrailIsWholeAfterKill kills the bridge in the middle of its work:
// what was acknowledged stands in the trail, and the trail is whole.
func TestTheAuditTrailIsWholeAfterKill(t *testing.T) {
	data := t.TempDir()
	bridge := startBinary(t, data, "--dev")
	c := dial(t, bridge)
	const most = 300
	acknowledged := make(chan int, most)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		defer close(acknowledged)
		for i := range most {
			params := fmt.Sprintf(`{"agent_id":"agent-%d","type":"end_agent"}`, i)
			if _, err := client.Call[json.RawMessage](ctx, c, "agent.register", json.RawMessage(params)); err != nil {
				return
			}
			acknowledged <- i
		}
	}()
	last := -1
	for i := range acknowledged {
		if last = i; i == 50 {
			bridge.kill()
			cancel()
		}
	}
	if last < 50 {
		t.Fatalf("only %d were acknowledged", last+1)
	}
	if out, stderr, code := run(t, bridge, "audit", "verify", "--offline"); code != 0 {
		t.Fatalf("verify of what the crash left: %d %s%s", code, out, stderr)
	}

	bridge = startBinary(t, data, "--dev")
	if out, stderr, code := run(t, bridge, "audit", "verify"); code != 0 {
		t.Errorf("verify of the bridge that runs again: %d %s%s", code, out, stderr)
	}
	out, stderr, code := run(t, bridge, "audit", "query", "--event", "agent.register", "--limit", "1000")
	if code != 0 {
		t.Fatalf("query: %s", stderr)
	}
	for i := range last + 1 {
		if !strings.Contains(out, fmt.Sprintf("agent/agent-%d ", i)) {
			t.Errorf("the trail lacks agent-%d, which was acknowledged", i)
		}
	}
}
