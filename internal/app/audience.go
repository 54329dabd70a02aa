package app

import (
	"context"
	"sync"
	"time"

	"github.com/aibridge/aibridge/broker"
	"github.com/aibridge/aibridge/protocol"
)

// departures know when the sessions of clients end that wait for something
// costly.
type departures struct {
	mu      sync.Mutex
	waiting map[broker.SessionID]departure
}

type departure struct {
	gone context.Context
	end  context.CancelFunc
}

// gone returns a context that ends with the session of a client, for answers
// on a topic of the client's own. Other topics may have other readers, clients
// of the same principal, of whom nothing is known: nil.
func (m *mqttSide) gone(of broker.SessionID, answers string) context.Context {
	if id, _, ok := m.topics.Client(answers); !ok || id != of.Client {
		return nil
	}
	m.leaving.mu.Lock()
	d, ok := m.leaving.waiting[of]
	if !ok {
		d.gone, d.end = context.WithCancel(context.Background())
		if m.leaving.waiting == nil {
			m.leaving.waiting = make(map[broker.SessionID]departure)
		}
		m.leaving.waiting[of] = d
	}
	m.leaving.mu.Unlock()
	if _, connected := m.clients.Load(of); !connected { // it left before we looked out for that
		go m.departed(of)
	}
	return d.gone
}

// longestWait is how long a call can wait for a client's return.
const longestWait = protocol.MaxTimeout

// departed looks after a client that is disconnected. If its session is over,
// and nobody else listens for its answers, nobody waits for them.
func (m *mqttSide) departed(of broker.SessionID) {
	m.leaving.mu.Lock()
	d, ok := m.leaving.waiting[of]
	m.leaving.mu.Unlock()
	if !ok {
		return
	}
	if _, back := m.clients.Load(of); back {
		return
	}
	session, kept := m.broker.Session(of)
	if kept && session.Expiry > 0 { // the answer waits for it
		time.AfterFunc(min(session.Expiry, longestWait)+time.Second, func() { m.departed(of) })
		return
	}
	m.leaving.mu.Lock()
	if m.leaving.waiting[of].gone == d.gone {
		delete(m.leaving.waiting, of)
	}
	m.leaving.mu.Unlock()
	if !m.heard(of) {
		d.end()
	}
}

// heard reports whether a connected client of the space listens to the topics of
// a client that is gone.
func (m *mqttSide) heard(of broker.SessionID) bool {
	topics := m.topics.Root() + "/client/" + of.Client + "/#"
	for _, sub := range m.live.about(thingOf(m.topics, topics)) {
		_, listens, _ := protocol.SplitShare(sub.filter)
		if sub.client.Session().Space == of.Space && protocol.Overlap(listens, topics) {
			return true
		}
	}
	return false
}

// leaves is told that a client is disconnected. It does not block.
func (m *mqttSide) leaves(of broker.SessionID) {
	m.leaving.mu.Lock()
	_, waits := m.leaving.waiting[of]
	m.leaving.mu.Unlock()
	if waits {
		go m.departed(of) // whoever tells of it may hold locks
	}
}
