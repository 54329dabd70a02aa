package homeassistant_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/eclipse/paho.golang/paho"

	"github.com/aibridge/aibridge/internal/app"
	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/protocol"
)

const (
	lampConfig = "homeassistant/light/0x1/light/config"
	lampAgent  = "ha.light.0x1.light"
	lamp       = `{"availability":[{"topic":"zigbee2mqtt/bridge/state","value_template":"{{ value_json.state }}"}],"brightness":true,"brightness_scale":254,
		"command_topic":"zigbee2mqtt/lamp/set","device":{"identifiers":["zigbee2mqtt_0x1"],"name":"Lamp"},"name":null,"schema":"json","state_topic":"zigbee2mqtt/lamp"}`
	switchConfig = "homeassistant/switch/plug/config"
	switchAgent  = "ha.switch.plug"
	plug         = `{"name":"Plug","cmd_t":"plug/set"}`
)

// A house is a bridge that listens to announcements, and somebody who calls.
type house struct {
	*bridgetest.Node
	caller *bridgetest.Raw
}

func newHouse(t *testing.T, change ...func(*app.Config)) *house {
	t.Helper()
	h := &house{Node: bridgetest.Start(t, append([]func(*app.Config){func(c *app.Config) {
		c.Connect.HomeAssistant.Space, c.Connect.HomeAssistant.Topics = "default", []string{"#"}
	}}, change...)...)}
	h.caller = h.Caller(t, "caller")
	return h
}

func retain(t *testing.T, r *bridgetest.Raw, topic, payload string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), bridgetest.Patience)
	defer cancel()
	if _, err := r.Publish(ctx, &paho.Publish{Topic: topic, QoS: 1, Retain: true, Payload: []byte(payload)}); err != nil {
		t.Fatal(err)
	}
}

// becomes waits for the status of an agent, "" for none.
func (h *house) becomes(t *testing.T, agent, status string) {
	t.Helper()
	var saw string
	eventually.Holds(t, agent+" is "+status, func() bool {
		answer := h.caller.Ask(t, bridgetest.Request(protocol.NewID(), "agent.get", fmt.Sprintf(`{"agent_id":%q}`, agent)))
		var view struct{ Status string }
		_ = json.Unmarshal(answer.Result, &view)
		saw = view.Status
		return saw == status
	}, &saw)
}

func (h *house) invoke(t *testing.T, skill, capability, params string) (data string, code protocol.Code) {
	t.Helper()
	answer := h.caller.Ask(t, bridgetest.Request(protocol.NewID(), "skill.invoke",
		fmt.Sprintf(`{"skill_id":%q,"capability_id":%q,"params":%s}`, skill, capability, params)))
	if answer.Err != nil {
		return answer.Err.Message, answer.Err.Code
	}
	var result struct{ Data json.RawMessage }
	if err := json.Unmarshal(answer.Result, &result); err != nil {
		t.Fatal(err)
	}
	return string(result.Data), ""
}

func TestAnAnnouncedLampIsAnAgent(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	z := h.Connect(t, "zigbee2mqtt")
	z.Listen(t, "zigbee2mqtt/lamp/set")
	retain(t, z, lampConfig, lamp)
	h.becomes(t, lampAgent, "offline")
	retain(t, z, "zigbee2mqtt/bridge/state", `{"state":"online"}`)
	h.becomes(t, lampAgent, "online")

	answered := make(chan string, 1)
	go func() {
		asked := <-z.Received
		z.Send(t, "zigbee2mqtt/lamp", `{"state":"ON","brightness":127}`)
		answered <- string(asked.Payload)
	}()
	data, code := h.invoke(t, lampAgent, "set", `{"brightness":50}`)
	var result struct {
		Confirmed bool
		State     struct {
			On         bool
			Brightness float64
		}
	}
	if code != "" || json.Unmarshal([]byte(data), &result) != nil || !result.Confirmed || !result.State.On || result.State.Brightness != 50 {
		t.Errorf("%s %s", data, code)
	}
	if got := <-answered; got != `{"brightness":127,"state":"ON"}` {
		t.Error(got)
	}

	retain(t, z, "zigbee2mqtt/bridge/state", `{"state":"offline"}`)
	h.becomes(t, lampAgent, "offline")
	retain(t, z, lampConfig, "")
	h.becomes(t, lampAgent, "")
}

func TestAnnouncementsOutliveARestartAndWithdrawnOnesDoNot(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	z := h.Connect(t, "tasmota")
	retain(t, z, switchConfig, plug)
	retain(t, z, "homeassistant/switch/other/config", `{"cmd_t":"other/set"}`)
	h.becomes(t, switchAgent, "online")
	h.becomes(t, "ha.switch.other", "online")

	h.Config.Connect.HomeAssistant.Space = "" // nobody listens when one of them is withdrawn
	h.Restart(t)
	z = h.Connect(t, "tasmota")
	retain(t, z, "homeassistant/switch/other/config", "")
	h.Config.Connect.HomeAssistant.Space = "default"
	h.Restart(t)
	h.caller = h.Caller(t, "caller-2")
	h.becomes(t, "ha.switch.other", "")
	h.becomes(t, switchAgent, "online")
}

