package entities

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/aibridge/aibridge/protocol"
)

// A Device is a skill as Home Assistant is to see it.
type Device struct {
	Skill    protocol.SkillID
	Name     string
	Entities []Entity
	LeftOut  []LeftOut

	values []value // that its entities show
	reads  []protocol.CapabilityID
}

// An Entity is one of its entities.
type Entity struct {
	Key      string // unique in the device
	Platform string
	Name     string
	Does     []protocol.CapabilityID // the capabilities that commands call
	Risky    bool                    // some of them need an approval

	fields map[string]any    // beside those of all entities
	shows  map[string]*value // by the field that names the topic, such as state_topic
	inputs map[string]input  // by the field, such as command_topic
}

// A LeftOut is a capability, or a part of one, that is no entity.
type LeftOut struct {
	Capability protocol.CapabilityID
	Reason     string
}

// A value is a part of the result of a reading capability.
type value struct {
	key        string // in the published state
	capability protocol.CapabilityID
	property   string // "" for the whole answer
	about      *property
	used       bool // by an entity that also takes commands
}

const (
	mostEntities = 100 // of a device
	longestState = 255 // bytes of a text that Home Assistant keeps
)

// Show maps a skill to a device.
func Show(s *Skill) *Device {
	m := &mapping{skill: s, device: &Device{Skill: s.ID, Name: label(s.Name, string(s.ID))}}
	m.readable()
	m.whole()
	m.actions()
	m.sensors()
	slices.SortFunc(m.device.Entities, func(a, b Entity) int { return strings.Compare(a.Key, b.Key) })
	if n := len(m.device.Entities); n > mostEntities {
		m.leave("", fmt.Sprintf("%d entities are more than %d", n, mostEntities))
		m.device.Entities = m.device.Entities[:mostEntities]
	}
	return m.device
}

// A mapping is a skill that is being mapped.
type mapping struct {
	skill  *Skill
	device *Device
	done   map[protocol.CapabilityID]bool // capabilities that an entity has taken whole
}

func (m *mapping) leave(id protocol.CapabilityID, reason string) {
	m.device.LeftOut = append(m.device.LeftOut, LeftOut{id, reason})
}

// readable finds the capabilities that can be read without params.
func (m *mapping) readable() {
	m.done = map[protocol.CapabilityID]bool{}
	for i := range m.skill.Capabilities {
		c := &m.skill.Capabilities[i]
		if !c.Reads {
			continue
		}
		m.done[c.ID] = true
		params, plain := objectOf(c.Params)
		result, object := objectOf(c.Result)
		switch {
		case c.Sealed:
			m.leave(c.ID, "its params must be sealed, which the bridge cannot do")
		case c.risky() || c.Risk == "deny":
			m.leave(c.ID, "it reads with risk "+label(c.Risk, "")+", and the state is read again and again")
		case !plain || len(params.Required) > 0:
			m.leave(c.ID, "it reads only with params")
		case len(c.Result) == 0:
			m.leave(c.ID, "it does not declare what it answers (result_schema)")
		case !object:
			m.wholeAnswer(c)
		default:
			m.parts(c, &result)
		}
	}
}

// wholeAnswer has the answer of a capability as one value.
func (m *mapping) wholeAnswer(c *Capability) {
	about, ok := propertyOf(c.Result)
	if !ok || about.sort() == "" {
		m.leave(c.ID, "it answers with what is no single value")
		return
	}
	m.device.values = append(m.device.values, value{key: safe(string(c.ID)), capability: c.ID, about: about})
	m.device.reads = append(m.device.reads, c.ID)
}

// parts has each member of the answer of a capability as a value.
func (m *mapping) parts(c *Capability, result *object) {
	some := false
	for _, name := range slices.Sorted(maps.Keys(result.Properties)) {
		about := result.Properties[name]
		if about == nil || about.sort() == "" || name == "updated_at" {
			continue
		}
		some = true
		m.device.values = append(m.device.values, value{key: safe(string(c.ID)) + "_" + safe(name), capability: c.ID, property: name, about: about})
	}
	if !some {
		m.leave(c.ID, "its answer has no part that is a single value")
		return
	}
	m.device.reads = append(m.device.reads, c.ID)
}

// value finds a value by the name of its property.
func (m *mapping) value(name string, sorts ...string) *value {
	for i := range m.device.values {
		v := &m.device.values[i]
		if v.property == name && slices.Contains(sorts, v.about.sort()) {
			return v
		}
	}
	return nil
}

// act finds a capability that acts and can be asked for.
func (m *mapping) act(id protocol.CapabilityID) *Capability {
	for i := range m.skill.Capabilities {
		if c := &m.skill.Capabilities[i]; c.ID == id && !c.Reads && m.refusal(c) == "" {
			return c
		}
	}
	return nil
}

// bare is [mapping.act] of one without params.
func (m *mapping) bare(id protocol.CapabilityID) *Capability {
	c := m.act(id)
	if c == nil || m.done[id] {
		return nil
	}
	if params, ok := objectOf(c.Params); !ok || len(params.Properties) > 0 || len(params.Required) > 0 {
		return nil
	}
	return c
}

