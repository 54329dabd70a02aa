package homeassistant

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/aibridge/aibridge/connect/device"
	"github.com/aibridge/aibridge/connect/template"
)

// atLeastOne are the params of a capability that sets the given properties, at least one.
func atLeastOne(properties map[string]any) json.RawMessage {
	text, err := json.Marshal(map[string]any{"type": "object", "properties": properties, "additionalProperties": false, "minProperties": 1})
	if err != nil {
		panic(err) // of maps of texts and numbers
	}
	return text
}

// asLight reads lights of the three schemas that there are. Callers set the
// brightness in percent, whichever unit the light uses.
func (e *entity) asLight() {
	switch schema := e.word("schema", "basic"); schema {
	case "basic", "default":
		e.basicLight()
	case "json":
		e.jsonLight()
	case "template":
		e.templateLight()
	default:
		e.fail("schema: %.32q is not understood", schema)
	}
}

// brightness is the description of the param and of the state.
func brightness() map[string]any { return ranged(0, 100, "in percent") }

// percent makes percent of a template's value, of a scale.
func percent(value string, scale float64) *template.Template {
	return template.Must(fmt.Sprintf("{{ (%s | float * 100 / %s) | round }}", value, decimal(scale)))
}

// scaled makes a value of a scale of the param brightness.
func scaled(scale float64) *template.Template {
	return template.Must(fmt.Sprintf("{{ (brightness * %s / 100) | round }}", decimal(scale)))
}

