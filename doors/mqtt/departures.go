package mqtt

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

// Gone returns a context that ends with the session of a client, for answers
// on a topic of the client's own. Other topics may have other readers, clients
// of the same principal, of whom nothing is known: nil.
func (c *Clients) Gone(of broker.SessionID, answers string) context.Context {
	if id, _, ok := c.topics.Client(answers); !ok || id != of.Client {
		return nil
	}
	c.leaving.mu.Lock()
	d, ok := c.leaving.waiting[of]
	if !ok {
		d.gone, d.end = context.WithCancel(context.Background())
		if c.leaving.waiting == nil {
			c.leaving.waiting = make(map[broker.SessionID]departure)
		}
		c.leaving.waiting[of] = d
	}
	c.leaving.mu.Unlock()
	if _, connected := c.connected.Load(of); !connected { // it left before we looked out for that
		go c.departed(of)
	}
	return d.gone
}

// longestWait is the time that a call can wait for a client's return.
const longestWait = protocol.MaxTimeout

// departed looks after a client that is disconnected. If its session is over,
// and nobody else listens for its answers, nobody waits for them.
func (c *Clients) departed(of broker.SessionID) {
	c.leaving.mu.Lock()
	d, ok := c.leaving.waiting[of]
	c.leaving.mu.Unlock()
	if !ok {
		return
	}
	if _, back := c.connected.Load(of); back {
		return
	}
	s := c.server.Load()
	if s == nil {
		return
	}
	session, kept := s.broker.Session(of)
	if kept && session.Expiry > 0 { // the answer waits for it
		time.AfterFunc(min(session.Expiry, longestWait)+time.Second, func() { c.departed(of) })
		return
	}
	c.leaving.mu.Lock()
	if c.leaving.waiting[of].gone == d.gone {
		delete(c.leaving.waiting, of)
	}
	c.leaving.mu.Unlock()
	if !c.heard(of) {
		d.end()
	}
}

// heard reports whether a connected client of the space listens to the topics of
// a client that is gone.
func (c *Clients) heard(of broker.SessionID) bool {
	b, topics := c.server.Load().broker, c.topics.Root()+"/client/"+of.Client+"/#"
	for _, sub := range c.subscriptions.about(thingOf(c.topics, topics)) {
		if sub.client.Session().Space == of.Space && protocol.Overlap(b.Inner(sub.filter), topics) {
			return true
		}
	}
	return false
}

// leaves is told that a client is disconnected. It does not block.
func (c *Clients) leaves(of broker.SessionID) {
	c.leaving.mu.Lock()
	_, waits := c.leaving.waiting[of]
	c.leaving.mu.Unlock()
	if waits {
		go c.departed(of) // whoever tells of it may hold locks
	}
}
