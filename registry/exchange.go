package registry

import (
	"sync"
	"sync/atomic"

	"github.com/aibridge/aibridge/protocol"
)

// Exchanges are the requests that agents have and have not answered yet.
type exchanges struct {
	mu      sync.Mutex
	byID    map[string]*exchange
	byAgent map[agentKey]map[*exchange]bool
	turn    uint64 // breaks ties between equally busy agents
}

// An exchange is one request to one agent and the wait for its answer.
type exchange struct {
	id      string
	agent   *Agent
	ended   chan outcome // gets exactly one, has room for it
	onEvent func(name string, data []byte)
	done    atomic.Bool // no event is passed on any more
}

// An outcome is how an exchange ended.
type outcome struct {
	kind     outcomeKind
	response *protocol.Response // of answered
	reason   string             // of garbled and rejected
}

type outcomeKind uint8

const (
	answered  outcomeKind = iota
	garbled               // the agent answered with something that is no response
	rejected              // the agent refused before it began
	gone                  // the agent went offline
	abandoned             // the bridge gave up: deadline, cancellation, not delivered
)

func newExchanges() *exchanges {
	return &exchanges{byID: make(map[string]*exchange), byAgent: make(map[agentKey]map[*exchange]bool)}
}

// begin opens an exchange with the least busy of some agents.
func (x *exchanges) begin(id string, agents []*Agent, onEvent func(string, []byte)) *exchange {
	x.mu.Lock()
	defer x.mu.Unlock()
	e := &exchange{id: id, agent: x.leastBusy(agents), ended: make(chan outcome, 1), onEvent: onEvent}
	x.byID[id] = e
	key := e.agent.key()
	if x.byAgent[key] == nil {
		x.byAgent[key] = make(map[*exchange]bool, 1)
	}
	x.byAgent[key][e] = true
	return e
}

// leastBusy picks the agent with the fewest open exchanges. Among equals the
// choice goes round.
func (x *exchanges) leastBusy(agents []*Agent) *Agent {
	x.turn++
	best := agents[x.turn%uint64(len(agents))]
	least := len(x.byAgent[best.key()])
	for i := range agents {
		a := agents[(x.turn+uint64(i))%uint64(len(agents))]
		if n := len(x.byAgent[a.key()]); n < least {
			best, least = a, n
		}
	}
	return best
}

// find returns the open exchange with the id.
func (x *exchanges) find(id string) *exchange {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.byID[id]
}

// end ends an exchange. Only the first call has an effect, and only that one
// returns true.
func (x *exchanges) end(e *exchange, o outcome) bool {
	x.mu.Lock()
	if x.byID[e.id] != e {
		x.mu.Unlock()
		return false
	}
	delete(x.byID, e.id)
	key := e.agent.key()
	if delete(x.byAgent[key], e); len(x.byAgent[key]) == 0 {
		delete(x.byAgent, key)
	}
	x.mu.Unlock()

	e.done.Store(true)
	e.ended <- o
	return true
}

// endAll ends every exchange with an agent.
func (x *exchanges) endAll(key agentKey, o outcome) {
	x.mu.Lock()
	open := make([]*exchange, 0, len(x.byAgent[key]))
	for e := range x.byAgent[key] {
		open = append(open, e)
	}
	x.mu.Unlock()
	for _, e := range open {
		x.end(e, o)
	}
}

// open is how many exchanges there are.
func (x *exchanges) open() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.byID)
}

// event passes on an event of the agent, unless the exchange has ended. No
// lock is held meanwhile: passing it on may end connections, and with them
// exchanges.
func (e *exchange) event(name string, data []byte) {
	if !e.done.Load() && e.onEvent != nil {
		e.onEvent(name, data)
	}
}
