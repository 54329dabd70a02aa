package entities

import (
	"encoding/json"
	"maps"
)

// whole makes entities of capabilities that together are a thing that Home
// Assistant knows: a lock, a cover, a light, a thermostat.
func (m *mapping) whole() {
	m.lock()
	m.cover()
	for i := range m.skill.Capabilities {
		c := &m.skill.Capabilities[i]
		params, plain := objectOf(c.Params)
		if c.Reads || m.done[c.ID] || !plain || len(params.Required) > 0 || m.refusal(c) != "" {
			continue
		}
		m.light(c, &params)
		m.climate(c, &params)
	}
}

// take makes an entity of capabilities that make no others.
func (m *mapping) take(e Entity, of ...*Capability) {
	for _, c := range of {
		if c != nil {
			m.done[c.ID] = true
			e.Does = append(e.Does, c.ID)
			e.Risky = e.Risky || c.risky()
		}
	}
	m.add(e)
}

func (m *mapping) lock() {
	lock, unlock, open := m.bare("lock"), m.bare("unlock"), m.bare("open")
	if lock == nil || unlock == nil {
		return
	}
	e := Entity{Key: "lock", Platform: "lock", shows: map[string]*value{}, fields: map[string]any{"payload_lock": "LOCK", "payload_unlock": "UNLOCK"}}
	of := map[string]*Capability{"LOCK": lock, "UNLOCK": unlock}
	if open != nil && m.bare("close") == nil {
		e.fields["payload_open"], of["OPEN"] = "OPEN", open
	} else {
		open = nil
	}
	for _, state := range []string{"locked", "locking", "unlocked", "unlocking", "jammed"} {
		e.fields["state_"+state] = state
	}
	m.show(&e, "state_topic", m.value("state", "option", "text"))
	e.inputs = map[string]input{"command_topic": words(of)}
	m.take(e, lock, unlock, open)
}

func (m *mapping) cover() {
	open, shut, stop := m.bare("open"), m.bare("close"), m.bare("stop")
	if open == nil || shut == nil {
		return
	}
	e := Entity{Key: "cover", Platform: "cover", shows: map[string]*value{}, inputs: map[string]input{}, fields: map[string]any{
		"payload_open": "OPEN", "payload_close": "CLOSE", "payload_stop": nil,
	}}
	of := map[string]*Capability{"OPEN": open, "CLOSE": shut}
	if stop != nil {
		e.fields["payload_stop"], of["STOP"] = "STOP", stop
	}
	e.inputs["command_topic"] = words(of)
	m.show(&e, "state_topic", m.value("state", "option", "text"))
	set, bounds := m.positioned()
	if set != nil {
		e.fields["position_closed"], e.fields["position_open"] = bounds[0], bounds[1]
		e.inputs["set_position_topic"] = valued(set, "position", "number")
		m.show(&e, "position_topic", m.value("position", "number", "integer"))
		if e.shows["position_topic"] == nil { // Home Assistant wants both or neither
			delete(e.inputs, "set_position_topic")
			set = nil
		}
	}
	m.take(e, open, shut, stop, set)
}

// positioned finds the capability that moves a cover to a position, of bounds
// that are closed and open.
func (m *mapping) positioned() (*Capability, [2]int) {
	c := m.act("set_position")
	if c == nil {
		return nil, [2]int{}
	}
	params, ok := objectOf(c.Params)
	about := params.Properties["position"]
	if !ok || len(params.Properties) != 1 || about == nil || about.sort() != "number" && about.sort() != "integer" || about.Minimum == nil || about.Maximum == nil {
		return nil, [2]int{}
	}
	low, high := int(*about.Minimum), int(*about.Maximum)
	return c, [2]int{low, high}
}

