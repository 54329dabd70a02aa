package route_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/aibridge/aibridge/agent/route"
	"github.com/aibridge/aibridge/client"
	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/protocol"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// scene is a bridge with a lamp that is there, a lamp that is not, and a
// route agent for both.
func scene(t *testing.T) (lamp *bridgetest.Raw, caller *client.Client) {
	t.Helper()
	n := bridgetest.Start(t)
	lamp = n.Device(t, "lamp-1", "lamp-1", `["switch"]`)
	caller = n.Dial(t)
	for _, ask := range []struct {
		command string
		params  map[string]any
	}{
		{"cap.declare", map[string]any{"cap_id": "home", "cap_name": "Home", "skill_id": "router"}},
		{"group.member.add", map[string]any{"cap_id": "home", "group_id": "lamps", "skill_id": "lamp-1", "role": "lamp"}},
		{"group.member.add", map[string]any{"cap_id": "home", "group_id": "lamps", "skill_id": "lamp-2", "role": "lamp"}},
	} {
		if _, err := client.Call[json.RawMessage](t.Context(), caller, ask.command, ask.params); err != nil {
			t.Fatalf("%s: %v", ask.command, err)
		}
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	agent := n.Dial(t, client.WithAgent(client.Agent{ID: "router", Type: client.RouteAgent}))
	go func() {
		ended <- route.Run(ctx, route.Options{Client: agent, Skill: "router", Scene: "SMART_HOME", Cap: "home", Group: "lamps"})
	}()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	bridgetest.Eventually(t, "the route agent is discovered", func() bool {
		found, err := client.Call[json.RawMessage](t.Context(), caller, "skill.discover", map[string]any{"capability": "route"}, client.Fresh())
		return err == nil && strings.Contains(string(found), `"router"`)
	})
	return lamp, caller
}

func routed(t *testing.T, caller *client.Client, params map[string]any, opts ...client.CallOption) (route.Summary, error) {
	t.Helper()
	answer, err := client.Call[struct {
		Data route.Summary `json:"data"`
	}](t.Context(), caller, "skill.invoke", map[string]any{"skill_id": "router", "capability_id": "route", "params": params}, opts...)
	return answer.Data, err
}

func TestARouteAgentBroadcastsAndReturnsTheSummary(t *testing.T) {
	lamp, caller := scene(t)
	go func() { lamp.Reply(t, "lamp-1", lamp.Invocation(t), map[string]bool{"on": true}) }()
	got, err := routed(t, caller, map[string]any{"capability_id": "switch", "params": map[string]any{"on": true}, "deadline_ms": 500})
	if err != nil {
		t.Fatal(err)
	}
	if got.State != "partial" || got.Online != 1 || got.Counts["ok"] != 1 || got.Counts["offline"] != 1 || got.Scene != "SMART_HOME" ||
		!strings.Contains(string(got.Members), `"on":true`) {
		t.Errorf("got %+v %s", got, got.Members)
	}
}

func TestWhatTheBridgeRefusesTheRouteAgentRefuses(t *testing.T) {
	_, caller := scene(t)
	if _, err := routed(t, caller, map[string]any{"capability_id": "switch", "group_id": "nobody"}); protocol.CodeOf(err) != protocol.NotFound {
		t.Errorf("an unknown group: %v", err)
	}
	if _, err := routed(t, caller, map[string]any{"capability_id": "switch", "cap_id": "other"}); protocol.CodeOf(err) != protocol.InvalidParameter {
		t.Errorf("another Cap: %v", err)
	}
}

func TestWhenNobodyWaitsAnyMoreTheDevicesAreTold(t *testing.T) {
	lamp, caller := scene(t)
	started, err := client.Call[struct {
		Task protocol.TaskID `json:"task_id"`
	}](t.Context(), caller, "skill.invoke", map[string]any{"skill_id": "router", "capability_id": "route", "async": true,
		"params": map[string]any{"capability_id": "switch"}})
	if err != nil {
		t.Fatal(err)
	}
	call := lamp.Invocation(t)
	if _, err := client.Call[json.RawMessage](t.Context(), caller, "task.cancel", map[string]any{"task_id": started.Task}); err != nil {
		t.Fatal(err)
	}
	if told := lamp.Invocation(t); told.Command != "task.cancel" || !strings.Contains(string(told.Params), call.ID) {
		t.Errorf("the lamp is told %s %s", told.Command, told.Params)
	}
}
