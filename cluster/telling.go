package cluster

import (
	"fmt"
	"maps"
)

// Tell changes what the record says of this node: its state, addresses, notes
// and keys. It is written at once, if nothing keeps that up.
func (m *Membership) Tell(edit func(r *Record)) {
	m.mu.Lock()
	edit(&m.mine)
	if m.stream == nil {
		m.members[m.o.ID] = m.mine.Member.clone()
	}
	m.mu.Unlock()
	m.hurry()
}

// Note tells the other nodes something of a part, such as the address of its
// relay, in at most 1 KiB; "" takes it back.
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

// Watch has f called for every change from now on, one after the other, in the
// order of the stream. f must not wait. What is there already, [Membership.Members]
// tells. The function that is returned ends it.
func (m *Membership) Watch(f func(Change)) (stop func()) { return m.watching.add(f) }
