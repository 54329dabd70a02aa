package homeassistant

import (
	"slices"
	"strings"

	"github.com/aibridge/aibridge/connect/device"
	"github.com/aibridge/aibridge/connect/template"
	"github.com/aibridge/aibridge/protocol"
)

// The risks of capabilities that act: high for those that open a house, or flood
// it, so that models need an approval. For others a bridge may be set to ask too
// (approvals.ask_about).
const (
	highRisk  = "high"
	usualRisk = "medium"
)

func property(kind, description string) map[string]any {
	return map[string]any{"type": kind, "description": description}
}

func ranged(low, high float64, description string) map[string]any {
	return map[string]any{"type": "number", "minimum": low, "maximum": high, "description": description}
}

func (e *entity) asSwitch() {
	on, off := e.word("payload_on", "ON"), e.word("payload_off", "OFF")
	e.state("on", "state_topic", "value_template", e.onOff(e.word("state_on", on), e.word("state_off", off)), nil)
	p := e.publication("command_topic", "command_template", template.Must("{{ value }}"))
	p.Let = map[string]*template.Template{"value": template.Must("{{ " + quoted(on) + " if on else " + quoted(off) + " }}")}
	e.capability(device.Capability{
		ID: "set", Description: "Switch it on or off.", Idempotent: true, Publish: []device.Publication{p},
		Params: params(map[string]any{"on": property("boolean", "whether it is to be on")}, "on"),
	})
}

func (e *entity) asBinarySensor() {
	e.state("on", "state_topic", "value_template", e.onOff(e.word("payload_on", "ON"), e.word("payload_off", "OFF")),
		map[string]any{"description": e.meaning("whether it detects something")})
}

func (e *entity) asSensor() {
	read, unit := device.Extraction{}, line(e.word("unit_of_measurement", ""), "")
	if unit != "" || e.fields["state_class"] != nil {
		read.Type = "number"
	}
	description := e.meaning("what it measures")
	if unit != "" {
		description += ", in " + unit
	}
	e.state("value", "state_topic", "value_template", read, map[string]any{"description": description})
}

// meaning is the subject of a sensor.
func (e *entity) meaning(otherwise string) string {
	return line(strings.ReplaceAll(e.word("device_class", ""), "_", " "), otherwise)
}

func (e *entity) asNumber() {
	low, high := e.number("min", 1), e.number("max", 100)
	if low > high {
		e.fail("min: is above max")
	}
	unit := line(e.word("unit_of_measurement", ""), "")
	description := e.meaning("the value")
	if unit != "" {
		description += ", in " + unit
	}
	e.state("value", "state_topic", "value_template", device.Extraction{Type: "number"}, map[string]any{"description": description})
	e.capability(device.Capability{
		ID: "set", Description: "Set the value.", Idempotent: true,
		Publish: []device.Publication{e.publication("command_topic", "command_template", template.Must("{{ value }}"))},
		Params:  params(map[string]any{"value": ranged(low, high, description)}, "value"),
	})
}

func (e *entity) asSelect() {
	options := e.options("options")
	e.state("option", "state_topic", "value_template", device.Extraction{Type: "string"}, nil)
	p := e.publication("command_topic", "command_template", template.Must("{{ value }}"))
	p.Let = map[string]*template.Template{"value": template.Must("{{ option }}")}
	e.capability(device.Capability{
		ID: "set", Description: "Choose an option.", Idempotent: true, Publish: []device.Publication{p},
		Params: params(map[string]any{"option": map[string]any{"type": "string", "enum": options}}, "option"),
	})
}

func (e *entity) asButton() {
	c := device.Capability{ID: "press", Description: "Press it."}
	if class := e.word("device_class", ""); class == "restart" || class == "update" || class == "identify" {
		c.Description = "Press it: " + class + "."
	}
	p := e.publication("command_topic", "command_template", template.Must("{{ value }}"))
	p.Let = map[string]*template.Template{"value": constant(e.word("payload_press", "PRESS"))}
	c.Publish = []device.Publication{p}
	e.capability(c)
}

// command adds a capability that publishes one word.
func (e *entity) command(id protocol.CapabilityID, description, word, risk, custom string) {
	p := e.publication("command_topic", custom, template.Must("{{ value }}"))
	p.Let = map[string]*template.Template{"value": constant(word)}
	e.capability(device.Capability{ID: id, Description: description, Risk: risk, Idempotent: true, Publish: []device.Publication{p}})
}

func (e *entity) asLock() {
	if e.fields["code_format"] != nil {
		e.fail("code_format: a lock that wants a code is not understood")
	}
	states := map[string]any{}
	for _, s := range []string{"locked", "locking", "unlocked", "unlocking", "jammed"} {
		states[e.word("state_"+s, strings.ToUpper(s))] = s
	}
	e.state("state", "state_topic", "value_template", device.Extraction{Map: states, Type: "string"}, nil)
	e.command("lock", "Lock it.", e.word("payload_lock", "LOCK"), highRisk, "command_template")
	e.command("unlock", "Unlock it.", e.word("payload_unlock", "UNLOCK"), highRisk, "command_template")
	if e.fields["payload_open"] != nil {
		e.command("open", "Open it.", e.word("payload_open", "OPEN"), highRisk, "command_template")
	}
}