func decimal(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

func (e *entity) scale() float64 {
	scale := e.number("brightness_scale", 255)
	if scale < 1 || scale > 1e6 {
		e.fail("brightness_scale: is not between 1 and 1000000")
		return 255
	}
	return scale
}

// colorTemp describes the colour temperature, in the light's unit.
func (e *entity) colorTemp() map[string]any {
	if e.flag("color_temp_kelvin") {
		return ranged(e.number("min_kelvin", 2000), e.number("max_kelvin", 6535), "colour temperature in kelvin; less is warmer")
	}
	return ranged(e.number("min_mireds", 153), e.number("max_mireds", 500), "colour temperature in mired; more is warmer")
}

// basicLight has a topic for everything.
func (e *entity) basicLight() {
	on, off := e.word("payload_on", "ON"), e.word("payload_off", "OFF")
	if style := e.word("on_command_type", "last"); style == "brightness" {
		e.fail("on_command_type: brightness is not understood")
	}
	reads := "state_value_template"
	if e.fields[reads] == nil {
		reads = "value_template"
	}
	e.state("on", "state_topic", reads, e.onOff(on, off), nil)
	properties := map[string]any{"on": property("boolean", "whether it is to be on")}
	var publish []device.Publication
	if e.fields["brightness_command_topic"] != nil {
		e.basicBrightness(properties, &publish)
	}
	if e.fields["color_temp_command_topic"] != nil {
		properties["color_temp"] = e.colorTemp()
		e.state("color_temp", "color_temp_state_topic", "color_temp_value_template", device.Extraction{Type: "number"}, e.colorTemp())
		publish = append(publish, e.named("color_temp", "color_temp_command_topic", "color_temp_command_template"))
	}
	if e.fields["effect_command_topic"] != nil {
		properties["effect"] = map[string]any{"type": "string", "enum": e.options("effect_list")}
		e.state("effect", "effect_state_topic", "effect_value_template", device.Extraction{Type: "string"}, nil)
		publish = append(publish, e.named("effect", "effect_command_topic", "effect_command_template"))
	}
	p := e.publication("command_topic", "", template.Must("{{ "+quoted(on)+" if on | default(true) else "+quoted(off)+" }}"))
	publish = append(publish, p)
	e.capability(device.Capability{
		ID: "set", Description: "Switch it on or off, or change how it shines.", Idempotent: true, Publish: publish, Params: atLeastOne(properties),
	})
}

func (e *entity) basicBrightness(properties map[string]any, publish *[]device.Publication) {
	properties["brightness"] = brightness()
	scale := e.scale()
	if e.topic("brightness_state_topic") != "" {
		own := e.reads("brightness_value_template")
		if own != nil && !own.Single() {
			e.fail("brightness_value_template: is more than one expression")
		}
		inner := "value"
		if own != nil && own.Single() {
			inner = "(" + own.Expression() + ")"
		}
		if e.err == nil {
			e.state("brightness", "brightness_state_topic", "", device.Extraction{Template: e.percent(inner, scale), Type: "number"}, brightness())
		}
	}
	p := e.publication("brightness_command_topic", "brightness_command_template", template.Must("{{ value }}"), "brightness")
	p.When = template.Must("{{ brightness is defined and on | default(true) }}")
	p.Let = map[string]*template.Template{"value": scaled(scale), "brightness": scaled(scale)}
	*publish = append(*publish, p)
}

// percent is [percent] of an expression of the announcement.
func (e *entity) percent(inner string, scale float64) *template.Template {
	t, err := template.Parse(fmt.Sprintf("{{ (%s | float * 100 / %s) | round }}", inner, decimal(scale)))
	if err != nil {
		e.fail("brightness: %v", err)
	}
	return t
}

// named publishes a param of the name, if it is given.
func (e *entity) named(name, topic, custom string) device.Publication {
	p := e.publication(topic, custom, template.Must("{{ value }}"), name)
	p.When = template.Must("{{ " + name + " is defined and on | default(true) }}")
	p.Let = map[string]*template.Template{"value": template.Must("{{ " + name + " }}")}
	return p
}

// jsonLight reads a light that is set by one object, and reports its state in one.
func (e *entity) jsonLight() {
	scale := e.scale()
	e.state("on", "state_topic", "", device.Extraction{
		Template: template.Must("{{ value_json.state }}"), Map: map[string]any{"ON": true, "OFF": false}, Type: "boolean",
	}, nil)
	properties := map[string]any{"on": property("boolean", "whether it is to be on")}
	members := map[string]any{"state": template.Must("{{ 'ON' if on | default(true) else 'OFF' }}")}
	var modes []any
	if e.fields["supported_color_modes"] != nil {
		modes = e.options("supported_color_modes")
	}
	dims := slices.ContainsFunc(modes, func(mode any) bool { return mode != "onoff" })
	if e.flag("brightness") || dims {
		properties["brightness"] = brightness()
		members["brightness"] = scaled(scale)
		e.state("brightness", "state_topic", "", device.Extraction{Template: percent("value_json.brightness", scale), Type: "number"}, brightness())
	}
	if e.flag("color_temp") || slices.Contains(modes, any("color_temp")) {
		properties["color_temp"] = e.colorTemp()
		members["color_temp"] = template.Must("{{ color_temp }}")
		e.state("color_temp", "state_topic", "", device.Extraction{Template: template.Must("{{ value_json.color_temp }}"), Type: "number"}, e.colorTemp())
	}
	if e.flag("effect") && e.fields["effect_list"] != nil {
		properties["effect"] = map[string]any{"type": "string", "enum": e.options("effect_list")}
		members["effect"] = template.Must("{{ effect }}")
		e.state("effect", "state_topic", "", device.Extraction{Template: template.Must("{{ value_json.effect }}"), Type: "string"}, nil)
	}
	properties["transition"] = ranged(0, 3600, "how long the change takes, in seconds")
	members["transition"] = template.Must("{{ transition }}")
	p := e.publication("command_topic", "", template.Must("x"))
	p.Payload = device.JSONPayload(members)
	e.capability(device.Capability{
		ID: "set", Description: "Switch it on or off, or change how it shines.", Idempotent: true, Publish: []device.Publication{p}, Params: atLeastOne(properties),
	})
}

// templateLight reads a light whose commands and state are templates.
func (e *entity) templateLight() {
	on, off := e.template("command_on_template"), e.template("command_off_template")
	if on == nil || off == nil {
		e.fail("command_on_template and command_off_template are needed")
		return
	}
	known := []string{"state", "brightness", "color_temp", "effect", "transition", "flash"}
	for _, t := range []*template.Template{on, off} {
		for _, v := range t.Variables() {
			if !slices.Contains(known, v) {
				e.fail("command_on_template: the variable %s is not understood", v)
				return
			}
		}
	}
	uses := func(name string) bool { return slices.Contains(on.Variables(), name) }
	properties := map[string]any{"on": property("boolean", "whether it is to be on")}
	e.state("on", "state_topic", "state_template", device.Extraction{Map: map[string]any{"on": true, "off": false}, Type: "boolean"}, nil)
	if uses("brightness") {
		properties["brightness"] = brightness()
		if own := e.reads("brightness_template"); own != nil && own.Single() {
			e.state("brightness", "state_topic", "", device.Extraction{Template: e.percent("("+own.Expression()+")", 255), Type: "number"}, brightness())
		}
	}
	if uses("color_temp") {
		properties["color_temp"] = e.colorTemp()
		e.state("color_temp", "state_topic", "color_temp_template", device.Extraction{Type: "number"}, e.colorTemp())
	}
	if uses("effect") {
		properties["effect"] = map[string]any{"type": "string", "enum": e.options("effect_list")}
		e.state("effect", "state_topic", "effect_template", device.Extraction{Type: "string"}, nil)
	}
	if uses("transition") {
		properties["transition"] = ranged(0, 3600, "how long the change takes, in seconds")
	}
	switchOn, switchOff := e.publication("command_topic", "", on), e.publication("command_topic", "", off)
	switchOn.When, switchOff.When = template.Must("{{ on | default(true) }}"), template.Must("{{ not on | default(true) }}")
	switchOn.Let = map[string]*template.Template{"brightness": scaled(255), "state": template.Must("{{ 'on' }}")}
	switchOff.Let = map[string]*template.Template{"brightness": scaled(255), "state": template.Must("{{ 'off' }}")}
	e.capability(device.Capability{
		ID: "set", Description: "Switch it on or off, or change how it shines.", Idempotent: true,
		Publish: []device.Publication{switchOn, switchOff}, Params: atLeastOne(properties),
	})
}
