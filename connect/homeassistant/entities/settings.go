// Package entities shows skills to Home Assistant as entities
// (docs/home-assistant.md#skills-as-entities): it announces them by MQTT discovery,
// publishes their state and availability, and takes commands.
package entities

import (
	"path"
	"time"

	"github.com/aibridge/aibridge/connect/device"
	"github.com/aibridge/aibridge/protocol"
)

// Settings select the skills that are shown.
type Settings struct {
	Space   string        `yaml:"space" doc:"space whose skills Home Assistant is shown; none when empty"`
	Skills  []string      `yaml:"skills" doc:"ids of these skills, with * for any part, such as lamp-*; needed with space"`
	Prefix  string        `yaml:"prefix" doc:"topic below which they are announced"`
	Refresh time.Duration `yaml:"refresh" doc:"interval at which the state of a skill is read again"`
	Most    int           `yaml:"most" doc:"skills that are shown"`
}

// DefaultSettings show nothing.
func DefaultSettings() Settings {
	return Settings{Prefix: "homeassistant", Refresh: 30 * time.Second, Most: 1000}
}

// Check reports faults of the settings.
func (s *Settings) Check(root string, fail func(format string, args ...any)) {
	const at = "connect.homeassistant.publish."
	if s.Space == "" {
		if len(s.Skills) > 0 {
			fail(at + "space: is needed with " + at + "skills")
		}
		return
	}
	if reason := protocol.SpaceID("").Rule().Check(s.Space); reason != "" {
		fail(at+"space: %s", reason)
	}
	if err := device.CheckTopic(s.Prefix, root); err != nil {
		fail(at+"prefix: %w", err)
	}
	if len(s.Skills) == 0 {
		fail(at + "skills: is needed, such as lamp-*; * is for every skill")
	}
	for _, pattern := range s.Skills {
		if _, err := path.Match(pattern, ""); err != nil {
			fail(at+"skills: %q is no pattern", pattern)
		}
	}
	if s.Refresh < time.Second || s.Refresh > 24*time.Hour {
		fail(at + "refresh: is not within 1s and 24h")
	}
	if s.Most < 1 || s.Most > 10_000 {
		fail(at+"most: %d is not within 1 and 10000", s.Most)
	}
}

// announced is the id of the principal that registers announced devices.
const announced = "homeassistant"

// shows reports whether a skill is one of those that are shown. Skills that came
// from announcements are not: Home Assistant has them already.
func (s *Settings) shows(skill *Skill) bool {
	if skill.Owner.Kind == protocol.KindBridge && skill.Owner.ID == announced || skill.Space != protocol.SpaceID(s.Space) {
		return false
	}
	for _, pattern := range s.Skills {
		if ok, err := path.Match(pattern, string(skill.ID)); ok && err == nil {
			return true
		}
	}
	return false
}
