package cluster

import (
	"fmt"
	"maps"
)

// Tell edits this node's record: its state, addresses, notes and keys. The record is
// written at once, unless another write is under way.
func (m *Membership) Tell(edit func(r *Record)) {
	m.mu.Lock()
	edit(&m.mine)
	if m.stream == nil {
		m.members[m.o.ID] = m.mine.Member.clone()
	}
	m.mu.Unlock()
	m.hurry()
}

// Note publishes a note of a component of this bridge to the other nodes, such as the
// address of its relay, in at most 1 KiB; "" removes it.
func (m *Membership) Note(part, text string) (err error) {
	if len(text) > maxNote {
		return fmt.Errorf("cluster: the note of %q takes %d bytes, %d is the limit", part, len(text), maxNote)
	}
	m.Tell(func(r *Record) {
		notes := maps.Clone(r.Notes)
		if notes == nil {
			notes = make(map[string]string)
		}
		if notes[part] = text; text == "" {
			delete(notes, part)
		}
		if len(notes) > maxNotes {
			err = fmt.Errorf("cluster: there are more than %d notes", maxNotes)
			return
		}
		r.Notes = notes
	})
	return err
}

// Watch calls f for every change from now on, one at a time, in the order of the
// stream. f must not block. The present members are in [Membership.Members]. The
// returned function ends the watch.
func (m *Membership) Watch(f func(Change)) (stop func()) { return m.watching.add(f) }
