package entities_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/eclipse/paho.golang/paho"

	"github.com/aibridge/aibridge/connect/template"
	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/internal/eventually"
)

// A platform is what Home Assistant's documentation says of the components of
// one: the fields that must be there and those that may.
type platform struct{ needs, may []string }

// common are the fields of all components.
var common = []string{"platform", "unique_id", "default_entity_id", "name"}

var platforms = map[string]platform{
	"switch":        {[]string{"command_topic"}, []string{"state_topic", "value_template", "payload_on", "payload_off"}},
	"button":        {[]string{"command_topic"}, []string{"payload_press"}},
	"number":        {[]string{"command_topic"}, []string{"state_topic", "value_template", "min", "max", "step", "mode", "unit_of_measurement"}},
	"select":        {[]string{"command_topic", "options"}, []string{"state_topic", "value_template"}},
	"text":          {[]string{"command_topic"}, []string{"state_topic", "value_template", "min", "max"}},
	"sensor":        {[]string{"state_topic"}, []string{"value_template", "unit_of_measurement", "device_class", "options"}},
	"binary_sensor": {[]string{"state_topic"}, []string{"value_template", "payload_on", "payload_off"}},
	"lock": {[]string{"command_topic"}, []string{
		"state_topic", "value_template", "payload_lock", "payload_unlock", "payload_open",
		"state_locked", "state_locking", "state_unlocked", "state_unlocking", "state_jammed",
	}},
	"cover": {[]string{"command_topic"}, []string{
		"state_topic", "value_template", "payload_open", "payload_close", "payload_stop",
		"position_topic", "position_template", "position_open", "position_closed", "set_position_topic",
	}},
	"light": {[]string{"command_topic"}, []string{
		"state_topic", "state_value_template", "payload_on", "payload_off", "on_command_type",
		"brightness_command_topic", "brightness_state_topic", "brightness_value_template", "brightness_scale",
		"effect_command_topic", "effect_state_topic", "effect_value_template", "effect_list",
	}},
	"climate": {[]string{"modes"}, []string{
		"mode_command_topic", "mode_state_topic", "mode_state_template", "min_temp", "max_temp", "temp_step", "temperature_unit",
		"temperature_command_topic", "temperature_state_topic", "temperature_state_template", "current_temperature_topic", "current_temperature_template",
		"fan_modes", "fan_mode_command_topic", "fan_mode_state_topic", "fan_mode_state_template",
		"swing_modes", "swing_mode_command_topic", "swing_mode_state_topic", "swing_mode_state_template",
		"preset_modes", "preset_mode_command_topic", "preset_mode_state_topic", "preset_mode_value_template",
	}},
}

var (
	plainID  = regexp.MustCompile(`^[a-zA-Z0-9_-]+$`)
	entityID = regexp.MustCompile(`^[a-z_]+\.[a-z0-9_]+$`)
	// ourTemplate is all that may be in a template: no text of a skill.
	ourTemplate = regexp.MustCompile(`^\{\{ value_json\.[A-Za-z0-9_]+ \}\}$`)
)

// faults say what Home Assistant would refuse an announcement for, or what it
// would evaluate that is not ours.
func faults(topic string, payload []byte) (list []string) {
	fail := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	levels := strings.Split(topic, "/")
	if len(levels) != 4 || levels[1] != "device" || levels[3] != "config" || !plainID.MatchString(levels[2]) {
		fail("the topic %s", topic)
	}
	var d struct {
		Device struct {
			Identifiers []string
			Name        string
		}
		Origin       struct{ Name string }
		Availability []struct{ Topic string }
		Components   map[string]map[string]any
	}
	if err := json.Unmarshal(payload, &d); err != nil {
		return []string{err.Error()}
	}
	if len(d.Device.Identifiers) == 0 || d.Device.Name == "" || d.Origin.Name == "" || len(d.Components) == 0 || len(d.Availability) == 0 || d.Availability[0].Topic == "" {
		fail("device, origin, availability or components are incomplete: %s", payload)
	}
	seen := map[any]bool{}
	for key, c := range d.Components {
		name, _ := c["platform"].(string)
		p, known := platforms[name]
		if !known || !plainID.MatchString(key) {
			fail("%s: platform %q", key, name)
		}
		if id, _ := c["default_entity_id"].(string); !entityID.MatchString(id) || !strings.HasPrefix(id, name+".") {
			fail("%s: default_entity_id %v", key, c["default_entity_id"])
		}
		if id, _ := c["unique_id"].(string); id == "" || seen[id] {
			fail("%s: unique_id %v", key, c["unique_id"])
		}
		seen[c["unique_id"]] = true
		for _, field := range p.needs {
			if c[field] == nil {
				fail("%s: %s needs %s", key, name, field)
			}
		}
		for field, v := range c {
			if !slices.Contains(common, field) && !slices.Contains(p.needs, field) && !slices.Contains(p.may, field) {
				fail("%s: %s has no %s", key, name, field)
			}
			text, _ := v.(string)
			switch {
			case strings.HasSuffix(field, "_template") && !ourTemplate.MatchString(text):
				fail("%s: %s is %q", key, field, text)
			case strings.HasSuffix(field, "_topic") && (text == "" || strings.ContainsAny(text, "+#{ ")):
				fail("%s: %s is %q", key, field, text)
			}
		}
		if low, ok := c["min"].(float64); ok && low > c["max"].(float64) {
			fail("%s: min %v is above max %v", key, low, c["max"])
		}
	}
	return list
}

