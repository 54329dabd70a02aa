package device

import (
	"context"
	"errors"
	"time"

	"github.com/aibridge/aibridge/connect/template"
	"github.com/aibridge/aibridge/protocol"
)

// A member is a device in a fleet. Its fields are guarded by the fleet's mutex.
type member struct {
	*Device
	fleet *Fleet

	registered bool
	again      bool // it was registered as something else before
	subscribed bool // its topics were subscribed to since it is a member
	beats      bool // a heartbeat is due
	failed     time.Time

	readings  map[reading]known
	available []string  // by availability topic: "", online or offline
	newest    int       // of them, -1 for none
	lastHeard time.Time // zero before the first message that is not retained
	silent    *time.Timer
	line      *line // while it is online

	waiting map[*wait]bool
	turn    chan struct{} // held by the request at work
	queued  int
	gone    context.Context // ends with the membership
	leave   context.CancelFunc
}

// A reading names a part of a state.
type reading struct {
	skill protocol.SkillID
	name  string
}

// A known is a value that a device reported, with its time.
type known struct {
	value any
	at    time.Time
}

// The words of availability.
const (
	online  = "online"
	offline = "offline"
)

func newMember(f *Fleet, d *Device) *member {
	m := &member{
		Device: d, fleet: f, readings: map[reading]known{}, available: make([]string, len(d.Presence.Topics)), newest: -1,
		waiting: map[*wait]bool{}, turn: make(chan struct{}, 1),
	}
	m.gone, m.leave = context.WithCancel(context.Background())
	return m
}

// inherit takes over from the same device as it was described before. Its messages
// are read anew, as they may mean something else: its topics are subscribed to
// anew, and retained messages come again.
func (m *member) inherit(old *member) {
	m.again = old.registered || old.again
	m.line = old.line
	old.line = nil
	m.lastHeard = old.lastHeard
	m.watchSilence()
	for i, a := range m.Presence.Topics {
		for j, before := range old.Presence.Topics {
			if a.Topic == before.Topic && a.Online == before.Online && a.Offline == before.Offline {
				m.available[i] = old.available[j]
				if old.newest == j {
					m.newest = i
				}
			}
		}
	}
	old.retire()
	if m.line != nil {
		m.line.is(m)
	}
}

// retire ends the calls that wait for the member.
func (m *member) retire() {
	m.leave()
	if m.silent != nil {
		m.silent.Stop()
	}
}

// there reports whether the device is there, by the rule of its presence.
func (m *member) there(now time.Time) bool {
	p := &m.Presence
	if p.Fresh > 0 && (m.lastHeard.IsZero() || now.Sub(m.lastHeard) >= p.Fresh) {
		return false
	}
	if len(p.Topics) == 0 {
		return true
	}
	count := 0
	for _, said := range m.available {
		if said == online {
			count++
		}
	}
	switch p.Mode {
	case All:
		return count == len(m.available)
	case Any:
		return count > 0
	}
	return m.newest >= 0 && m.available[m.newest] == online
}

// unreadable counts a message that cannot be read. A message about something else
// is not counted.
func (m *member) unreadable(err error) {
	if !errors.Is(err, template.ErrUndefined) {
		m.fleet.Metrics.unreadable(m.fleet.Origin)
		m.fleet.Log.Debug("a message of a plain device cannot be read", "agent", m.Agent, "space", m.fleet.Space, "error", err)
	}
}

// watchSilence has the fleet look again when the device would have been silent
// for too long.
func (m *member) watchSilence() {
	switch {
	case m.Presence.Fresh <= 0:
	case m.silent == nil:
		m.silent = time.AfterFunc(m.Presence.Fresh, m.fleet.stir)
	default:
		m.silent.Reset(m.Presence.Fresh)
	}
}

// state is the latest report of the device about a skill.
func (m *member) state(s *Skill) map[string]any {
	state, newest := map[string]any{}, time.Time{}
	for _, r := range s.State {
		if h, ok := m.readings[reading{s.ID, r.Name}]; ok {
			state[r.Name] = h.value
			if h.at.After(newest) {
				newest = h.at
			}
		}
	}
	if len(state) > 0 {
		state[updatedAt] = newest.UnixMilli()
	}
	return state
}

// hangUp ends the device's presence.
func (m *member) hangUp(reason string) {
	m.fleet.mu.Lock()
	l := m.line
	m.line = nil
	m.fleet.mu.Unlock()
	if l != nil {
		l.end()
		m.fleet.Agents.HungUp(l, reason)
	}
}
