package entities_test

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/eclipse/paho.golang/paho"

	"github.com/aibridge/aibridge/internal/app"
	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/protocol"
)

// A house is a bridge that shows its skills, and somebody who runs it.
type house struct {
	*bridgetest.Node
	caller *bridgetest.Raw
}

func newHouse(t *testing.T, change ...func(*app.Config)) *house {
	t.Helper()
	h := &house{Node: bridgetest.Start(t, append([]func(*app.Config){func(c *app.Config) {
		c.Connect.HomeAssistant.Publish.Space, c.Connect.HomeAssistant.Publish.Skills = "default", []string{"*"}
	}}, change...)...)}
	h.caller = h.Caller(t, "caller")
	return h
}

func (h *house) ask(t *testing.T, command, params string) json.RawMessage {
	t.Helper()
	answer := h.caller.Ask(t, bridgetest.Request(protocol.NewID(), command, params))
	if answer.Err != nil {
		t.Fatalf("%s: %v", command, answer.Err)
	}
	return answer.Result
}

// as is a client that connects with a new key of a principal.
func (h *house) as(t *testing.T, id, kind, role, space string) func(*paho.Connect) {
	t.Helper()
	var made struct{ Key string }
	params := fmt.Sprintf(`{"principal_id":%q,"kind":%q,"roles":[%q],"space_id":%q}`, id, kind, role, space)
	if err := json.Unmarshal(h.ask(t, "key.create", params), &made); err != nil {
		t.Fatal(err)
	}
	return func(c *paho.Connect) {
		c.UsernameFlag, c.Username = true, id
		c.PasswordFlag, c.Password = true, []byte(made.Key)
	}
}