// refusal is the reason why a capability cannot be called.
func (m *mapping) refusal(c *Capability) string {
	switch {
	case c.Sealed:
		return "its params must be sealed, which the bridge cannot do"
	case c.Risk == "deny":
		return "its risk is deny"
	}
	return ""
}

// actions makes entities of the capabilities that act, one for each parameter.
func (m *mapping) actions() {
	for i := range m.skill.Capabilities {
		c := &m.skill.Capabilities[i]
		if c.Reads || m.done[c.ID] {
			continue
		}
		params, plain := objectOf(c.Params)
		switch reason := m.refusal(c); {
		case reason != "":
			m.leave(c.ID, reason)
		case !plain:
			m.leave(c.ID, "its params are no plain object")
		case len(params.Properties) == 0 && len(params.Required) == 0:
			m.button(c)
		case len(params.Required) > 1:
			m.leave(c.ID, "it needs "+fmt.Sprint(len(params.Required))+" params at once")
		default:
			m.parameters(c, &params)
		}
	}
}

// parameters makes an entity of each parameter that may be given alone.
func (m *mapping) parameters(c *Capability, params *object) {
	for _, name := range slices.Sorted(maps.Keys(params.Properties)) {
		about := params.Properties[name]
		if len(params.Required) == 1 && params.Required[0] != name {
			m.leave(c.ID, fmt.Sprintf("the parameter %q goes with %q", label(name, "?"), label(params.Required[0], "?")))
			continue
		}
		if about == nil || about.sort() == "" {
			m.leave(c.ID, fmt.Sprintf("the parameter %q is no single value", label(name, "?")))
			continue
		}
		m.control(c, name, about, len(params.Properties) == 1)
	}
}

func (m *mapping) button(c *Capability) {
	m.add(Entity{
		Key: safe(string(c.ID)), Platform: "button", Name: c.name(), Does: []protocol.CapabilityID{c.ID}, Risky: c.risky(),
		fields: map[string]any{"payload_press": "PRESS"},
		inputs: map[string]input{"command_topic": words(map[string]*Capability{"PRESS": c})},
	})
}

// control makes an entity of one parameter.
func (m *mapping) control(c *Capability, name string, about *property, alone bool) {
	sort := about.sort()
	e := Entity{
		Key: safe(string(c.ID)) + "_" + safe(name), Does: []protocol.CapabilityID{c.ID}, Risky: c.risky(), fields: map[string]any{},
		inputs: map[string]input{"command_topic": valued(c, name, sort)}, shows: map[string]*value{},
		Name: label(about.Title, strings.ReplaceAll(label(name, string(c.ID)), "_", " ")),
	}
	if alone && about.Title == "" && c.Name != "" {
		e.Name = c.name()
	}
	switch sort {
	case "boolean":
		e.Platform = "switch"
		e.fields["payload_on"], e.fields["payload_off"] = on, off
	case "number", "integer":
		e.Platform = "number"
		e.fields["min"], e.fields["max"] = bounds(about)
		e.fields["step"], e.fields["mode"] = step(about), "auto"
		if unit := label(about.Unit, ""); unit != "" {
			e.fields["unit_of_measurement"] = unit
		}
	case "option":
		e.Platform = "select"
		e.fields["options"], _ = about.options()
	default:
		e.Platform = "text"
		e.fields["min"], e.fields["max"] = 0, longestState
		if about.MinLength != nil {
			e.fields["min"] = min(max(*about.MinLength, 0), longestState)
		}
		if about.MaxLength != nil {
			e.fields["max"] = min(max(*about.MaxLength, 1), longestState)
		}
	}
	m.show(&e, "state_topic", m.value(name, alike[sort]...))
	m.add(e)
}

// alike are the sorts of values that tell the state of a sort of parameter.
var alike = map[string][]string{
	"boolean": {"boolean"}, "number": {"number", "integer"}, "integer": {"number", "integer"}, "option": {"option", "text"}, "text": {"text", "option"},
}

// show has a field of an entity show a value.
func (m *mapping) show(e *Entity, field string, v *value) {
	if v != nil {
		v.used = true
		e.shows[field] = v
	}
}

// sensors makes entities of the values that no entity shows yet.
func (m *mapping) sensors() {
	for i := range m.device.values {
		v := &m.device.values[i]
		if v.used {
			continue
		}
		e := Entity{Key: v.key, Platform: "sensor", fields: map[string]any{}, shows: map[string]*value{"state_topic": v}}
		e.Name = label(v.about.Title, strings.ReplaceAll(label(v.property, string(v.capability)), "_", " "))
		if v.about.sort() == "boolean" {
			e.Platform = "binary_sensor"
			e.fields["payload_on"], e.fields["payload_off"] = on, off
		}
		if unit := label(v.about.Unit, ""); unit != "" && (v.about.sort() == "number" || v.about.sort() == "integer") {
			e.fields["unit_of_measurement"] = unit
		}
		if words, ok := v.about.options(); ok {
			e.fields["device_class"], e.fields["options"] = "enum", words
		}
		m.add(e)
	}
}

func (m *mapping) add(e Entity) {
	if slices.ContainsFunc(m.device.Entities, func(other Entity) bool { return other.Key == e.Key }) {
		e.Key += "_" + digest(e.Platform+fmt.Sprint(e.Does))
	}
	m.device.Entities = append(m.device.Entities, e)
}