// asCover reads covers and valves.
func (e *entity) asCover() {
	risk := ""
	if class := e.word("device_class", ""); e.component == "valve" || slices.Contains([]string{"garage", "gate", "door"}, class) {
		risk = highRisk
	}
	if e.component == "valve" && e.flag("reports_position") {
		e.fail("reports_position: a valve with positions is not understood")
	}
	if e.fields["tilt_command_topic"] != nil || e.fields["tilt_cmd_t"] != nil {
		e.fail("tilt_command_topic: tilting is not understood")
	}
	states := map[string]any{}
	for _, s := range []string{"open", "opening", "closed", "closing", "stopped"} {
		states[e.word("state_"+s, s)] = s
	}
	e.state("state", "state_topic", "value_template", device.Extraction{Map: states, Type: "string"}, nil)
	low, high := e.number("position_closed", 0), e.number("position_open", 100)
	bounds := ranged(min(low, high), max(low, high), "position: closed is "+template.Text(low)+", open is "+template.Text(high))
	e.state("position", "position_topic", "position_template", device.Extraction{Type: "number"}, bounds)
	if e.fields["command_topic"] != nil {
		for _, c := range []struct{ id, field, word, says string }{
			{"open", "payload_open", "OPEN", "Open it."}, {"close", "payload_close", "CLOSE", "Close it."}, {"stop", "payload_stop", "STOP", "Stop it."},
		} {
			word, there := e.fields[c.field]
			if there && word == nil || c.id == "stop" && e.component == "valve" && !there {
				continue // it cannot do that
			}
			e.command(protocol.CapabilityID(c.id), c.says, e.word(c.field, c.word), risk, "")
		}
	}
	if e.fields["set_position_topic"] != nil {
		p := e.publication("set_position_topic", "set_position_template", template.Must("{{ position }}"), "position")
		p.Let = map[string]*template.Template{"value": template.Must("{{ position }}")}
		e.capability(device.Capability{
			ID: "set_position", Description: "Move it to a position.", Risk: risk, Idempotent: true, Publish: []device.Publication{p},
			Params: params(map[string]any{"position": bounds}, "position"),
		})
	}
}

// A setting is one of several things that one capability sets, each by a
// message of its own.
type setting struct {
	name                      string
	commandTopic, commandTmpl string
	stateTopic, stateTmpl     string
	schema                    map[string]any
	read                      device.Extraction
}

func (e *entity) asClimate() {
	unit := "degrees"
	if u := e.word("temperature_unit", ""); u == "C" || u == "F" {
		unit = "°" + u
	}
	temperature := ranged(e.number("min_temp", 7), e.number("max_temp", 35), "wanted temperature, in "+unit)
	list := func(field, topic string, otherwise ...any) map[string]any {
		words := otherwise
		if e.fields[field] != nil && e.fields[topic] != nil {
			words = e.options(field)
		}
		return map[string]any{"type": "string", "enum": words}
	}
	text, number := device.Extraction{Type: "string"}, device.Extraction{Type: "number"}
	settings := []setting{
		{"mode", "mode_command_topic", "mode_command_template", "mode_state_topic", "mode_state_template",
			list("modes", "mode_command_topic", "auto", "off", "cool", "heat", "dry", "fan_only"), text},
		{"temperature", "temperature_command_topic", "temperature_command_template", "temperature_state_topic", "temperature_state_template", temperature, number},
		{"fan_mode", "fan_mode_command_topic", "fan_mode_command_template", "fan_mode_state_topic", "fan_mode_state_template",
			list("fan_modes", "fan_mode_command_topic", "auto", "low", "medium", "high"), text},
		{"swing_mode", "swing_mode_command_topic", "swing_mode_command_template", "swing_mode_state_topic", "swing_mode_state_template",
			list("swing_modes", "swing_mode_command_topic", "on", "off"), text},
		{"preset_mode", "preset_mode_command_topic", "preset_mode_command_template", "preset_mode_state_topic", "preset_mode_value_template",
			list("preset_modes", "preset_mode_command_topic"), text},
	}
	e.state("current_temperature", "current_temperature_topic", "current_temperature_template", number, map[string]any{"description": "in " + unit})
	e.state("action", "action_topic", "action_template", text, nil)
	e.settings("Set what is given.", settings)
}

// settings adds the states of settings, and one capability that sets those that
// are given.
func (e *entity) settings(description string, list []setting) {
	properties := map[string]any{}
	var publish []device.Publication
	for _, s := range list {
		e.state(s.name, s.stateTopic, s.stateTmpl, s.read, s.schema)
		if e.fields[s.commandTopic] == nil {
			continue
		}
		p := e.publication(s.commandTopic, s.commandTmpl, template.Must("{{ value }}"))
		p.When = template.Must("{{ " + s.name + " is defined }}")
		p.Let = map[string]*template.Template{"value": template.Must("{{ " + s.name + " }}")}
		properties[s.name] = s.schema
		publish = append(publish, p)
	}
	if len(publish) == 0 {
		return
	}
	e.capability(device.Capability{ID: "set", Description: description, Idempotent: true, Publish: publish, Params: atLeastOne(properties)})
}
