package homeassistant_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/eclipse/paho.golang/paho"

	"github.com/aibridge/aibridge/internal/app"
	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/protocol"
)

// ask runs a command that must not fail.
func (h *house) ask(t *testing.T, command, params string) *protocol.Response {
	t.Helper()
	answer := h.caller.Ask(t, bridgetest.Request(protocol.NewID(), command, params))
	if answer.Err != nil {
		t.Fatalf("%s: %v", command, answer.Err)
	}
	return answer
}

// client connects as an agent with a key of its own, whose id it returns.
func (h *house) client(t *testing.T, id string) (r *bridgetest.Raw, key string) {
	t.Helper()
	var made struct {
		Key string
		ID  string `json:"key_id"`
	}
	answer := h.ask(t, "key.create", fmt.Sprintf(`{"principal_id":%q,"kind":"agent","roles":["end_agent"]}`, id))
	if err := json.Unmarshal(answer.Result, &made); err != nil {
		t.Fatal(err)
	}
	return h.Connect(t, id, func(c *paho.Connect) {
		c.UsernameFlag, c.Username = true, id
		c.PasswordFlag, c.Password = true, []byte(made.Key)
	}), made.ID
}

// The doors are for zigbee2mqtt, and for the bridge on its behalf.
const doorPolicy = `@id("doors") forbid (principal, action in [Action::"topic:publish", Action::"topic:subscribe"], resource)
when { resource.id like "door/*" } unless { principal.id == "zigbee2mqtt" || principal == Bridge::"homeassistant" || principal in Role::"anonymous" };`

// TestWhoAnnouncesNamesTopicsThatItMayUse has somebody announce the door of
// another, behind which a switch of its own shows that it was read.
func TestWhoAnnouncesNamesTopicsThatItMayUse(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.ask(t, "policy.put", fmt.Sprintf(`{"name":"doors","policy":%q}`, doorPolicy))
	evil, _ := h.client(t, "evil")
	retain(t, evil, "homeassistant/switch/opens/config", `{"cmd_t":"door/set"}`)
	retain(t, evil, "homeassistant/sensor/sees/config", `{"stat_t":"door/state"}`)
	retain(t, evil, "homeassistant/switch/waits/config", `{"cmd_t":"own/set","avty_t":"door/state"}`)
	retain(t, evil, "homeassistant/switch/own/config", `{"cmd_t":"own/set"}`)
	h.becomes(t, "ha.switch.own", "online")
	if n := h.total(t, "default"); n != 1 {
		t.Errorf("%d agents of who may not use the topics that it names", n)
	}

	z, key := h.client(t, "zigbee2mqtt")
	z.Listen(t, "door/set")
	retain(t, z, "homeassistant/switch/door/config", `{"cmd_t":"door/set"}`)
	h.becomes(t, "ha.switch.door", "online")
	if data, code := h.invoke(t, "ha.switch.door", "set", `{"on":true}`); code != "" {
		t.Fatal(data, code)
	}
	if got := <-z.Received; string(got.Payload) != "ON" {
		t.Errorf("%s", got.Payload)
	}

	// The same words of somebody else are another announcement.
	retain(t, evil, "homeassistant/switch/door/config", `{"cmd_t":"door/set"}`)
	h.becomes(t, "ha.switch.door", "")
	retain(t, z, "homeassistant/switch/door/config", `{"cmd_t":"door/set"}`)
	h.becomes(t, "ha.switch.door", "online")

	h.ask(t, "key.revoke", fmt.Sprintf(`{"key_id":%q}`, key))
	if data, code := h.invoke(t, "ha.switch.door", "set", `{"on":false}`); code != protocol.PermissionDenied || !strings.Contains(data, "revoked") {
		t.Errorf("with the announcer's key revoked: %s %s", data, code)
	}
}

func TestWhoAnnouncedIsKnownAfterARestart(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	z, key := h.client(t, "zigbee2mqtt")
	retain(t, z, switchConfig, plug)
	h.becomes(t, switchAgent, "online")
	h.Restart(t)
	h.caller = h.Caller(t, "caller-2")
	h.Connect(t, "plug").Listen(t, "plug/set")
	h.becomes(t, switchAgent, "online")
	eventually.Holds(t, "the switch is asked", func() bool {
		_, code := h.invoke(t, switchAgent, "set", `{"on":true}`)
		return code == ""
	})
	h.ask(t, "key.revoke", fmt.Sprintf(`{"key_id":%q}`, key))
	if data, code := h.invoke(t, switchAgent, "set", `{"on":false}`); code != protocol.PermissionDenied {
		t.Errorf("with the announcer's key revoked: %s %s", data, code)
	}
}

// TestWhatWasAnnouncedBeforeAnybodyListenedIsAnnouncedAgain has the same said
// twice: of the first nobody knows who it was.
func TestWhatWasAnnouncedBeforeAnybodyListenedIsAnnouncedAgain(t *testing.T) {
	t.Parallel()
	h := newHouse(t, func(c *app.Config) { c.Connect.HomeAssistant.Space = "" })
	retain(t, h.Connect(t, "tasmota"), switchConfig, plug)
	h.Config.Connect.HomeAssistant.Space = "default"
	h.Restart(t)
	h.caller = h.Caller(t, "caller-2")
	z := h.Connect(t, "tasmota")
	retain(t, z, "homeassistant/switch/second/config", `{"cmd_t":"plug/second"}`)
	h.becomes(t, "ha.switch.second", "online")
	if n := h.total(t, "default"); n != 1 {
		t.Errorf("%d agents", n)
	}
	retain(t, z, switchConfig, plug)
	h.becomes(t, switchAgent, "online")
}

// TestOnePartyAnnouncesHalfOfWhatThereMayBe has a second party come after one
// that announces more.
func TestOnePartyAnnouncesHalfOfWhatThereMayBe(t *testing.T) {
	t.Parallel()
	h := newHouse(t, func(c *app.Config) { c.Connect.HomeAssistant.Entities = 4 })
	evil, _ := h.client(t, "evil")
	for i := range 4 {
		retain(t, evil, fmt.Sprintf("homeassistant/switch/evil%d/config", i), `{"cmd_t":"evil/set"}`)
	}
	h.becomes(t, "ha.switch.evil1", "online")
	z, _ := h.client(t, "zigbee2mqtt")
	retain(t, z, switchConfig, plug)
	h.becomes(t, switchAgent, "online")
	retain(t, evil, "homeassistant/switch/evil0/config", "")
	h.becomes(t, "ha.switch.evil0", "")
	retain(t, evil, "homeassistant/switch/evil3/config", `{"cmd_t":"evil/set"}`) // has room now
	h.becomes(t, "ha.switch.evil3", "online")
	if n := h.total(t, "default"); n != 3 {
		t.Errorf("%d agents", n)
	}
}
