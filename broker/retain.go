package broker

import (
	"strings"
	"sync"

	"github.com/aibridge/aibridge/broker/topic"
	"github.com/aibridge/aibridge/protocol"
)

// A retained store keeps the last retained message of each topic in each space.
type retained struct {
	mu      sync.RWMutex
	bySpace map[protocol.SpaceID]*retainedSpace

	count  int
	bytes  int
	owners map[string]belongings           // by key
	spaces map[protocol.SpaceID]belongings // of all owners
}

// Belongings count the retained messages of one party.
type belongings struct{ messages, bytes int }

// with is them with a message more, or without one less.
func (g belongings) with(m *message) belongings {
	return belongings{g.messages + 1, g.bytes + m.size()}
}

func (g belongings) without(m *message) belongings {
	return belongings{g.messages - 1, g.bytes - m.size()}
}

// within reports what they are above, if anything.
func (g belongings) within(most Holdings) (what Holding, ok bool) {
	switch {
	case most.Retained > 0 && g.messages > most.Retained:
		return Retained, false
	case most.RetainedBytes > 0 && g.bytes > most.RetainedBytes:
		return RetainedBytes, false
	}
	return 0, true
}

// A retainedSpace has the retained messages of one space, or those that are for
// administrators.
type retainedSpace struct {
	tree  topic.Names[*message]
	count int // of the messages in it
}

// at is the message of a topic, nil if there is none.
func (on *retainedSpace) at(name string) *message {
	if on == nil {
		return nil
	}
	m, _ := on.tree.Get(name)
	return m
}

// retainLimits bound retained messages: the bytes of all, and those the owner and
// its space may have. With known, only topics that have a retained message
// already may have another.
type retainLimits struct {
	bytes      int
	own, space Holdings
	known      bool
}

// set keeps m as the topic's message in its space, or removes what is kept when m has no
// payload [MQTT-3.3.1-5] [MQTT-3.3.1-6] [MQTT-3.3.1-7]. It has what stays
// recorded, in the order of setting.
func (r *retained) set(m *message, most retainLimits, record func(*message)) (what Holding, whose fullness) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if what, whose = r.setLocked(m, most); whose == hasRoom {
		record(m)
	}
	return what, whose
}

// setUnless is set where nothing speaks against it while the store is locked.
func (r *retained) setUnless(against func() bool, m *message, most retainLimits) (whose fullness, done bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if against() {
		return 0, false
	}
	_, whose = r.setLocked(m, most)
	return whose, true
}

func (r *retained) setLocked(m *message, most retainLimits) (what Holding, whose fullness) {
	on := r.bySpace[m.to.space]
	old := on.at(m.topic)
	if len(m.payload) == 0 {
		if old != nil {
			r.remove(on, old)
		}
		return 0, hasRoom
	}
	if what, whose = r.room(m, old, most); whose != hasRoom {
		return what, whose
	}
	if old != nil {
		r.uncount(old)
	}
	if r.bySpace == nil {
		r.bySpace = make(map[protocol.SpaceID]*retainedSpace)
		r.owners, r.spaces = make(map[string]belongings), make(map[protocol.SpaceID]belongings)
	}
	if on == nil {
		on = new(retainedSpace)
		r.bySpace[m.to.space] = on
	}
	r.count++
	r.bytes += m.size()
	if old == nil {
		on.count++
	}
	on.tree.Set(m.topic, m)
	if m.owner != "" {
		r.owners[m.owner] = r.owners[m.owner].with(m)
		r.spaces[m.to.space] = r.spaces[m.to.space].with(m)
	}
	return 0, hasRoom
}

// room says whether m may be kept in place of old, which may be nil. What takes
// no more than before always may.
func (r *retained) room(m, old *message, most retainLimits) (what Holding, whose fullness) {
	own, space, all := r.owners[m.owner].with(m), r.spaces[m.to.space].with(m), r.bytes+m.size()
	if old != nil {
		all -= old.size()
		if old.owner != "" {
			space = space.without(old)
		}
		if old.owner == m.owner {
			own = own.without(old)
		}
	}
	if all > most.bytes || most.known && old == nil {
		return RetainedBytes, allFull
	}
	if m.owner == "" || old != nil && old.owner == m.owner && m.size() <= old.size() {
		return 0, hasRoom
	}
	if what, ok := own.within(most.own); !ok {
		return what, ownFull
	}
	if what, ok := space.within(most.space); !ok {
		return what, spaceFull
	}
	return 0, hasRoom
}

// has reports whether a message is retained where this one would be.
func (r *retained) has(m *message) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.bySpace[m.to.space].at(m.topic) != nil
}

// isLast reports whether it is this message that is retained on its topic.
func (r *retained) isLast(m *message) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.bySpace[m.to.space].at(m.topic) == m
}

