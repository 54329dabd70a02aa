// Package homeassistant makes agents of the devices that are announced for Home
// Assistant (docs/home-assistant.md), as zigbee2mqtt, Tasmota and ESPHome do.
package homeassistant

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/aibridge/aibridge/connect/device"
	"github.com/aibridge/aibridge/connect/template"
	"github.com/aibridge/aibridge/protocol"
)

// Bounds of one announcement.
const (
	maxAnnouncement = 128 << 10 // bytes
	maxComponents   = 100       // of one device
	maxList         = 100       // items, of options and of availability topics
	maxText         = 512       // bytes of a text that is no template
)

// idRule is the form of ids in announcements.
var idRule = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,128}$`)

// An address is a parsed topic of an announcement.
type address struct {
	component string // "device" for a device with several
	id        string // [node.]object
}

// parseAddress takes a topic apart: PREFIX/COMPONENT/[NODE/]OBJECT/config.
func parseAddress(prefix, topic string) (a address, ok bool) {
	rest, ok := strings.CutPrefix(topic, prefix+"/")
	if !ok {
		return a, false
	}
	levels := strings.Split(rest, "/")
	if len(levels) < 3 || len(levels) > 4 || levels[len(levels)-1] != "config" {
		return a, false
	}
	for _, level := range levels[:len(levels)-1] {
		if !idRule.MatchString(level) {
			return a, false
		}
	}
	return address{levels[0], strings.Join(levels[1:len(levels)-1], ".")}, true
}

// agent is the id of the agent for an address. Ids that are too long end in a
// digest.
func (a address) agent() protocol.AgentID {
	return protocol.AgentID(shortened("ha." + a.component + "." + a.id))
}

const longestID = 64

// digested is an id that ends like one that was shortened.
var digested = regexp.MustCompile(`^.{47}\.[0-9a-f]{16}$`)

// shortened is an id that is no other's: one that looks as if it had been
// shortened is, too.
func shortened(id string) string {
	if len(id) <= longestID && !digested.MatchString(id) {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return id[:longestID-17] + "." + hex.EncodeToString(sum[:8])
}

// A reader reads announcements.
type reader struct {
	root   string // of the bridge's own topics
	prefix string // of announcements
	allows func(topic string) bool
	// mayRead and mayWrite fail if the announcer may not subscribe or publish to a topic.
	mayRead  func(topic string) error
	mayWrite func(topic string, retain bool) error
}

// read makes a device of an announcement. It fails for an announcement that cannot be
// read.
func (r *reader) read(at address, payload []byte) (*device.Device, error) {
	if len(payload) > maxAnnouncement {
		return nil, fmt.Errorf("the announcement has more than %d bytes", maxAnnouncement)
	}
	v, err := template.FromJSON(payload)
	if err != nil {
		return nil, err
	}
	whole, ok := v.(map[string]any)
	if !ok {
		return nil, errors.New("the announcement is no object")
	}
	whole, err = expanded(whole)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(payload)
	d := &device.Device{Agent: at.agent(), Digest: hex.EncodeToString(sum[:])}
	about, err := aboutOf(whole)
	if err != nil {
		return nil, err
	}
	if at.component == "device" {
		return d, r.components(d, whole, about)
	}
	e := &entity{reader: r, component: at.component, fields: whole, about: about}
	s, err := e.skill(protocol.SkillID(d.Agent))
	if err != nil {
		return nil, err
	}
	d.Name, d.Skills = s.Name, []device.Skill{*s}
	d.Presence, err = e.presence()
	return d, err
}

// components reads a device with several components. Components that are not
// understood are reported, and the others are taken.
func (r *reader) components(d *device.Device, whole map[string]any, about about) error {
	parts, ok := whole["components"].(map[string]any)
	if !ok || len(parts) == 0 {
		return errors.New("components: there are none")
	}
	if len(parts) > maxComponents {
		return fmt.Errorf("components: more than %d", maxComponents)
	}
	var refused []error
	for _, key := range sortedKeys(parts) {
		s, err := r.part(d, whole, about, key, parts[key])
		if err != nil {
			refused = append(refused, fmt.Errorf("components.%.64s: %w", key, err))
			continue
		}
		if s != nil {
			d.Skills = append(d.Skills, *s)
		}
	}
	shared := &entity{reader: r, fields: whole, about: about}
	var err error
	if d.Presence, err = shared.presence(); err != nil {
		return err
	}
	d.Name = line(about.name, string(d.Agent))
	if len(d.Skills) == 0 {
		return errors.Join(append([]error{errors.New("nothing of it is understood")}, refused...)...)
	}
	if len(refused) > 0 {
		return &partly{refused}
	}
	return nil
}

// A partly is the error about components of a device that are left out.
type partly struct{ refused []error }

func (p *partly) Error() string { return errors.Join(p.refused...).Error() }

// part reads one component. It is nil if the component is removed by this
// announcement.
func (r *reader) part(d *device.Device, whole map[string]any, about about, key string, v any) (*device.Skill, error) {
	if !idRule.MatchString(key) {
		return nil, errors.New("the id has other characters than letters, digits, _ and -")
	}
	fields, ok := v.(map[string]any)
	if !ok {
		return nil, errors.New("is no object")
	}
	fields, err := expanded(fields)
	if err != nil {
		return nil, err
	}
	platform, _ := fields["platform"].(string)
	if len(fields) == 1 && platform != "" {
		return nil, nil
	}
	merged := map[string]any{}
	for _, name := range []string{"state_topic", "command_topic", "qos", "encoding", "~"} {
		if inherited, ok := whole[name]; ok {
			merged[name] = inherited
		}
	}
	for name, own := range fields {
		merged[name] = own
	}
	for _, name := range []string{"availability", "availability_topic"} {
		if _, own := fields[name]; own {
			return nil, fmt.Errorf("%s of one component is not understood: the device has one presence", name)
		}
	}
	e := &entity{reader: r, component: platform, fields: merged, about: about}
	return e.skill(protocol.SkillID(shortened(string(d.Agent) + "." + key)))
}

// An about is the name and the model of an announced device.
type about struct{ name, model string }

func aboutOf(whole map[string]any) (a about, err error) {
	d, ok := whole["device"].(map[string]any)
	if !ok {
		return a, nil
	}
	for short, long := range deviceWords {
		if v, there := d[short]; there && d[long] == nil {
			d[long] = v
		}
	}
	a.name = text(d["name"])
	a.model = strings.TrimSpace(text(d["manufacturer"]) + " " + text(d["model"]))
	return a, nil
}

// text is a text, or nothing.
func text(v any) string {
	s, _ := v.(string)
	return s
}

// line is a text for people in one line: what is hidden or not fit to print is
// left out.
func line(text, otherwise string) string {
	var b strings.Builder
	n := 0
	for _, c := range text {
		if n == 120 {
			break
		}
		if c == '\n' || c == '\r' || c == '\t' {
			c = ' '
		}
		if c < ' ' || c == 0x7f || c == 0xfffd || c >= 0x80 && c < 0xa0 || protocol.Hidden(c) {
			continue
		}
		b.WriteRune(c)
		n++
	}
	if s := strings.TrimSpace(b.String()); s != "" {
		return s
	}
	return otherwise
}

// expanded has the long names of an announcement's keys, and its topics with the
// base that ~ stands for.
func expanded(fields map[string]any) (map[string]any, error) {
	full := make(map[string]any, len(fields))
	for name, v := range fields {
		if long := words[name]; long != "" {
			if _, both := fields[long]; both {
				return nil, fmt.Errorf("%s and %s are there both", name, long)
			}
			name = long
		}
		full[name] = v
	}
	base, there := full["~"]
	if !there {
		return full, nil
	}
	at, ok := base.(string)
	if !ok || strings.Contains(at, "~") || len(at) > maxText {
		return nil, errors.New("~: the base is no topic, or names itself")
	}
	for name, v := range full {
		if strings.HasSuffix(name, "topic") {
			full[name] = based(v, at)
		}
	}
	list, _ := full["availability"].([]any)
	if one, ok := full["availability"].(map[string]any); ok {
		list = []any{one}
	}
	for _, item := range list {
		if object, ok := item.(map[string]any); ok {
			for _, name := range []string{"topic", "t"} {
				object[name] = based(object[name], at)
			}
		}
	}
	return full, nil
}

// based is a topic with the base for a ~ at its begin or end.
func based(v any, base string) any {
	topic, ok := v.(string)
	if !ok {
		return v
	}
	if rest, ok := strings.CutPrefix(topic, "~"); ok {
		topic = base + rest
	}
	if rest, ok := strings.CutSuffix(topic, "~"); ok {
		topic = rest + base
	}
	return topic
}
