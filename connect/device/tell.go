package device

import (
	"strconv"

	"github.com/aibridge/aibridge/connect/template"
)

// A Told is one value that a message of a device reports, for trying out a description.
type Told struct {
	What  string // such as state desk-lamp.on, presence or answer desk-lamp.set
	Value any
	Err   error // why it cannot be read; wraps template.ErrUndefined if the message is about something else
}

// Tell reads a message on a topic as the description says. It yields nothing
// for a topic that the device is not read from.
func (d *Device) Tell(topic string, payload []byte) []Told {
	var list []Told
	for i := range d.Presence.Topics {
		if a := &d.Presence.Topics[i]; a.Topic == topic {
			v, err := a.Read.Read(payload)
			list = append(list, Told{"presence", a.word(v), err})
		}
	}
	for i := range d.Skills {
		s := &d.Skills[i]
		for j := range s.State {
			if r := &s.State[j]; r.Topic == topic {
				v, err := r.Read.Read(payload)
				list = append(list, Told{"state " + string(s.ID) + "." + r.Name, v, err})
			}
		}
		for j := range s.Capabilities {
			if c := &s.Capabilities[j]; c.Answer != nil && c.Answer.Read != nil && c.Answer.Topics[0] == topic {
				v, err := c.Answer.Read.Read(payload)
				list = append(list, Told{"answer " + string(s.ID) + "." + string(c.ID), v, err})
			}
		}
	}
	return list
}

// word is the word of a value about the device: online, offline, or neither.
func (a *Availability) word(v any) any {
	switch text := template.Text(v); text {
	case a.Online:
		return online
	case a.Offline:
		return offline
	default:
		return "neither " + strconv.Quote(a.Online) + " nor " + strconv.Quote(a.Offline)
	}
}

// Find is a capability by its skill.
func (d *Device) Find(skill, capability string) *Capability {
	for i := range d.Skills {
		if string(d.Skills[i].ID) != skill {
			continue
		}
		for j := range d.Skills[i].Capabilities {
			if c := &d.Skills[i].Capabilities[j]; string(c.ID) == capability {
				return c
			}
		}
	}
	return nil
}
