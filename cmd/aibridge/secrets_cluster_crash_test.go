package main

import (
	"context"
	"testing"

	"github.com/aibridge/aibridge/client"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/protocol"
)

// states are the states of the versions of a secret, by version, as a bridge knows them.
func states(t *testing.T, c *client.Client, secret string) (found map[string]string, err error) {
	t.Helper()
	var status struct {
		Secrets []struct {
			Secret   string
			Versions []struct{ Version, State string }
		}
	}
	if err := asks(t, c, "secret.status", map[string]any{}, &status); err != nil {
		return nil, err
	}
	found = make(map[string]string)
	for _, s := range status.Secrets {
		if s.Secret == secret {
			for _, v := range s.Versions {
				found[v.Version] = v.State
			}
		}
	}
	return found, nil
}

// TestSecretsAreRotatedThoughBridgesAreKilled begins to rotate a secret at one of three
// bridges, and kills that one as soon as another shows the new version, in whatever step the
// rotation is then. Another bridge ends it, the killed one comes back and knows the result,
// and a device at the third bridge is called all the time.
func TestSecretsAreRotatedThoughBridgesAreKilled(t *testing.T) {
	c := startTrio(t, "--dev")
	stays := c.bridges[2]
	admin := dial(t, stays)
	var made struct{ Key string }
	if err := asks(t, admin, "key.create", map[string]any{"principal_id": "anna", "kind": "operator", "roles": []string{"operator"}}, &made); err != nil {
		t.Fatal(err)
	}
	device := dial(t, stays, client.WithAgent(client.Agent{ID: "lamp"}))
	if _, err := device.ServeSkill(t.Context(), client.Skill{ID: "lamp", Capabilities: []client.Capability{{
		ID: "level", Effect: client.EffectRead, Handler: client.Handle(func(context.Context, *client.Invocation, struct{}) (map[string]int, error) {
			return map[string]int{"level": 7}, nil
		}),
	}}}); err != nil {
		t.Fatal(err)
	}
	anna := dial(t, stays, client.WithAPIKey(made.Key))
	works := func() bool { // but for the seconds in which the bridges elect who stores
		t.Helper()
		err := asks(t, anna, "skill.invoke", map[string]any{"skill_id": "lamp", "capability_id": "level"}, nil)
		if err != nil && protocol.CodeOf(err) != protocol.StoreUnavailable {
			t.Fatalf("the device cannot be called: %v", err)
		}
		return err == nil
	}
	for i, secret := range []string{"seal_key", "ca_key", "authorities"} {
		victim, other := i%2, 1-i%2
		killed, rotator, watcher := c.bridges[victim], dial(t, c.bridges[victim]), dial(t, c.bridges[other])
		before, err := states(t, admin, secret)
		if err != nil {
			t.Fatal(err)
		}
		asked := make(chan struct{})
		go func() {
			defer close(asked)
			_ = asks(t, rotator, "secret.rotate", map[string]any{"secret": secret}, nil) // its bridge is killed, or has just ended it
		}()
		var now map[string]string
		eventually.Holds(t, "another bridge shows the new version", func() bool {
			now, err = states(t, watcher, secret)
			return works() && err == nil && len(now) > len(before)
		}, &now, &err)
		killed.kill()
		_ = rotator.Close()
		<-asked
		eventually.Holds(t, "another bridge rotates "+secret, func() bool {
			err = asks(t, watcher, "secret.rotate", map[string]any{"secret": secret}, nil)
			return works() && err == nil
		}, &err)
		back := dial(t, c.restart(t, victim), client.WithAPIKey(made.Key))
		if err := asks(t, back, "agent.get", map[string]any{"agent_id": "lamp"}, nil); err != nil {
			t.Errorf("the key is of no use where %s was rotated: %v", secret, err)
		}
		for _, bridge := range []*client.Client{admin, watcher, dial(t, c.bridges[victim])} {
			eventually.Holds(t, "every bridge uses the new version of "+secret, func() bool {
				now, err = states(t, bridge, secret)
				return works() && err == nil && isRotated(now, before)
			}, &now, &err)
		}
	}
	var report struct{ OK bool }
	if err := asks(t, admin, "audit.verify", map[string]any{}, &report); err != nil || !report.OK {
		t.Errorf("the trails: %+v, %v", report, err)
	}
}

// isRotated reports whether one version is active that was not there before, and all others
// can be opened.
func isRotated(now, before map[string]string) bool {
	active := ""
	for version, state := range now {
		switch state {
		case "active":
			if active != "" {
				return false
			}
			active = version
		case "staged", "unreadable":
			return false
		}
	}
	return active != "" && before[active] == ""
}
