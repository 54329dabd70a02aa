package main

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aibridge/aibridge/client"
	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/protocol"
)

// TestADispatchOutlivesTheBridge kills the bridge at different moments of a
// dispatch: every device does it once, and the summary says so.
func TestADispatchOutlivesTheBridge(t *testing.T) {
	const devices = 10
	data := t.TempDir()
	bridge := startBinary(t, data, "--dev")
	address := bridge.addresses.MQTT
	var runs [devices]atomic.Int32
	for i := range devices {
		c := dial(t, bridge, client.WithAgent(client.Agent{ID: protocol.AgentID(fmt.Sprintf("device-%d", i))}))
		_, err := c.ServeSkill(t.Context(), client.Skill{ID: protocol.SkillID(fmt.Sprintf("skill-%d", i)), Capabilities: []client.Capability{{
			ID: "do",
			Handler: func(context.Context, *client.Invocation) (any, error) {
				runs[i].Add(1)
				time.Sleep(time.Duration(i) * 10 * time.Millisecond) // devices are at work for different times
				return map[string]int{"device": i}, nil
			},
		}}})
		if err != nil {
			t.Fatal(err)
		}
	}
	caller := dial(t, bridge)
	ask(t, caller, "cap.declare", `{"cap_id":"home","cap_name":"Home","skill_id":"owner"}`, nil)
	for i := range devices {
		ask(t, caller, "group.member.add", fmt.Sprintf(`{"cap_id":"home","group_id":"all","skill_id":"skill-%d","role":"r"}`, i), nil)
	}
	for round, delay := range []time.Duration{0, 2 * time.Millisecond, 20 * time.Millisecond, 60 * time.Millisecond, 150 * time.Millisecond} {
		var started struct {
			Task protocol.TaskID `json:"task_id"`
		}
		ask(t, caller, "group.dispatch", `{"cap_id":"home","group_id":"all","capability_id":"do","deadline_ms":300000}`, &started)
		time.Sleep(delay)
		bridge.kill()
		bridge = startBinary(t, data, "--dev", "--mqtt", address)
		for deadline := time.Now().Add(2 * bridgetest.Patience); ; time.Sleep(10 * time.Millisecond) {
			var task struct {
				State string `json:"state"`
				Group struct {
					Counts map[string]int `json:"counts"`
				} `json:"group"`
			}
			ask(t, caller, "task.get", fmt.Sprintf(`{"task_id":%q}`, started.Task), &task)
			if task.State == "complete" {
				break
			}
			if task.State != "running" || time.Now().After(deadline) {
				t.Fatalf("killed after %v, the dispatch is %s: %v", delay, task.State, task.Group.Counts)
			}
		}
		for i := range runs {
			if n := runs[i].Load(); n != int32(round+1) {
				t.Errorf("killed after %v: device %d ran %d times for %d dispatches", delay, i, n, round+1)
			}
		}
	}
}

func ask(t testing.TB, c *client.Client, command, params string, result any) {
	t.Helper()
	raw, err := client.Call[json.RawMessage](t.Context(), c, command, json.RawMessage(params), client.Fresh(), client.WithTimeout(2*bridgetest.Patience))
	if err != nil {
		t.Fatalf("%s: %v", command, err)
	}
	if result != nil {
		if err := json.Unmarshal(raw, result); err != nil {
			t.Fatal(err)
		}
	}
}
