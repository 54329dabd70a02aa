// Package binding reads files that describe devices on plain topics
// (docs/bindings.md).
package binding

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/aibridge/aibridge/connect/device"
	"github.com/aibridge/aibridge/protocol"
)

// Bounds of one file.
const (
	MaxFile         = 1 << 20 // bytes
	maxDevices      = 1000
	maxSkills       = 20
	maxCapabilities = 50
	maxParams       = 50
	maxPublications = 10
)

// A File is the content of a binding file.
type File struct {
	Space   protocol.SpaceID
	Devices []*device.Device
}

// Parse reads a file. root is the first level of the bridge's own topics. An
// error joins a [Fault] for everything that is wrong.
func Parse(name string, text []byte, root string) (*File, error) {
	if len(text) > MaxFile {
		return nil, &Fault{name, 1, "", fmt.Sprintf("the file has more than %d bytes", MaxFile)}
	}
	var whole yaml.Node
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	switch err := decoder.Decode(&whole); {
	case errors.Is(err, io.EOF):
		return &File{Space: protocol.DefaultSpace}, nil
	case err != nil:
		return nil, &Fault{name, lineOf(err), "", "is no YAML: " + strings.TrimPrefix(err.Error(), "yaml: ")}
	}
	if err := decoder.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, &Fault{name, 1, "", "has more than one document"}
	}
	r := &reader{file: name, root: root}
	f := &File{Space: protocol.DefaultSpace}
	space := string(f.Space)
	r.object(value{whole.Content[0], ""},
		key{"devices", func(v value) { f.Devices = r.devices(v) }},
		key{"space", func(v value) {
			r.text(&space, 256)(v)
			r.rule(v, protocol.SpaceID("").Rule(), space)
		}},
	)
	if err := r.err(); err != nil {
		return nil, err
	}
	f.Space = protocol.SpaceID(space)
	return f, nil
}

// lineOf is the line that an error of the YAML parser names.
func lineOf(err error) int {
	line := 1
	_, after, ok := strings.Cut(err.Error(), "line ")
	if ok {
		_, _ = fmt.Sscanf(after, "%d", &line)
	}
	return line
}

func (r *reader) rule(v value, rule protocol.Rule, text string) {
	if reason := rule.Check(text); reason != "" {
		r.fail(v, "%s", reason)
	}
}

func (r *reader) devices(v value) (list []*device.Device) {
	seen := map[protocol.AgentID]bool{}
	r.list(v, maxDevices, func(v value) {
		d := r.device(v)
		if d == nil {
			return
		}
		if seen[d.Agent] {
			r.fail(v, "there is another agent %q in this file", d.Agent)
		}
		seen[d.Agent] = true
		list = append(list, d)
	})
	return list
}

func (r *reader) device(v value) *device.Device {
	d := new(device.Device)
	var id string
	r.object(v,
		key{"agent", r.text(&id, 256)},
		key{"name", r.text(&d.Name, 128)},
		key{"presence", func(v value) { d.Presence = r.presence(v) }},
		key{"skills", func(v value) {
			r.list(v, maxSkills, func(v value) { d.Skills = append(d.Skills, r.skill(v)) })
		}},
	)
	d.Agent = protocol.AgentID(id)
	r.rule(value{v.node, v.field + ".agent"}, d.Agent.Rule(), id)
	if len(d.Skills) == 0 {
		r.fail(v, "skills are needed")
	}
	seen := map[protocol.SkillID]bool{}
	for _, s := range d.Skills {
		if seen[s.ID] {
			r.fail(v, "there are two skills %q", s.ID)
		}
		seen[s.ID] = true
	}
	if d.Presence.Fresh > 0 && len(d.Topics()) == 0 {
		r.fail(v, "presence.fresh needs a topic that the device is read from")
	}
	text, err := yaml.Marshal(v.node)
	if err != nil {
		r.fail(v, "cannot be read")
	}
	sum := sha256.Sum256(text)
	d.Digest = hex.EncodeToString(sum[:])
	return d
}

func (r *reader) presence(v value) (p device.Presence) {
	p.Mode = device.All
	a := device.Availability{Online: "online", Offline: "offline"}
	var fromJSON bool
	r.object(v, append(r.extraction(&a.Read, &fromJSON),
		key{"topic", r.topicName(&a.Topic)},
		key{"online", r.text(&a.Online, 256)},
		key{"offline", r.text(&a.Offline, 256)},
		key{"fresh", r.duration(&p.Fresh, 7*24*time.Hour)},
	)...)
	if a.Topic != "" {
		p.Topics = []device.Availability{a}
	}
	if a.Topic == "" && p.Fresh == 0 {
		r.fail(v, "topic or fresh is needed")
	}
	return p
}

// topicName takes a topic without templates.
func (r *reader) topicName(into *string) func(value) {
	return func(v value) {
		r.text(into, 1024)(v)
		if err := device.CheckTopic(*into, r.root); err != nil {
			r.fail(v, "%v", err)
		}
	}
}

func (r *reader) skill(v value) (s device.Skill) {
	var id string
	r.object(v,
		key{"skill", r.text(&id, 256)},
		key{"name", r.text(&s.Name, 128)},
		key{"description", r.text(&s.Description, 512)},
		key{"state", func(v value) { s.State = r.state(v) }},
		key{"capabilities", func(v value) { s.Capabilities = r.capabilities(v) }},
	)
	s.ID = protocol.SkillID(id)
	r.rule(value{v.node, v.field + ".skill"}, s.ID.Rule(), id)
	if s.Name == "" {
		s.Name = id
	}
	if len(s.State)+len(s.Capabilities) == 0 {
		r.fail(v, "state or capabilities are needed")
	}
	for i := range s.Capabilities {
		c := &s.Capabilities[i]
		if c.ID == device.StateCapability && len(s.State) > 0 {
			r.fail(v, "the capability state is the one that reads the state: call this one otherwise")
		}
		if c.Answer != nil && c.Answer.Read == nil && len(s.State) == 0 {
			r.fail(v, "the answer of %s needs path, value, regexp or map, as the skill has no state that could be the answer", c.ID)
		}
	}
	return s
}

func (r *reader) state(v value) (list []device.Reading) {
	if !v.is(yaml.MappingNode) || len(v.node.Content)/2 > maxParams {
		r.fail(v, "must be an object of at most %d names", maxParams)
		return nil
	}
	for name, inner := range r.pairs(v) {
		if !nameRule.MatchString(name) || name == "updated_at" {
			r.fail(inner, "the name must be of letters, digits and _, and not updated_at")
			continue
		}
		reading := device.Reading{Name: name, Schema: map[string]any{}}
		var unit, description string
		var fromJSON bool
		r.object(inner, append(r.extraction(&reading.Read, &fromJSON),
			key{"topic", r.topicName(&reading.Topic)},
			key{"unit", r.text(&unit, 32)},
			key{"description", r.text(&description, 256)},
		)...)
		if reading.Topic == "" {
			r.fail(inner, "topic is needed")
		}
		if reading.Read.Type != "" {
			reading.Schema["type"] = reading.Read.Type
		}
		if text := described(description, unit); text != "" {
			reading.Schema["description"] = text
		}
		list = append(list, reading)
	}
	return list
}

// described is a description with the unit that the value is in.
func described(text, unit string) string {
	if unit == "" {
		return text
	}
	return strings.TrimSpace(text + " In " + unit + ".")
}