func (h *house) metrics(t *testing.T) string {
	t.Helper()
	answer, err := http.Get(h.HTTPURL("/metrics"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A lamp keeps what it is told, and tells it.
type lamp struct {
	mu    sync.Mutex
	state map[string]any
	calls []string // of what acts
}

const lampCapabilities = `[
	{"capability_id":"set","effect":"act","params_schema":{"type":"object","properties":{"on":{"type":"boolean"},"brightness":{"type":"number","minimum":0,"maximum":100}}}},
	{"capability_id":"explode","effect":"act","risk":"high"},
	{"capability_id":"state","effect":"read","result_schema":{"type":"object","properties":{"on":{"type":"boolean"},"brightness":{"type":"number"}}}}]`

func newLamp(t *testing.T, n *bridgetest.Node, agent, skill string, change ...func(*paho.Connect)) *lamp {
	t.Helper()
	l := &lamp{state: map[string]any{"on": false, "brightness": 10}}
	device := n.Device(t, agent, skill, lampCapabilities, change...)
	go func() {
		for p := range device.Received {
			if request, err := protocol.DecodeRequest(p.Payload, protocol.Limits{}); err == nil && request.Command == "skill.invoke" {
				device.Reply(t, agent, request, l.answer(request))
			}
		}
	}()
	return l
}

func (l *lamp) answer(request *protocol.Request) map[string]any {
	var p struct {
		Capability string `json:"capability_id"`
		Params     map[string]any
	}
	_ = json.Unmarshal(request.Params, &p)
	l.mu.Lock()
	defer l.mu.Unlock()
	if p.Capability == "state" {
		return maps.Clone(l.state)
	}
	l.calls = append(l.calls, p.Capability)
	maps.Copy(l.state, p.Params)
	return map[string]any{}
}

func (l *lamp) asked() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.calls, " ")
}

func TestHomeAssistantSwitchesASkill(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	newLamp(t, h.Node, "bulb", "lamp")
	ha := newHass(t, h.Node, "hass", h.as(t, "hass", "operator", "operator", "default"))
	light := ha.shows(t, "lamp", "light", "state_topic", "state_value_template", "OFF")
	ha.Send(t, light["brightness_command_topic"].(string), "80")
	ha.shows(t, "lamp", "light", "brightness_state_topic", "brightness_value_template", "80")
	ha.Send(t, light["command_topic"].(string), "ON")
	ha.shows(t, "lamp", "light", "state_topic", "state_value_template", "ON")

	// Somebody cleared the announcement; Home Assistant comes and asks for it.
	h.caller.Listen(t, "homeassistant/device/+/config")
	retained := h.caller.Next(t)
	clear := &paho.Publish{Topic: retained.Topic, QoS: 1, Retain: true}
	if _, err := h.caller.Publish(t.Context(), clear); err != nil {
		t.Fatal(err)
	}
	ha.gone(t, "lamp")
	ha.Send(t, "homeassistant/status", "online")
	ha.shows(t, "lamp", "light", "state_topic", "state_value_template", "ON")
}

func TestWhatIsGoneIsWithdrawn(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	newLamp(t, h.Node, "bulb", "lamp")
	newLamp(t, h.Node, "second", "other")
	ha := newHass(t, h.Node, "hass")
	ha.shows(t, "lamp", "light", "state_topic", "state_value_template", "OFF")
	ha.shows(t, "other", "light", "state_topic", "state_value_template", "OFF")

	h.ask(t, "skill.register", `{"agent_id":"bulb","skill":{"skill_id":"lamp","name":"Desk","capabilities":`+lampCapabilities+`}}`)
	ha.gone(t, "lamp")
	ha.shows(t, "Desk", "light", "state_topic", "state_value_template", "OFF")
	h.ask(t, "skill.unregister", `{"skill_id":"lamp"}`)
	ha.gone(t, "Desk")

	// A bridge that shows nothing any more withdraws what the last one announced.
	h.Config.Connect.HomeAssistant.Publish.Skills, h.Config.Connect.HomeAssistant.Publish.Space = nil, ""
	h.Restart(t)
	after := h.Connect(t, "after")
	after.Listen(t, "probe")
	eventually.Holds(t, "nothing is retained of it", func() bool {
		later := h.Connect(t, "later-"+protocol.NewID())
		defer later.Drop()
		later.Listen(t, "homeassistant/#", "aibridge/entity/#")
		later.Listen(t, "probe/"+later.ID)
		later.Send(t, "probe/"+later.ID, "behind what is retained")
		return string(later.Next(t).Payload) == "behind what is retained"
	})
}

// TestCommandsAreThoseOfWhoPublishesThem has an onlooker publish what an
// operator may, and another tenant, each before somebody who may.
func TestCommandsAreThoseOfWhoPublishesThem(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	l := newLamp(t, h.Node, "bulb", "lamp")
	ha := newHass(t, h.Node, "hass", h.as(t, "hass", "operator", "operator", "default"))
	light := ha.shows(t, "lamp", "light", "state_topic", "state_value_template", "OFF")
	at := light["command_topic"].(string)
	onlooker := newHass(t, h.Node, "onlooker", h.as(t, "onlooker", "operator", "observer", "default"))
	onlooker.shows(t, "lamp", "light", "state_topic", "state_value_template", "OFF")
	onlooker.Send(t, at, "ON")
	tenant := newHass(t, h.Node, "tenant", h.as(t, "tenant", "operator", "operator", "elsewhere"))
	tenant.Send(t, at, "ON")
	tenant.mu.Lock()
	if len(tenant.said) > 0 {
		t.Errorf("another space is told %v", tenant.said)
	}
	tenant.mu.Unlock()
	eventually.Holds(t, "both are refused", func() bool {
		metrics := h.metrics(t)
		return strings.Contains(metrics, `aibridge_entity_commands_total{code="2003"} 1`) && strings.Contains(metrics, `aibridge_entity_commands_total{code="3001"} 1`)
	})
	ha.Send(t, at, "ON")
	ha.shows(t, "lamp", "light", "state_topic", "state_value_template", "ON")
	if l.asked() != "set" {
		t.Errorf("the lamp was asked to %s", l.asked())
	}
}

func TestWhatIsRiskyWaitsForSomebodyElse(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	l := newLamp(t, h.Node, "bulb", "lamp")
	ha := newHass(t, h.Node, "hass", h.as(t, "hass", "operator", "operator", "default"))
	ha.shows(t, "lamp", "light", "state_topic", "state_value_template", "OFF")
	button, _ := ha.entity("lamp", "button")
	ha.Send(t, button["command_topic"].(string), "PRESS")
	var list struct {
		Approvals []struct {
			ID    string `json:"approval_id"`
			Tool  string `json:"tool"`
			Nonce string `json:"nonce"`
		}
	}
	eventually.Holds(t, "an approval is asked for", func() bool {
		return json.Unmarshal(h.ask(t, "approval.list", `{"state":"pending"}`), &list) == nil && len(list.Approvals) == 1
	})
	if got := l.asked(); list.Approvals[0].Tool != "lamp.explode" || got != "" {
		t.Errorf("%+v, and the lamp was asked to %q", list, got)
	}
	h.ask(t, "approval.decide", fmt.Sprintf(`{"approval_id":%q,"decision":"approve","nonce":%q}`, list.Approvals[0].ID, list.Approvals[0].Nonce))
	eventually.Holds(t, "it is done", func() bool { return l.asked() == "explode" })
}

// TestWhatCameInIsNotShownAgain has both ways open on one prefix.
func TestWhatCameInIsNotShownAgain(t *testing.T) {
	t.Parallel()
	h := newHouse(t, func(c *app.Config) {
		c.Connect.HomeAssistant.Space, c.Connect.HomeAssistant.Topics = "default", []string{"#"}
	})
	if _, err := h.caller.Publish(t.Context(), &paho.Publish{
		Topic: "homeassistant/switch/plug/config", QoS: 1, Retain: true, Payload: []byte(`{"name":"Plug","cmd_t":"plug/set"}`),
	}); err != nil {
		t.Fatal(err)
	}
	eventually.Holds(t, "the plug is an agent", func() bool {
		return strings.Contains(string(h.ask(t, "agent.list", `{"find":"ha."}`)), "ha.switch.plug")
	})
	newLamp(t, h.Node, "bulb", "lamp") // later than the plug
	ha := newHass(t, h.Node, "hass")
	ha.shows(t, "lamp", "light", "state_topic", "state_value_template", "OFF")
	ha.mu.Lock()
	for topic, payload := range ha.said {
		if strings.Contains(payload, "Plug") {
			t.Errorf("%s: %s", topic, payload)
		}
	}
	ha.mu.Unlock()
	// Behind the announcement of the lamp, which is none for the bridge itself.
	if _, err := h.caller.Publish(t.Context(), &paho.Publish{
		Topic: "homeassistant/switch/second/config", QoS: 1, Retain: true, Payload: []byte(`{"cmd_t":"second/set"}`),
	}); err != nil {
		t.Fatal(err)
	}
	var list struct{ Total int }
	eventually.Holds(t, "the second is an agent", func() bool {
		answer := h.ask(t, "agent.list", `{"find":"ha."}`)
		return strings.Contains(string(answer), "ha.switch.second") && json.Unmarshal(answer, &list) == nil
	})
	if list.Total != 2 {
		t.Errorf("%d agents", list.Total)
	}
}
