package main

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/aibridge/aibridge/client"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/protocol"
)

func dial(t testing.TB, b *binary, opts ...client.Option) *client.Client {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), eventually.Patience)
	defer cancel()
	c, err := client.Dial(ctx, "mqtt://"+b.addresses.MQTT, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// TestWhatWasAcknowledgedSurvivesKill registers, kills the bridge at once and
// finds everything in its successor.
func TestWhatWasAcknowledgedSurvivesKill(t *testing.T) {
	data := t.TempDir()
	bridge := startBinary(t, data, "--dev")
	c := dial(t, bridge)
	register := func(command string, params string) {
		t.Helper()
		if _, err := client.Call[json.RawMessage](t.Context(), c, command, json.RawMessage(params)); err != nil {
			t.Fatalf("%s: %v", command, err)
		}
	}
	register("agent.register", `{"agent_id":"lamp-1","type":"end_agent"}`)
	register("skill.register", `{"agent_id":"lamp-1","skill":{"skill_id":"lamp","name":"Lamp","description":"A lamp","version":"1.0.0","type":"custom","capabilities":["switch"]}}`)
	register("resource.register", `{"resource":{"resource_id":"r1","name":"R","type":"device"}}`)
	bridge.kill()

	bridge = startBinary(t, data, "--dev")
	c = dial(t, bridge, client.WithAgent(client.Agent{ID: "lamp-1"}))
	for command, params := range map[string]string{
		"agent.get":      `{"agent_id":"lamp-1"}`,
		"resource.get":   `{"resource_id":"r1"}`,
		"skill.discover": `{"capability":"switch"}`,
	} {
		result, err := client.Call[map[string]any](t.Context(), c, command, json.RawMessage(params))
		if err != nil || result["total"] == 0.0 {
			t.Errorf("%s after the crash: %v, %v", command, result, err)
		}
	}
	called := make(chan struct{}, 1)
	serveLamp(t, c, func() { called <- struct{}{} })
	if _, err := client.Call[json.RawMessage](t.Context(), c, "skill.invoke", json.RawMessage(`{"skill_id":"lamp","capability_id":"switch"}`)); err != nil {
		t.Errorf("invoke after the crash: %v", err)
	}
	select {
	case <-called:
	default:
		t.Error("the lamp was not asked")
	}
}

func serveLamp(t *testing.T, c *client.Client, do func()) {
	t.Helper()
	_, err := c.ServeSkill(t.Context(), client.Skill{
		ID: "lamp", Name: "Lamp", Description: "A lamp", Version: "1.0.0",
		Capabilities: []client.Capability{{
			ID: "switch",
			Handler: client.Handle(func(context.Context, *client.Invocation, struct{}) (struct{}, error) {
				do()
				return struct{}{}, nil
			}),
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestACommandCutShortByACrashIsNotRunAgain kills the bridge while a device
// acts: the repeat of the request is told that nobody knows, and the device
// is not asked a second time.
func TestACommandCutShortByACrashIsNotRunAgain(t *testing.T) {
	data := t.TempDir()
	bridge := startBinary(t, data, "--dev")
	asked := make(chan struct{}, 2)
	release := make(chan struct{})
	serveLamp(t, dial(t, bridge, client.WithAgent(client.Agent{ID: "lamp-1"})), func() {
		asked <- struct{}{}
		<-release
	})
	caller := dial(t, bridge)
	const invoke = `{"skill_id":"lamp","capability_id":"switch"}`
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		_, _ = client.Call[json.RawMessage](ctx, caller, "skill.invoke", json.RawMessage(invoke), client.WithID("only-once"), client.WithoutRetry())
	}()
	<-asked
	bridge.kill()
	cancel()
	close(release)

	bridge = startBinary(t, data, "--dev")
	serveLamp(t, dial(t, bridge, client.WithAgent(client.Agent{ID: "lamp-1"})), func() { asked <- struct{}{} })
	_, err := client.Call[json.RawMessage](t.Context(), dial(t, bridge), "skill.invoke", json.RawMessage(invoke), client.WithID("only-once"), client.WithoutRetry())
	if !errors.Is(err, &protocol.Error{Code: protocol.OutcomeUnknown}) {
		t.Errorf("the repeat got %v, want 4012", err)
	}
	select {
	case <-asked:
		t.Error("the lamp was asked again")
	default:
	}
}