// A hass is a Home Assistant, as far as its documentation tells: it reads
// announcements, follows states and availability, and publishes commands.
type hass struct {
	*bridgetest.Raw

	mu     sync.Mutex
	said   map[string]string // retained by topic
	faulty []string
}

func newHass(t *testing.T, n *bridgetest.Node, id string, change ...func(*paho.Connect)) *hass {
	t.Helper()
	h := &hass{Raw: n.Connect(t, id, change...), said: map[string]string{}}
	go func() {
		for p := range h.Received {
			h.hear(p)
		}
	}()
	t.Cleanup(func() { h.check(t) })
	h.Listen(t, "homeassistant/device/+/config", "aibridge/entity/#")
	return h
}

func (h *hass) hear(p *paho.Publish) {
	if strings.HasSuffix(p.Topic, "/set") { // what is said to the bridge, by this one too
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(p.Payload) == 0 {
		delete(h.said, p.Topic)
		return
	}
	h.said[p.Topic] = string(p.Payload)
	if strings.HasSuffix(p.Topic, "/config") {
		h.faulty = append(h.faulty, faults(p.Topic, p.Payload)...)
	}
}

func (h *hass) check(t *testing.T) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, fault := range h.faulty {
		t.Error(fault)
	}
}

// entity finds a component by its platform, of the device of a name.
func (h *hass) entity(device, platform string) (c map[string]any, availability string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for topic, payload := range h.said {
		var d struct {
			Device       struct{ Name string }
			Availability []struct{ Topic string }
			Components   map[string]map[string]any
		}
		if !strings.HasSuffix(topic, "/config") || json.Unmarshal([]byte(payload), &d) != nil || d.Device.Name != device {
			continue
		}
		for _, c := range d.Components {
			if c["platform"] == platform {
				return c, h.said[d.Availability[0].Topic]
			}
		}
	}
	return nil, ""
}

// shows waits until an entity is available and shows a value by the field of a
// topic and that of its template.
func (h *hass) shows(t *testing.T, device, platform, topic, with, want string) map[string]any {
	t.Helper()
	var found map[string]any
	var saw string
	eventually.Holds(t, device+" shows "+want, func() bool {
		c, availability := h.entity(device, platform)
		at, _ := c[topic].(string)
		source, _ := c[with].(string)
		if c == nil || source == "" {
			saw = "not there"
			return false
		}
		h.mu.Lock()
		state, err := template.FromJSON([]byte(h.said[at]))
		h.mu.Unlock()
		if err != nil {
			saw = "no state"
			return false
		}
		text, err := template.Must(source).Render(template.Vars{"value_json": state})
		saw, found = fmt.Sprint(availability, " ", text, " ", err), c
		return availability == "online" && err == nil && text == want
	}, &saw)
	return found
}

// gone waits until no device of a name is announced.
func (h *hass) gone(t *testing.T, device string) {
	t.Helper()
	eventually.Holds(t, device+" is gone", func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		for _, payload := range h.said {
			if strings.Contains(payload, fmt.Sprintf("%q", device)) {
				return false
			}
		}
		return true
	})
}
