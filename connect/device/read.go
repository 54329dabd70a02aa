package device

import (
	"errors"
	"time"

	"github.com/aibridge/aibridge/connect/template"
	"github.com/aibridge/aibridge/protocol/grant"
)

const (
	// maxPayload bounds the messages that devices are read from, in bytes.
	maxPayload = 64 << 10
	// maxSteps bounds the templates of a lane about one message.
	maxSteps = 200_000
)

// A listener is a device that is read from the topic of a letter, and the calls
// that waited for its answer when the letter came.
type listener struct {
	*member
	waits []*wait
}

// listeners are the devices of an announcer that a letter is for.
func (f *Fleet) listeners(party string, l *letter) []listener {
	if l.watched {
		return nil
	}
	members := f.topics[l.topic][party]
	list := make([]listener, len(members))
	for i, m := range members {
		list[i].member = m
		for w := range m.waiting {
			if !l.retain && w.since < l.seq && w.topics[l.topic] { // retained messages are older than the request
				list[i].waits = append(list[i].waits, w)
			}
		}
	}
	return list
}

// A heard holds the values that a letter reports of a device.
type heard struct {
	listener
	*letter
	available []said[int] // by the place of the availability topic
	state     []said[reading]
	gone      []reading // of the state
	answers   []said[*wait]
	unread    []error
}

// A said is the value of something.
type said[T any] struct {
	about T
	value any
}

// read reads a letter for its listeners. It may take long, and the mutex of the
// fleet is not held.
func (f *Fleet) read(l *letter, for_ []listener) []heard {
	if l.watched {
		f.Take(Announced{l.topic, l.payload, l.from, func() bool { return f.isNewest(l) }})
		return nil
	}
	vars, steps := payloadVars(l.payload), template.NewBudget(maxSteps)
	permitted := map[*grant.Grant]bool{nil: true}
	list := make([]heard, 0, len(for_))
	for _, to := range for_ {
		if _, known := permitted[to.By]; !known {
			permitted[to.By] = f.Rights.MaySubscribe(*to.By, l.topic) == nil
		}
		h := heard{listener: to, letter: l}
		if permitted[to.By] {
			h.read(vars, steps)
		}
		list = append(list, h)
	}
	return list
}

func (f *Fleet) isNewest(l *letter) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.newest[l.topic] == l.seq
}

func (h *heard) read(vars template.Vars, steps *template.Budget) {
	for i := range h.Presence.Topics {
		if a := &h.Presence.Topics[i]; a.Topic == h.topic {
			v, err := a.Read.read(vars, steps)
			h.available = note(h, h.available, i, v, err)
		}
	}
	for i := range h.Skills {
		for j := range h.Skills[i].State {
			r := &h.Skills[i].State[j]
			if r.Topic != h.topic {
				continue
			}
			name := reading{h.Skills[i].ID, r.Name}
			if len(h.payload) == 0 { // a retained message was removed
				h.gone = append(h.gone, name)
				continue
			}
			v, err := r.Read.read(vars, steps)
			h.state = note(h, h.state, name, v, err)
		}
	}
	for _, w := range h.waits {
		if v, ok := w.takes(vars, steps); ok {
			h.answers = append(h.answers, said[*wait]{w, v})
		}
	}
}

// note keeps a value that was read, or why it cannot be read. A message about
// something else is skipped.
func note[T any](h *heard, list []said[T], about T, v any, err error) []said[T] {
	switch {
	case err == nil:
		return append(list, said[T]{about, v})
	case !errors.Is(err, template.ErrUndefined):
		h.unread = append(h.unread, err)
	}
	return list
}

// apply takes over the values of a letter into the device's state. The mutex of the fleet
// is held.
func (h *heard) apply() {
	m := h.member
	now := time.Now()
	before := m.there(now)
	if !h.retain {
		m.lastHeard = h.at
		m.watchSilence()
	}
	for _, s := range h.available {
		m.sayAvailable(s.about, template.Text(s.value))
	}
	for _, s := range h.state {
		m.readings[s.about] = known{s.value, h.at}
	}
	for _, name := range h.gone {
		delete(m.readings, name)
	}
	for _, s := range h.answers {
		s.about.answer(s.value)
	}
	for _, err := range h.unread {
		m.unreadable(err)
	}
	if before != m.there(now) {
		m.fleet.stir()
	}
}

// sayAvailable takes a message of an availability topic.
func (m *member) sayAvailable(topic int, word string) {
	switch a := &m.Presence.Topics[topic]; word {
	case a.Online:
		m.available[topic], m.newest = online, topic
	case a.Offline:
		m.available[topic], m.newest = offline, topic
	}
}