// light makes a light of a capability that sets on and brightness, with the other
// properties that it has.
func (m *mapping) light(c *Capability, params *object) {
	lit, bright := params.Properties["on"], params.Properties["brightness"]
	if lit == nil || lit.sort() != "boolean" || bright == nil || bright.sort() != "number" && bright.sort() != "integer" || bright.Maximum == nil || *bright.Maximum < 1 {
		return
	}
	e := Entity{
		Key: safe(string(c.ID)), Platform: "light", Name: "", shows: map[string]*value{},
		fields: map[string]any{"payload_on": on, "payload_off": off, "brightness_scale": int(*bright.Maximum), "on_command_type": "last"},
		inputs: map[string]input{
			"command_topic": valued(c, "on", "boolean"), "brightness_command_topic": valued(c, "brightness", bright.sort()),
		},
	}
	m.show(&e, "state_topic", m.value("on", "boolean"))
	m.show(&e, "brightness_state_topic", m.value("brightness", "number", "integer"))
	if effect := params.Properties["effect"]; effect != nil && effect.sort() == "option" {
		e.fields["effect_list"], _ = effect.options()
		e.inputs["effect_command_topic"] = valued(c, "effect", "option")
		m.show(&e, "effect_state_topic", m.value("effect", "option", "text"))
	}
	m.take(e, c)
	m.rest(c, params, &e, "on")
}

// climate makes a thermostat of a capability that sets a temperature and a mode.
func (m *mapping) climate(c *Capability, params *object) {
	wanted, mode := params.Properties["temperature"], params.Properties["mode"]
	if wanted == nil || wanted.sort() != "number" && wanted.sort() != "integer" || mode == nil {
		return
	}
	modes, ok := mode.options()
	if !ok || !climateModes(modes) {
		return
	}
	low, high := bounds(wanted)
	e := Entity{Key: safe(string(c.ID)), Platform: "climate", shows: map[string]*value{}, fields: map[string]any{
		"modes": modes, "min_temp": low, "max_temp": high, "temp_step": step(wanted),
	}, inputs: map[string]input{
		"mode_command_topic": valued(c, "mode", "option"), "temperature_command_topic": valued(c, "temperature", wanted.sort()),
	}}
	if unit := label(wanted.Unit, ""); unit == "°F" || unit == "F" {
		e.fields["temperature_unit"] = "F"
	} else {
		e.fields["temperature_unit"] = "C"
	}
	m.show(&e, "mode_state_topic", m.value("mode", "option", "text"))
	m.show(&e, "temperature_state_topic", m.value("temperature", "number", "integer"))
	m.show(&e, "current_temperature_topic", m.value("current_temperature", "number", "integer"))
	for _, name := range []string{"fan_mode", "swing_mode", "preset_mode"} {
		about := params.Properties[name]
		if about == nil || about.sort() != "option" {
			continue
		}
		e.fields[name+"s"], _ = about.options()
		e.inputs[name+"_command_topic"] = valued(c, name, "option")
		m.show(&e, name+"_state_topic", m.value(name, "option", "text"))
	}
	m.take(e, c)
	m.rest(c, params, &e, "")
}

// climateModes reports whether Home Assistant knows all of the modes.
func climateModes(modes []string) bool {
	for _, mode := range modes {
		switch mode {
		case "auto", "off", "cool", "heat", "dry", "fan_only", "heat_cool":
		default:
			return false
		}
	}
	return true
}

// rest makes entities of the parameters that a whole entity did not take.
func (m *mapping) rest(c *Capability, params *object, of *Entity, worded string) {
	left := object{Properties: maps.Clone(params.Properties)}
	for _, in := range of.inputs {
		if in.value != nil {
			delete(left.Properties, in.value.name)
		}
	}
	delete(left.Properties, worded) // whose values are words
	if left.Properties["transition"] != nil {
		m.leave(c.ID, `the parameter "transition" goes with others`)
		delete(left.Properties, "transition")
	}
	m.parameters(c, &left)
}

// bounds are the bounds of a number, or defaults.
func bounds(p *property) (low, high float64) {
	low, high = -1e6, 1e6
	if p.Minimum != nil {
		low = *p.Minimum
	}
	if p.Maximum != nil {
		high = *p.Maximum
	}
	if low > high {
		low, high = high, low
	}
	return low, high
}

// step is the step in which a number can be set.
func step(p *property) float64 {
	switch {
	case p.MultipleOf != nil && *p.MultipleOf >= 0.001:
		return *p.MultipleOf
	case p.sort() == "integer":
		return 1
	}
	return 0.1
}

// propertyOf reads the schema of a single value.
func propertyOf(schema json.RawMessage) (*property, bool) {
	p := new(property)
	return p, json.Unmarshal(schema, p) == nil
}