// remove takes a message out of its space, which goes with the last one.
func (r *retained) remove(on *retainedSpace, m *message) {
	r.uncount(m)
	on.tree.Delete(m.topic)
	if on.count--; on.count == 0 {
		delete(r.bySpace, m.to.space)
	}
}

// uncount counts a message no longer.
func (r *retained) uncount(m *message) {
	r.count--
	r.bytes -= m.size()
	if m.owner == "" {
		return
	}
	if r.owners[m.owner] = r.owners[m.owner].without(m); r.owners[m.owner].messages <= 0 {
		delete(r.owners, m.owner)
	}
	if r.spaces[m.to.space] = r.spaces[m.to.space].without(m); r.spaces[m.to.space].messages <= 0 {
		delete(r.spaces, m.to.space)
	}
}

// covered lists the messages of any space that a filter covers and whose time
// is not over.
func (r *retained) covered(filter string, now int64) (found []*message) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, on := range r.bySpace {
		found = on.covered(found, filter, now)
	}
	return found
}

// heard lists those that a session may hear.
func (r *retained) heard(s *session, filter string, now int64) []*message {
	if s.every.Load() {
		return r.covered(filter, now)
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	if on := r.bySpace[s.owner.Space]; on != nil {
		return on.covered(nil, filter, now)
	}
	return nil
}

func (on *retainedSpace) covered(found []*message, filter string, now int64) []*message {
	take := func(m *message) bool {
		if _, ok := m.left(now); ok {
			found = append(found, m)
		}
		return true
	}
	if topic.HasWildcard(filter) {
		on.tree.Covered(filter, take)
	} else if m := on.at(filter); m != nil {
		take(m)
	}
	return found
}

func (r *retained) len() int {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.count
}

// expire removes messages whose time is over, so that they do not stay for ever
// where nobody asks for them, and has it recorded.
func (r *retained) expire(now int64, record func(*message)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, on := range r.bySpace {
		var over []*message
		on.tree.All(func(m *message) bool {
			if _, ok := m.left(now); !ok {
				over = append(over, m)
			}
			return true
		})
		for _, m := range over {
			r.remove(on, m)
			record(&message{topic: m.topic, to: m.to, here: m.here})
		}
	}
}

// restamp has the messages whose time will be over recorded again.
func (r *retained) restamp(record func(*message)) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, on := range r.bySpace {
		on.tree.All(func(m *message) bool {
			if m.expires != 0 {
				record(m)
			}
			return true
		})
	}
}

// retain keeps or removes the turn's message as the retained one.
func (t *turn) retain(most retainLimits) (what Holding, whose fullness) {
	t.enumerate()
	m := t.keep()
	own := *m
	own.topic = strings.Clone(m.topic)
	if t.b.shared != nil && !own.here && !t.b.shared.fits(&own) {
		return RetainedBytes, tooLarge
	}
	return t.b.retained.set(&own, most, t.recordRetained)
}

// mostRepeats is the number of times that retained messages may wait for one client,
// beside as many as the queue takes.
const mostRepeats = 4

// sendRetained queues the retained messages a new subscription asks for
// [MQTT-3.3.1-8] [MQTT-3.3.1-9] [MQTT-3.3.1-10] [MQTT-3.3.1-11]. Shared subscriptions get
// none. They wait in the queue without counting against its limits: their
// bodies are there anyway. But who subscribes again and again without taking
// them is disconnected.
func (t *turn) sendRetained(c *conn, sub *subscription) {
	if sub.handling == 2 || sub.group != nil {
		return
	}
	s := sub.session
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn.Load() != c {
		return
	}
	s.late.Store(true) // later publications come behind the retained messages
	found := t.retainedFor(sub)
	if len(found) == 0 {
		t.pumpLocked(s, c)
		return
	}
	var ids []uint32
	if sub.id != 0 {
		ids = []uint32{sub.id}
	}
	if s.queue.free+s.zeros.freeOnes() > t.b.options.Limits.QueueMessages+mostRepeats*len(found) {
		t.overwhelmed(s, c)
		return
	}
	for _, m := range found {
		p := pending{msg: m, ids: ids, qos: min(m.qos, sub.qos), retain: true, free: true}
		if sub.noLocal && s.sent(m) || !s.hears(m) || !sub.wants(m) {
			continue
		}
		if p.qos > 0 && s.keeps() && t.b.journal != nil {
			own := *m
			own.id = 0
			p.msg = &own
			t.b.recordOwed(t, s, &p, 0)
		}
		if p.qos == 0 {
			s.pushZero(p)
		} else {
			s.queue.push(p)
		}
	}
	s.behind.Store(true)
	t.pumpLocked(s, c)
}
