package doctor

import (
	"cmp"
	"container/list"
	"slices"
	"sync"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// Bounds of a casebook.
const (
	casesOfDevice     = 16
	casesOfOperator   = 64 // that may have many devices
	subjectsOfSpace   = 1024
	subjectsInAll     = 4096
	casesUnproven     = 4 // of a party, by clients that claimed its id
	strangersKept     = 256
	casesOfStranger   = 4
	strangersInASpell = 20 // faults of strangers that are noted in a second
	keptFor           = 24 * time.Hour
)

// A Casebook remembers faults, the latest of each party. When it is full those
// are forgotten whose last fault is oldest: of the space that is full, or of the
// space with the most. Faults of unknown clients are kept under the client id that
// was claimed, and push out only each other. Unproven faults of a party push out
// only each other too, and never another party.
type Casebook struct {
	now func() time.Time

	mu        sync.Mutex
	spaces    map[protocol.SpaceID]*ward
	subjects  int // of all spaces
	strangers ward
	spell     time.Time // when the second began in which strangers are counted
	inSpell   int
}

// A ward holds the subjects of a space, the latest first.
type ward struct {
	order list.List // of *subject
	of    map[subjectID]*list.Element
}

// A subjectID is whose faults are kept together: a party, or a client id that
// a stranger claimed.
type subjectID struct {
	party  protocol.Party
	client string
}

type subject struct {
	id    subjectID
	cases []Case // the latest last
}

// NewCasebook returns an empty casebook. now is the clock, nil for the system's.
func NewCasebook(now func() time.Time) *Casebook {
	if now == nil {
		now = time.Now
	}
	return &Casebook{now: now, spaces: make(map[protocol.SpaceID]*ward)}
}

// Note remembers a fault. A fault of the same kind, client and topic is counted
// with those before.
func (b *Casebook) Note(f Fault) {
	f = f.bounded()
	now := b.now()
	b.mu.Lock()
	defer b.mu.Unlock()
	if f.Party.ID == "" {
		if b.hears(now) {
			b.strangers.note(subjectID{client: f.Client}, f, now, casesOfStranger)
			b.strangers.cut(strangersKept)
		}
		return
	}
	w := b.spaces[f.Party.Space]
	if w == nil {
		w = new(ward)
		b.spaces[f.Party.Space] = w
	}
	most := casesOfDevice
	if f.Party.Kind == protocol.KindOperator {
		most = casesOfOperator
	}
	id, before := subjectID{party: f.Party}, w.order.Len()
	if f.Unproven && w.of[id] == nil && (before >= subjectsOfSpace || b.subjects >= subjectsInAll) {
		return
	}
	w.note(id, f, now, most)
	w.cut(subjectsOfSpace)
	b.subjects += w.order.Len() - before
	if b.subjects > subjectsInAll {
		largest := b.largest()
		b.spaces[largest].cut(b.spaces[largest].order.Len() - 1)
		b.subjects--
	}
}

// hears reports whether one more fault of a stranger is noted.
func (b *Casebook) hears(now time.Time) bool {
	if now.Sub(b.spell) >= time.Second || now.Before(b.spell) {
		b.spell, b.inSpell = now, 0
	}
	b.inSpell++
	return b.inSpell <= strangersInASpell
}

// largest is the space with the most subjects.
func (b *Casebook) largest() (space protocol.SpaceID) {
	most := 0
	for id, w := range b.spaces {
		if n := w.order.Len(); n > most {
			space, most = id, n
		}
	}
	return space
}

// note adds a fault to a subject's.
func (w *ward) note(id subjectID, f Fault, now time.Time, most int) {
	if w.of == nil {
		w.of = make(map[subjectID]*list.Element)
	}
	at := w.of[id]
	if at == nil {
		at = w.order.PushBack(&subject{id: id}) // the first to go, while nothing of a party is proven
		w.of[id] = at
	}
	if !f.Unproven || f.Party.ID == "" {
		w.order.MoveToFront(at)
	}
	s := at.Value.(*subject)
	c := Case{Fault: f, First: now, Last: now, Times: 1}
	i := slices.IndexFunc(s.cases, func(c Case) bool {
		return c.Kind == f.Kind && c.Client == f.Client && c.Topic == f.Topic && c.Agent == f.Agent && c.Unproven == f.Unproven
	})
	if i >= 0 {
		c.First, c.Times = s.cases[i].First, s.cases[i].Times+1
		s.cases = slices.Delete(s.cases, i, i+1)
	}
	if f.Unproven {
		most = casesUnproven
	}
	s.cases = append(s.cases, c)
	s.cut(f.Unproven, most)
}

// cut forgets the oldest of the proven or the unproven cases, if there are more than
// that: of the unproven ones, the oldest from the address with the most, so that
// one stranger does not push out the device's own faults.
func (s *subject) cut(unproven bool, most int) {
	n, from, busiest := 0, make(map[string]int), ""
	for _, c := range s.cases {
		if c.Unproven != unproven {
			continue
		}
		n++
		if from[c.From]++; from[c.From] >= from[busiest] {
			busiest = c.From
		}
	}
	if n <= most {
		return
	}
	i := slices.IndexFunc(s.cases, func(c Case) bool { return c.Unproven == unproven && (!unproven || c.From == busiest) })
	s.cases = slices.Delete(s.cases, i, i+1)
}

// cut forgets the subjects whose last fault is oldest, but for some.
func (w *ward) cut(to int) {
	for w.order.Len() > to {
		oldest := w.order.Back()
		delete(w.of, oldest.Value.(*subject).id)
		w.order.Remove(oldest)
	}
}

// Of are the cases of a party, the latest first.
func (b *Casebook) Of(party protocol.Party) []Case {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.casesOf(b.spaces[party.Space], subjectID{party: party})
}

// Strangers are the cases of unknown clients that claimed an id, the latest first.
func (b *Casebook) Strangers(client string) []Case {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.casesOf(&b.strangers, subjectID{client: short(client, mostName)})
}

func (b *Casebook) casesOf(w *ward, id subjectID) []Case {
	if w == nil || w.of[id] == nil {
		return nil
	}
	since := b.now().Add(-keptFor)
	var found []Case
	for _, c := range slices.Backward(w.of[id].Value.(*subject).cases) {
		if c.Last.After(since) {
			found = append(found, c)
		}
	}
	return found
}

func latestFirst(a, b Case) int { return cmp.Compare(b.Last.UnixNano(), a.Last.UnixNano()) }
