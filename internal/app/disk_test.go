package app_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/aibridge/aibridge/internal/app"
	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/internal/diskspace"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/protocol"
)

const (
	plenty = 500 << 30
	little = 1 << 20
)

// onADisk starts a bridge on a disk of which the test says how much is free.
func onADisk(t *testing.T, free *atomic.Int64) *bridgetest.Node {
	return bridgetest.StartWith(t, []app.Option{app.WithDisk(func(string) (diskspace.Disk, error) {
		return diskspace.Disk{Free: free.Load(), Size: 1 << 40}, nil
	})})
}

func readiness(t *testing.T, n *bridgetest.Node, status int, text string) {
	t.Helper()
	var got int
	var body []byte
	eventually.Holds(t, "that readiness is told", func() bool {
		got, body = ask(t, http.MethodGet, n.HTTPURL("/readyz"))
		return got == status && strings.Contains(string(body), text)
	}, &got, &body)
}

func TestABridgeGoesOnWhileItsDiskIsNearlyFull(t *testing.T) {
	var free atomic.Int64
	free.Store(plenty)
	n := onADisk(t, &free)
	lamp := n.Device(t, "lamp", "lamp", `["switch"]`)
	caller := n.Caller(t, "caller")
	readiness(t, n, http.StatusOK, "ready")

	free.Store(little)
	readiness(t, n, http.StatusServiceUnavailable, `"4005"`)
	const another = `{"agent_id":"another","type":"end_agent"}`
	refused := caller.Ask(t, bridgetest.Request(protocol.NewID(), "agent.register", another))
	if refused.Err == nil || refused.Err.Code != protocol.NoSpace {
		t.Errorf("a registration on a full disk: %v", refused.Err)
	}
	if status, body := put(t, n); status != http.StatusInsufficientStorage || !strings.Contains(string(body), `"4005"`) {
		t.Errorf("an upload to a full disk: %d %s", status, body)
	}
	if status, body := ask(t, http.MethodGet, n.HTTPURL("/metrics")); status != http.StatusOK || !strings.Contains(string(body), "\naibridge_disk_low 1\n") {
		t.Error("no metric tells of it")
	}
	goesOn(t, caller, lamp)

	n.Restart(t)
	readiness(t, n, http.StatusServiceUnavailable, `"4005"`)
	lamp, caller = n.Connect(t, "lamp"), n.Caller(t, "caller")
	lamp.Listen(t, "aibridge/agent/lamp/request")
	goesOn(t, caller, lamp)
	must(t, caller, "skill.unregister", `{"skill_id":"lamp"}`)

	free.Store(plenty)
	readiness(t, n, http.StatusOK, "ready")
	must(t, caller, "agent.register", another)
	if status, body := put(t, n); status != http.StatusOK {
		t.Errorf("an upload: %d %s", status, body)
	}
}

// put uploads a small file.
func put(t *testing.T, n *bridgetest.Node) (status int, answer []byte) {
	return post(t, n.HTTPURL("/vfs/upload?group_name=papers&path=note.txt"), "content", "Content-Type", "text/plain")
}

// goesOn invokes the lamp's skill.
func goesOn(t *testing.T, caller, lamp *bridgetest.Raw) {
	t.Helper()
	id := protocol.NewID()
	caller.Send(t, "aibridge/bridge/request", bridgetest.Request(id, "skill.invoke", `{"skill_id":"lamp","capability_id":"switch"}`))
	lamp.Reply(t, "lamp", lamp.Invocation(t), map[string]bool{"on": true})
	if answer := caller.Answer(t); answer.Err != nil {
		t.Errorf("an act on a full disk: %v", answer.Err)
	}
}