// TestHostileAnnouncementsMakeNothing has one that is right behind those that
// are not: when it has come, the others were read.
func TestHostileAnnouncementsMakeNothing(t *testing.T) {
	t.Parallel()
	h := newHouse(t, func(c *app.Config) {
		c.Connect.HomeAssistant.Topics = []string{"plug/#"}
		c.Connect.HomeAssistant.Entities = 1
	})
	z := h.Connect(t, "evil")
	for i, payload := range []string{
		`{"cmd_t":"aibridge/bridge/request"}`, `{"cmd_t":"plug/#"}`, `{"cmd_t":"door/set"}`, `{"~":"~","cmd_t":"~"}`, `{`,
	} {
		retain(t, z, fmt.Sprintf("homeassistant/switch/evil%d/config", i), payload)
	}
	retain(t, z, switchConfig, plug)
	h.becomes(t, switchAgent, "online")
	retain(t, z, "homeassistant/switch/second/config", `{"cmd_t":"plug/second"}`)
	retain(t, z, switchConfig, `{"name":"Plug again","cmd_t":"plug/again"}`) // behind the one too many
	eventually.Holds(t, "the plug is another", func() bool {
		answer := h.caller.Ask(t, bridgetest.Request(protocol.NewID(), "agent.get", fmt.Sprintf(`{"agent_id":%q}`, switchAgent)))
		var view struct{ Name string }
		_ = json.Unmarshal(answer.Result, &view)
		return view.Name == "Plug again"
	})
	if n := h.total(t, "default"); n != 1 {
		t.Errorf("%d agents", n)
	}
}

func TestAnAnnouncementTakesNoAgentOfAnother(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	if answer := h.caller.Ask(t, bridgetest.Request(protocol.NewID(), "agent.register", fmt.Sprintf(`{"agent_id":%q,"type":"end_agent","name":"Mine"}`, switchAgent))); answer.Err != nil {
		t.Fatal(answer.Err)
	}
	z := h.Connect(t, "evil")
	retain(t, z, switchConfig, plug)
	retain(t, z, "homeassistant/switch/second/config", `{"cmd_t":"plug/second"}`)
	h.becomes(t, "ha.switch.second", "online") // registered after the first was refused
	answer := h.caller.Ask(t, bridgetest.Request(protocol.NewID(), "agent.get", fmt.Sprintf(`{"agent_id":%q}`, switchAgent)))
	var view struct{ Name string }
	if json.Unmarshal(answer.Result, &view) != nil || view.Name != "Mine" {
		t.Errorf("%s", answer.Result)
	}
}

// TestASpaceIsHeardByItself has a client of another space announce first, and
// one of the space that is listened to when the other has been acknowledged.
func TestASpaceIsHeardByItself(t *testing.T) {
	t.Parallel()
	h := newHouse(t, func(c *app.Config) { c.Connect.HomeAssistant.Space = "elsewhere" })
	retain(t, h.Connect(t, "tasmota"), switchConfig, plug)
	answer := h.caller.Ask(t, bridgetest.Request(protocol.NewID(), "key.create", `{"principal_id":"there","kind":"agent","roles":["end_agent"],"space_id":"elsewhere"}`))
	var made struct{ Key string }
	if err := json.Unmarshal(answer.Result, &made); err != nil || made.Key == "" {
		t.Fatalf("%s %v", answer.Result, answer.Err)
	}
	there := h.Connect(t, "there", func(c *paho.Connect) {
		c.UsernameFlag, c.Username = true, "there"
		c.PasswordFlag, c.Password = true, []byte(made.Key)
	})
	retain(t, there, "homeassistant/switch/second/config", `{"cmd_t":"plug/second"}`)
	eventually.Holds(t, "the space that is listened to has the agent", func() bool {
		return h.total(t, "elsewhere") == 1
	})
	if n := h.total(t, "default"); n != 0 {
		t.Errorf("%d agents in another space", n)
	}
}

// total counts the announced agents of a space.
func (h *house) total(t *testing.T, space string) int {
	t.Helper()
	answer := h.caller.Ask(t, bridgetest.Request(protocol.NewID(), "agent.list", fmt.Sprintf(`{"find":"ha.","space_id":%q}`, space)))
	var list struct{ Total int }
	if err := json.Unmarshal(answer.Result, &list); err != nil {
		t.Fatalf("%s %v", answer.Result, answer.Err)
	}
	return list.Total
}
