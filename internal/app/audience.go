package app

import (
	"context"
	"sync"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// departures know when the sessions of clients end that wait for something
// costly.
type departures struct {
	mu      sync.Mutex
	waiting map[string]departure // by client id
}

type departure struct {
	gone context.Context
	end  context.CancelFunc
}

// gone returns a context that ends with the session of a client, for answers
// on a topic of the client's own. Other topics have other readers, of whom
// nothing is known: nil.
func (m *mqttSide) gone(clientID, answers string) context.Context {
	if id, _, ok := m.topics.Client(answers); !ok || id != clientID {
		return nil
	}
	m.leaving.mu.Lock()
	d, ok := m.leaving.waiting[clientID]
	if !ok {
		d.gone, d.end = context.WithCancel(context.Background())
		if m.leaving.waiting == nil {
			m.leaving.waiting = make(map[string]departure)
		}
		m.leaving.waiting[clientID] = d
	}
	m.leaving.mu.Unlock()
	if _, connected := m.clients.Load(clientID); !connected { // it left before we looked out for that
		go m.departed(clientID)
	}
	return d.gone
}

// longestWait is how long a call can wait for a client's return.
const longestWait = protocol.MaxTimeout

// departed looks after a client that is disconnected. If its session is over,
// and nobody else listens for its answers, nobody waits for them.
func (m *mqttSide) departed(clientID string) {
	m.leaving.mu.Lock()
	d, ok := m.leaving.waiting[clientID]
	m.leaving.mu.Unlock()
	if !ok {
		return
	}
	if _, back := m.clients.Load(clientID); back {
		return
	}
	session, kept := m.broker.Session(clientID)
	if kept && session.Expiry > 0 { // the answer waits for it
		time.AfterFunc(min(session.Expiry, longestWait)+time.Second, func() { m.departed(clientID) })
		return
	}
	m.leaving.mu.Lock()
	if m.leaving.waiting[clientID].gone == d.gone {
		delete(m.leaving.waiting, clientID)
	}
	m.leaving.mu.Unlock()
	if !m.heard(m.topics.Root() + "/client/" + clientID + "/#") {
		d.end()
	}
}

// heard reports whether a connected client listens to some topic of a filter.
func (m *mqttSide) heard(filter string) bool {
	for _, sub := range m.live.about(thingOf(m.topics, filter)) {
		_, listens, _ := protocol.SplitShare(sub.filter)
		if protocol.Overlap(listens, filter) {
			return true
		}
	}
	return false
}

// leaves is told that a client is disconnected. It does not block.
func (m *mqttSide) leaves(clientID string) {
	m.leaving.mu.Lock()
	_, waits := m.leaving.waiting[clientID]
	m.leaving.mu.Unlock()
	if waits {
		go m.departed(clientID) // whoever tells of it may hold locks
	}
}
