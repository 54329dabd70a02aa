package entities

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/aibridge/aibridge/protocol"
)

// ours is the prefix of the ids of devices that are announced here.
const ours = "aibridge_"

// MayBeOurs reports whether a topic is one on which announcements are made here.
func MayBeOurs(prefix, topic string) bool {
	return strings.HasPrefix(topic, prefix+"/device/"+ours) && strings.HasSuffix(topic, "/config")
}

// A place holds the id of an announced device and the topics of its announcement
// and state. The id is unique among all spaces and bridges.
type place struct {
	topics protocol.Topics
	prefix string
	id     string
}

func (s *Publisher) place(skill protocol.SkillID) place {
	id := ours + digest(s.BridgeID+"\x00"+string(s.space())+"\x00"+string(skill))
	if name := safe(string(skill)); name == string(skill) {
		id += "_" + name
	}
	return place{protocol.NewTopics(s.Root), s.Prefix, id}
}

func (p place) config() string       { return p.prefix + "/device/" + p.id + "/config" }
func (p place) availability() string { return p.topics.Entity(p.id, "availability") }
func (p place) state() string        { return p.topics.Entity(p.id, "state") }

// input is the topic of a field that takes commands.
func (p place) input(e *Entity, field string) string {
	return p.topics.Entity(p.id, e.Key+"-"+strings.TrimSuffix(field, "_topic")+"/set")
}

// inputs are all of them.
func (d *Device) inputs(at place) map[string]*input {
	all := map[string]*input{}
	for i := range d.Entities {
		e := &d.Entities[i]
		for field, in := range e.inputs {
			all[at.input(e, field)] = &in
		}
	}
	return all
}

// announcement is the device as Home Assistant reads it. A skill's own texts are in
// none of its templates and topics.
func (d *Device) announcement(at place, version string) []byte {
	components := map[string]any{}
	for i := range d.Entities {
		components[d.Entities[i].Key] = d.Entities[i].component(at)
	}
	text, err := json.Marshal(map[string]any{
		"device": map[string]any{
			"identifiers": []string{at.id}, "name": d.Name, "manufacturer": "AI Bridge", "model": "skill " + string(d.Skill),
		},
		"origin":       map[string]any{"name": "AI Bridge", "sw_version": version},
		"availability": []any{map[string]any{"topic": at.availability()}},
		"components":   components,
		"qos":          qos,
	})
	if err != nil {
		panic(err) // of maps of texts and numbers
	}
	return text
}

// qos has a command come exactly once, as it must not be carried out twice.
const qos = 2

func (e *Entity) component(at place) map[string]any {
	c := maps.Clone(e.fields)
	id := at.id + "_" + e.Key
	c["platform"], c["unique_id"], c["default_entity_id"] = e.Platform, id, e.Platform+"."+strings.ToLower(id)
	c["name"] = nil // the device's
	if e.Name != "" {
		c["name"] = e.Name
	}
	for field := range e.inputs {
		c[field] = at.input(e, field)
	}
	for field, v := range e.shows {
		c[field] = at.state()
		c[templateOf(e.Platform, field)] = "{{ value_json." + v.key + " }}"
	}
	return c
}

// templateOf is the field for the template of the field of a topic.
func templateOf(platform, field string) string {
	switch {
	case platform == "light" && field == "state_topic":
		return "state_value_template"
	case platform == "light" || platform == "climate" && field == "preset_mode_state_topic":
		return strings.TrimSuffix(field, "_state_topic") + "_value_template"
	case field == "state_topic":
		return "value_template"
	}
	return strings.TrimSuffix(field, "_topic") + "_template"
}

// state renders the answers of capabilities as Home Assistant reads them: every value
// by its key, null for what is not known.
func (d *Device) state(answers map[protocol.CapabilityID]any) []byte {
	told := map[string]any{}
	for i := range d.values {
		v := &d.values[i]
		answer := answers[v.capability]
		if v.property != "" {
			object, _ := answer.(map[string]any)
			answer = object[v.property]
		}
		told[v.key] = v.shown(answer)
	}
	text, err := json.Marshal(told)
	if err != nil {
		panic(err) // of what was JSON
	}
	return text
}

// shown is a value in the words that were announced, nil if it does not fit.
func (v *value) shown(answer any) any {
	switch sort := v.about.sort(); answer := answer.(type) {
	case bool:
		if sort == "boolean" {
			return map[bool]string{true: on, false: off}[answer]
		}
	case json.Number:
		if sort == "number" || sort == "integer" {
			return answer
		}
	case string:
		words, chosen := v.about.options()
		switch {
		case sort == "text" && len(answer) <= longestState && label(answer, "") == answer, chosen && slices.Contains(words, answer):
			return answer
		case sort == "text":
			runes := []rune(label(answer, ""))
			for len(string(runes)) > longestState {
				runes = runes[:len(runes)-1]
			}
			return string(runes)
		}
	}
	return nil
}

// String is an entity in a line, for people.
func (e *Entity) String() string {
	text := fmt.Sprintf("%s %s", e.Platform, e.Key)
	if len(e.Does) > 0 {
		text += fmt.Sprintf(" (%s)", strings.Join(namesOf(e.Does), ", "))
	}
	if e.Risky {
		text += ", after an approval"
	}
	return text
}

func namesOf(ids []protocol.CapabilityID) (names []string) {
	for _, id := range ids {
		names = append(names, string(id))
	}
	return names
}
