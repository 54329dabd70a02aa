package broker

import (
	"encoding/binary"
	"github.com/aibridge/aibridge/internal/fields"
	"slices"
	"sync"
)

// An origin names a publication of QoS 2 by the PUBLISH that it came in, so that
// nobody receives it twice when its client repeats it at another bridge. Only
// publications of kept sessions have one: a client that begins a new session repeats
// nothing. Wills have one, too: an adopter publishes a Will again if the bridge
// before it had no time to record that it had.
type origin struct {
	id     uint16 // packet identifier; 0 of a Will
	number uint64 // rises with the publishes of a client, and with its Wills, at whichever bridge; 0 for no origin
	// settled is a number of that bridge: receipts of its publishes are on record up
	// to it.
	settled uint64
	// again says that the client may have published this before, at a bridge that has
	// ended: under the same identifier, and with a number above after.
	again bool
	after uint64
	// run is that of the bridge whose journal a Will is in, which rises with whoever
	// loads that; 0 if the publisher does not tell.
	run uint64
}

// An originKey is common to a publish and its repetition.
type originKey struct {
	from SessionID
	id   uint16
	will uint64 // number of a Will: an earlier one of the client may come after a later one
}

func (o *origin) key(from SessionID) originKey {
	if o.id == 0 {
		return originKey{from: from, will: o.number}
	}
	return originKey{from: from, id: o.id}
}

// A given is a session that got a publication.
type given struct {
	s      *session
	group  uint64 // of shared subscriptions, by which it got it; 0 if by its own
	serial uint64 // of the session in the journal, 0 if it is not there
	as     uint64 // number of the message that it came in, see [message]; 0 from a journal
}

func (g given) same(o given) bool { return g.s == o.s && g.group == o.group }

// A known is a publication that came here, with its receivers.
type known struct {
	key    originKey
	number uint64
	again  bool // it was repeated
	given  []given
	run    uint64 // of a Will: the latest that has published it
	busy   bool   // it is being given to receivers
}

// overtakes reports whether another bridge has published the same since, and asked the
// others: an earlier offer to a group comes too late.
func (k *known) overtakes(by *origin) bool {
	if by.id == 0 {
		return by.run != 0 && by.run < k.run
	}
	return by.number < k.number
}

// origins are the publications that came here and may be repeated elsewhere: their
// bridges may not have their receipt on record.
type origins struct {
	mu     sync.Mutex
	idle   sync.Cond // a publication is not given to receivers any more, and somebody waits for that
	awaits int       // how many wait
	known  map[originKey]*known
	top    uint64 // the greatest number of a publish among all that were known
	// from are those of a process of each bridge, in the order in which they came; ""
	// is this one.
	from map[string]*lately
	// stray are publications of processes that have ended, and those that sessions
	// had received before they came here.
	stray []*known
}

// A lately queues the publications of one process that are not settled.
type lately struct {
	epoch uint64
	queue []*known
}

// wills stands for the process of all Wills, which nobody settles.
var wills = Mark{Node: "\x00will"}

// mostOrigins bounds the publications remembered of one process, and the strays.
const mostOrigins = 1 << 16

func newOrigins() *origins {
	o := &origins{known: make(map[originKey]*known), from: make(map[string]*lately)}
	o.idle.L = &o.mu
	return o
}

// enter notes the arrival of a publication from a process. It returns the
// publication, and whether it was known before: because it is repeated, came late,
// or is offered to a group once more. Until [origins.leave] nobody else enters it: what
// one has given to receivers, the next knows.
func (o *origins) enter(key originKey, by *origin, from Mark) (k *known, before bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.known[key] != nil && o.known[key].busy {
		o.awaits++
		o.idle.Wait()
		o.awaits--
	}
	o.settle(from, by.settled)
	k, before = o.find(key, by, from)
	k.busy, k.run = true, max(k.run, by.run)
	return k, before
}

// leave ends what enter has begun.
func (o *origins) leave(k *known) {
	o.mu.Lock()
	defer o.mu.Unlock()
	k.busy = false
	if o.awaits > 0 {
		o.idle.Broadcast()
	}
}

// find returns a publication as enter does. mu is held.
func (o *origins) find(key originKey, by *origin, from Mark) (k *known, before bool) {
	was := o.known[key]
	switch {
	case was == nil:
	case was.number >= by.number:
		return was, true
	case by.again && was.number > by.after:
		k = &known{key: key, number: by.number, again: true, given: was.given}
		o.remember(k, from)
		return k, true
	}
	k = &known{key: key, number: by.number, again: by.again}
	o.remember(k, from)
	return k, false
}

// add makes a publication known. mu is held.
func (o *origins) add(k *known) {
	if o.known[k.key] = k; k.key.id != 0 {
		o.top = max(o.top, k.number)
	}
}

// greatest is the greatest number that a publish has had which came here.
func (o *origins) greatest() uint64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.top
}

