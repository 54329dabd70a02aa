package broker

import (
	"strings"
	"sync"

	"github.com/aibridge/aibridge/broker/topic"
	"github.com/aibridge/aibridge/protocol"
)

// A retained store keeps the last retained message of each topic.
type retained struct {
	mu     sync.RWMutex
	exact  map[string]*message
	tree   topic.Names[*message]
	bytes  int
	owners map[string]int           // messages by owner
	spaces map[protocol.SpaceID]int // messages with an owner by space
}

// retainLimits are what may be retained, in bytes of all and in messages of the
// owner and of its space; 0 messages are any number.
type retainLimits struct{ bytes, own, space int }

// A keeping is what became of a message that was to be retained.
type keeping byte

const (
	stays     keeping = iota
	noRoom            // in bytes, or another space keeps a message on the topic
	ownFull           // the owner has as many as it may
	spaceFull         // the owner's space has
)

// set keeps m as the topic's message, or removes what is kept when m has no
// payload [MQTT-3.3.1-5] [MQTT-3.3.1-6] [MQTT-3.3.1-7].
func (r *retained) set(m *message, most retainLimits) keeping {
	r.mu.Lock()
	defer r.mu.Unlock()
	old := r.exact[m.topic]
	before := 0
	if old != nil {
		before = old.size()
		if old.space != m.space && old.space != "" && m.space != "" {
			return noRoom // another space keeps a message there
		}
	}
	if len(m.payload) == 0 {
		if old != nil {
			r.uncount(old)
			delete(r.exact, m.topic)
			r.tree.Delete(m.topic)
		}
		return stays
	}
	if r.bytes-before+m.size() > most.bytes {
		return noRoom
	}
	switch {
	case m.owner == "" || old != nil && old.owner == m.owner: // no more than before
	case most.own > 0 && r.owners[m.owner] >= most.own:
		return ownFull
	case (old == nil || old.owner == "") && most.space > 0 && r.spaces[m.space] >= most.space:
		return spaceFull
	}
	if old != nil {
		r.uncount(old)
	}
	if r.exact == nil {
		r.exact = make(map[string]*message)
		r.owners, r.spaces = make(map[string]int), make(map[protocol.SpaceID]int)
	}
	r.bytes += m.size()
	r.exact[m.topic] = m
	r.tree.Set(m.topic, m)
	if m.owner != "" {
		r.owners[m.owner]++
		r.spaces[m.space]++
	}
	return stays
}

// uncount counts a message no longer.
func (r *retained) uncount(m *message) {
	r.bytes -= m.size()
	if m.owner == "" {
		return
	}
	if r.owners[m.owner]--; r.owners[m.owner] <= 0 {
		delete(r.owners, m.owner)
	}
	if r.spaces[m.space]--; r.spaces[m.space] <= 0 {
		delete(r.spaces, m.space)
	}
}

// covered lists the messages a filter covers whose time is not over.
func (r *retained) covered(filter string, now int64) (found []*message) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	take := func(m *message) bool {
		if _, ok := m.left(now); ok {
			found = append(found, m)
		}
		return true
	}
	if !topic.HasWildcard(filter) {
		if m := r.exact[filter]; m != nil {
			take(m)
		}
		return found
	}
	r.tree.Covered(filter, take)
	return found
}

func (r *retained) len() int {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return len(r.exact)
}

// expired removes messages whose time is over, so that they do not stay for
// ever where nobody asks for them.
func (r *retained) expired(now int64) (topics []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, m := range r.exact {
		if _, ok := m.left(now); !ok {
			r.uncount(m)
			delete(r.exact, name)
			r.tree.Delete(name)
			topics = append(topics, name)
		}
	}
	return topics
}

// retain keeps or removes the turn's message as the retained one.
func (t *turn) retain(most retainLimits) keeping {
	m := t.keep()
	own := *m
	own.topic = strings.Clone(m.topic)
	how := t.b.retained.set(&own, most)
	if how == stays {
		t.b.recordRetained(t, &own)
	}
	return how
}

// sendRetained queues the retained messages a new subscription asks for
// [MQTT-3.3.1-8] [MQTT-3.3.1-9] [MQTT-3.3.1-10] [MQTT-3.3.1-11]. Shared subscriptions get
// none. They wait in the queue without counting against its limits: their
// bodies are there anyway.
func (t *turn) sendRetained(c *conn, sub *subscription) {
	if sub.handling == 2 || sub.group != nil {
		return
	}
	found := t.b.retained.covered(sub.filter, t.now)
	if len(found) == 0 {
		return
	}
	var ids []uint32
	if sub.id != 0 {
		ids = []uint32{sub.id}
	}
	s := sub.session
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn.Load() != c {
		return
	}
	for _, m := range found {
		p := pending{msg: m, ids: ids, qos: min(m.qos, sub.qos), retain: true}
		if sub.noLocal && m.from == s.id || !s.hears(m) {
			continue
		}
		if p.qos > 0 && s.keeps() && t.b.journal != nil {
			own := *m
			own.id = 0
			p.msg = &own
			t.b.recordOwed(t, s, &p, 0)
		}
		if p.qos == 0 {
			s.zeros.push(p)
		} else {
			s.queue.push(p)
		}
	}
	s.behind.Store(true)
	t.pumpLocked(s, c)
}
