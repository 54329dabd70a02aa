package broker

import (
	"cmp"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/aibridge/aibridge/internal/clock"
)

// A JournalCopy is what a journal has: its keyed values, and the entries of its log, the
// oldest first. It must not change while it is used.
type JournalCopy struct {
	Values  map[string][]byte
	Entries [][]byte
}

// MergeJournals makes one journal of those of the bridges of a cluster, such as a bridge
// that is alone has. Sessions move between bridges while their journals are copied one
// after the other. So all are copied several times, and the readings are given with the
// last one first: a session that this one lacks is taken from the one before.
func MergeJournals(readings ...[]JournalCopy) (JournalCopy, error) {
	m := &merger{
		to:    JournalCopy{Values: make(map[string][]byte)},
		taken: make(map[SessionID]*session), known: make(map[originKey]*known),
	}
	m.b = &Broker{
		options: Options{Limits: Limits{}.withDefaults()}, log: slog.New(slog.DiscardHandler), clock: clock.New(),
	}
	m.b.journal = newScribe(m.b, nil)
	for i, reading := range readings {
		if err := m.read(reading, i == 0); err != nil {
			return JournalCopy{}, err
		}
	}
	for _, k := range m.known {
		m.entry = appendKnown(m.entry, k, k.given)
	}
	m.cut()
	return m.to, nil
}

// A merger makes one journal of several.
type merger struct {
	b     *Broker // that serves nobody: sessions are read and written for it
	to    JournalCopy
	entry []byte // that gathers
	taken map[SessionID]*session
	known map[originKey]*known
}

// read takes what journals have that were copied one after the other.
func (m *merger) read(journals []JournalCopy, last bool) error {
	copies := make(map[SessionID][]*restoredSession)
	var publications []*known
	for _, j := range journals {
		r := &restorer{b: m.b, sessions: make(map[uint64]*restoredSession), old: make(map[SessionID]KeyedValue), messages: make(map[uint64]*message)}
		if err := m.restore(r, &j, last); err != nil {
			return fmt.Errorf("broker: merge journals: %w", err)
		}
		for _, s := range r.sessions {
			s.finish()
			copies[s.key()] = append(copies[s.key()], s)
		}
		for _, message := range r.messages {
			message.id = 0 // the journal that is made gives others
		}
		publications = append(publications, r.known...)
	}
	for id, of := range copies {
		if m.taken[id] == nil {
			m.taken[id] = newest(of)
			m.add(m.taken[id])
		}
	}
	for _, k := range publications {
		m.know(k)
	}
	return nil
}

// restore reads one journal. What is not of sessions is taken as it is from the last
// reading: Wills that the one before has beside it are published.
func (m *merger) restore(r *restorer, j *JournalCopy, last bool) error {
	for key, value := range j.Values {
		if strings.HasPrefix(key, keySession) {
			if err := r.session(key, value); err != nil {
				return err
			}
		} else if last {
			m.to.Values[key] = value
		}
	}
	for i, entry := range j.Entries {
		if err := r.entry(uint64(i+1), entry); err != nil {
			return err
		}
	}
	return nil
}

// newest is the session as it is at the bridge that has it, of the copies that journals
// have. One that has just begun to move is at its new bridge without what it had: that
// is in the copy before.
func newest(copies []*restoredSession) *session {
	slices.SortFunc(copies, func(x, y *restoredSession) int { return cmp.Compare(y.epoch, x.epoch) })
	s := copies[0]
	if len(copies) == 1 || s.whole || copies[1].epoch+1 != s.epoch {
		return s.session
	}
	had, came := copies[1].session, s.session.queue
	s.session.queue, s.session.window, s.session.inbound, s.session.sender = had.queue, had.window, had.inbound, had.sender
	for i := came.from; i < len(came.items); i++ {
		s.session.queue.push(came.items[i])
	}
	return s.session
}

// add writes a session. It is as that of a bridge that is alone, which is no bridge's of
// a cluster: whoever loads the journal has it.
func (m *merger) add(s *session) {
	j := m.b.journal
	s.record, s.epoch = sessionRecord{j.newSerial(), true}, 0
	m.to.Values[keyOfSession(s.key())] = m.b.encodeSession(s)
	m.entry = j.appendSession(m.entry, s, func(message *message) {
		if message.id == 0 {
			j.message++
			message.id = j.message
		}
	})
	if len(m.entry) >= checkpointChunk {
		m.cut()
	}
}

// know adds a publication that may be repeated, with its receivers.
func (m *merger) know(k *known) {
	is := m.known[k.key]
	if is != nil && is.number > k.number {
		return
	}
	if is == nil || is.number < k.number {
		is = &known{key: k.key, number: k.number}
		m.known[k.key] = is
	}
	for _, g := range k.given {
		s := m.taken[g.s.key()]
		if g = (given{s: s, group: g.group, serial: s.record.serial}); !slices.ContainsFunc(is.given, g.same) {
			is.given = append(is.given, g)
		}
	}
}

// cut ends the entry that gathers.
func (m *merger) cut() {
	if len(m.entry) > 0 {
		m.to.Entries, m.entry = append(m.to.Entries, m.entry), nil
	}
}
