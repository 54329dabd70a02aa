package app_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eclipse/paho.golang/paho"

	"github.com/aibridge/aibridge/internal/app"
	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/protocol"
)

// plainLamp is a lamp on plain topics.
const plainLamp = `
space: default
devices:
  - agent: desk-lamp
    name: Lamp on the desk
    presence: {topic: lamps/desk/online, online: 1, offline: 0}
    skills:
      - skill: desk-lamp
        description: The lamp on the desk.
        capabilities:
          set:
            description: Switch the lamp.
            params:
              on: {type: boolean, required: true}
            publish: {topic: lamps/desk/set, json: {state: "{{ 'ON' if on else 'OFF' }}"}}
`

// retained publishes a retained message.
func retained(t *testing.T, r *bridgetest.Raw, topic, payload string) {
	t.Helper()
	if _, err := r.Publish(t.Context(), &paho.Publish{Topic: topic, QoS: 1, Retain: true, Payload: []byte(payload)}); err != nil {
		t.Fatal(err)
	}
}

// online waits until a bridge says that an agent is online.
func online(t *testing.T, at *bridgetest.Raw, agent string) {
	t.Helper()
	var saw string
	eventually.Holds(t, agent+" is online", func() bool {
		answer := at.Ask(t, bridgetest.Request(protocol.NewID(), "agent.get", fmt.Sprintf(`{"agent_id":%q}`, agent)))
		saw = string(answer.Result)
		return strings.Contains(saw, `"status":"online"`)
	}, &saw)
}

// switchedOn invokes a skill at one bridge, and hears the device's message at
// another.
func switchedOn(t *testing.T, caller, device *bridgetest.Raw, skill, capability, params, want string) {
	t.Helper()
	answers := make(chan *protocol.Response, 1)
	go func() {
		answers <- caller.Ask(t, bridgetest.Request(protocol.NewID(), "skill.invoke",
			fmt.Sprintf(`{"skill_id":%q,"capability_id":%q,"params":%s}`, skill, capability, params)))
	}()
	if got := device.Next(t); !strings.Contains(string(got.Payload), want) {
		t.Errorf("the device was told %s %q, want %q", got.Topic, got.Payload, want)
	}
	if answer := <-answers; answer.Err != nil {
		t.Errorf("%s.%s: %v", skill, capability, answer.Err)
	}
}

// TestPlainDevicesAreConnectedToAnyBridge connects plain devices to one bridge,
// works for them at another, and calls them from a third.
func TestPlainDevicesAreConnectedToAnyBridge(t *testing.T) {
	t.Parallel()
	url := startNATS(t)
	bindings := filepath.Join(t.TempDir(), "lamp.yaml")
	bridgetest.Write(t, bindings, plainLamp)
	plain := func(c *app.Config) {
		c.Connect.Bindings = bindings
		c.Connect.HomeAssistant.Space, c.Connect.HomeAssistant.Topics = "default", []string{"#"}
	}
	a := bridgetest.Start(t, beside(t, url, "a", nil), plain)
	b := bridgetest.Start(t, beside(t, url, "b", a), plain)
	c := bridgetest.Start(t, beside(t, url, "c", a), plain)
	onC := c.Caller(t, "caller")
	eventually.Holds(t, "there are three", func() bool { return len(members(t, onC)) == 3 })

	lamp := b.Connect(t, "lamp")
	lamp.Listen(t, "lamps/desk/set")
	retained(t, lamp, "lamps/desk/online", "1")
	online(t, onC, "desk-lamp")
	switchedOn(t, onC, lamp, "desk-lamp", "set", `{"on":true}`, "ON")

	hub := b.Connect(t, "hub")
	hub.Listen(t, "plug/set")
	retained(t, hub, "homeassistant/switch/plug/config", `{"name":"Plug","cmd_t":"plug/set"}`)
	online(t, onC, "ha.switch.plug")
	switchedOn(t, onC, hub, "ha.switch.plug", "set", `{"on":true}`, "ON")

	// The bridge that worked for them ends, and another one knows the announcements'
	// publishers.
	a.Stop(t)
	online(t, onC, "ha.switch.plug")
	eventually.Holds(t, "another bridge works for the plug", func() bool {
		answer := onC.Ask(t, bridgetest.Request(protocol.NewID(), "skill.invoke", `{"skill_id":"ha.switch.plug","capability_id":"set","params":{"on":false}}`))
		return answer.Err == nil
	})
}