// remember queues a publication for the process that it came from. mu is held.
func (o *origins) remember(k *known, from Mark) {
	o.add(k)
	l := o.from[from.Node]
	if l == nil {
		l = &lately{epoch: from.Epoch}
		o.from[from.Node] = l
	}
	switch {
	case from.Epoch < l.epoch:
		o.keepStray(k)
		return
	case from.Epoch > l.epoch:
		o.keepStray(l.queue...)
		*l = lately{epoch: from.Epoch}
	}
	l.queue = o.bound(append(l.queue, k))
}

// keepStray keeps publications that no process will settle any more. mu is held.
func (o *origins) keepStray(list ...*known) {
	for _, k := range list {
		if o.known[k.key] == k {
			o.stray = o.bound(append(o.stray, k))
		}
	}
}

// bound forgets the oldest if a queue is too long. mu is held.
func (o *origins) bound(queue []*known) []*known {
	if len(queue) <= mostOrigins {
		return queue
	}
	o.forget(queue[0])
	return queue[1:]
}

// settle forgets publications whose receipt a process has on record. mu is held.
func (o *origins) settle(from Mark, settled uint64) {
	l := o.from[from.Node]
	if l == nil || l.epoch != from.Epoch {
		return
	}
	n := 0
	for n < len(l.queue) && (l.queue[n].number <= settled || o.known[l.queue[n].key] != l.queue[n]) {
		o.forget(l.queue[n])
		n++
	}
	if l.queue = l.queue[n:]; len(l.queue) == 0 {
		l.queue = nil
	}
}

// forget forgets a publication, unless its identifier is another one's by now. mu
// is held.
func (o *origins) forget(k *known) {
	if o.known[k.key] == k {
		delete(o.known, k.key)
	}
}

// has reports whether a session has got the publication by its own subscriptions.
func (o *origins) has(k *known, s *session) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.ContainsFunc(k.given, given{s: s}.same)
}

// served reports whether a member of the group has got the publication.
func (o *origins) served(k *known, group uint64) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.ContainsFunc(k.given, func(g given) bool { return g.group == group })
}

// give adds receivers of the publication, and returns all.
func (o *origins) give(k *known, list []given) []given {
	o.mu.Lock()
	defer o.mu.Unlock()
	k.given = append(k.given[:len(k.given):len(k.given)], list...)
	return k.given
}

// of lists the remembered publications that a session has received, with it as their
// only receiver.
func (o *origins) of(s *session) (list []*known) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, k := range o.known {
		var mine []given
		for _, g := range k.given {
			if g.s == s {
				mine = append(mine, g)
			}
		}
		if mine != nil {
			list = append(list, &known{key: k.key, number: k.number, given: mine})
		}
	}
	return list
}

// came adds the publications that a session had received before it came here. It
// returns the numbers of the messages in which they have come here since.
func (o *origins) came(s *session, had []*known) (again []uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, h := range had {
		k := o.known[h.key]
		switch {
		case k != nil && (k.again || k.number == h.number) && slices.ContainsFunc(k.given, given{s: s}.same):
			for _, g := range k.given {
				if g.same(given{s: s}) && g.as != 0 {
					again = append(again, g.as)
				}
			}
		case k == nil || !k.again && k.number < h.number:
			k = &known{key: h.key, number: h.number}
			o.add(k)
			o.keepStray(k)
		}
		for _, g := range h.given {
			k.given = append(k.given, given{s: s, group: g.group, serial: s.record.serial})
		}
	}
	return again
}

// restore takes over a publication from the journal.
func (o *origins) restore(k *known) {
	if was := o.known[k.key]; was != nil && was.number == k.number {
		was.given = k.given
		return
	}
	o.add(k)
	o.keepStray(k)
}

// all lists the remembered publications.
func (o *origins) all() []*known {
	o.mu.Lock()
	defer o.mu.Unlock()
	list := make([]*known, 0, len(o.known))
	for _, k := range o.known {
		list = append(list, &known{key: k.key, number: k.number, given: k.given})
	}
	return list
}

// appendKnown appends a record of a publication's receivers, as far as the journal
// has their sessions.
func appendKnown(dst []byte, k *known, list []given) []byte {
	list = slices.DeleteFunc(slices.Clone(list), func(g given) bool { return g.serial == 0 })
	if len(list) == 0 {
		return dst
	}
	return appendAllGiven(dst, k, list)
}

func appendAllGiven(dst []byte, k *known, list []given) []byte {
	dst = fields.AppendText(fields.AppendText(append(dst, recKnown), k.key.from.Space), k.key.from.Client)
	dst = binary.AppendUvarint(binary.AppendUvarint(dst, uint64(k.key.id)), k.number)
	dst = binary.AppendUvarint(dst, uint64(len(list)))
	for _, g := range list {
		dst = binary.AppendUvarint(binary.AppendUvarint(dst, g.serial), g.group)
	}
	return dst
}
