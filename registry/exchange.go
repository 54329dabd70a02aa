package registry

import (
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/aibridge/aibridge/protocol"
)

// Exchanges are the requests that agents have and have not answered yet.
type exchanges struct {
	mu      sync.Mutex
	byID    map[string]*exchange
	byAgent map[agentKey]*load // of those that have any
	turn    uint64             // breaks ties between equally busy agents
}

// A load is what an agent is at: a list of exchanges.
type load struct {
	first *exchange
	n     int
}

// An exchange is one request to one agent and the wait for its answer.
type exchange struct {
	id    string
	agent *Agent
	party party
	done  atomic.Bool // no event is passed on any more
	// A standing exchange stays open when the agent goes: the party is told
	// that as well, with the agent's exchanges locked.
	standing bool

	load           *load
	before, behind *exchange // of the same agent
}

// A party is who has asked the agent. What it is told is good only until it
// returns.
type party interface {
	// hear takes the outcome, once, on the goroutine that ends the exchange.
	hear(o outcome)
	// event takes what the agent says before.
	event(name string, data []byte)
}

// A partyOf is a party made of functions.
type partyOf struct {
	ended   func(outcome)
	onEvent func(name string, data []byte) // may be nil
}

func (p partyOf) hear(o outcome) { p.ended(o) }

func (p partyOf) event(name string, data []byte) {
	if p.onEvent != nil {
		p.onEvent(name, data)
	}
}

// An outcome is how an exchange ended.
type outcome struct {
	kind     outcomeKind
	response *protocol.Response // of answered
	reason   string             // of garbled and rejected
	err      *protocol.Error    // of gone, if it was made to go
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
	return &exchanges{byID: make(map[string]*exchange), byAgent: make(map[agentKey]*load)}
}

// newIDs returns a maker of ids for exchanges: a random part of its own and a
// number. Nobody else may use one, hence nobody has to be unable to guess it.
func newIDs() func() string {
	prefix := strings.ReplaceAll(protocol.NewID(), "-", "")[:20]
	var last atomic.Uint64
	return func() string {
		var room [40]byte
		id := append(append(room[:0], prefix...), '-')
		return string(strconv.AppendUint(id, last.Add(1), 10))
	}
}

// enter takes an exchange up with the least busy of some agents.
func (x *exchanges) enter(e *exchange, agents []*Agent) {
	x.mu.Lock()
	defer x.mu.Unlock()
	e.agent = x.leastBusy(agents)
	x.byID[e.id] = e
	key := e.agent.key()
	l := x.byAgent[key]
	if l == nil {
		l = new(load)
		x.byAgent[key] = l
	}
	if e.behind = l.first; e.behind != nil {
		e.behind.before = e
	}
	e.load, l.first = l, e
	l.n++
}

// remove takes an exchange out, if it is still open.
func (x *exchanges) remove(e *exchange) bool {
	if x.byID[e.id] != e {
		return false
	}
	delete(x.byID, e.id)
	l := e.load
	if e.before == nil {
		l.first = e.behind
	} else {
		e.before.behind = e.behind
	}
	if e.behind != nil {
		e.behind.before = e.before
	}
	if l.n--; l.n == 0 {
		delete(x.byAgent, e.agent.key())
	}
	e.before, e.behind = nil, nil
	return true
}

// leastBusy picks the agent with the fewest open exchanges. Among equals the
// choice goes round.
func (x *exchanges) leastBusy(agents []*Agent) *Agent {
	x.turn++
	best := agents[x.turn%uint64(len(agents))]
	if len(agents) == 1 {
		return best
	}
	least := x.openWith(best)
	for i := range agents {
		a := agents[(x.turn+uint64(i))%uint64(len(agents))]
		if n := x.openWith(a); n < least {
			best, least = a, n
		}
	}
	return best
}

// openWith is how many exchanges an agent has.
func (x *exchanges) openWith(a *Agent) int {
	if l := x.byAgent[a.key()]; l != nil {
		return l.n
	}
	return 0
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
	open := x.remove(e)
	x.mu.Unlock()
	if open {
		e.conclude(o)
	}
	return open
}

// withdraw takes an exchange out that nobody is to hear of. It reports whether
// it was still open.
func (x *exchanges) withdraw(e *exchange) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	e.done.Store(true)
	return x.remove(e)
}

// conclude tells how an exchange ended.
func (e *exchange) conclude(o outcome) {
	e.done.Store(true)
	e.party.hear(o)
}

// endAll ends every exchange with an agent, but for those that outlive its
// being away: these are told. The others hear of it on a goroutine of their
// own, since the caller holds locks.
func (x *exchanges) endAll(key agentKey, o outcome) {
	x.mu.Lock()
	defer x.mu.Unlock()
	l := x.byAgent[key]
	if l == nil {
		return
	}
	var ended []*exchange
	for e := l.first; e != nil; {
		behind := e.behind
		if e.standing {
			e.party.hear(o)
		} else {
			x.remove(e)
			ended = append(ended, e)
		}
		e = behind
	}
	if len(ended) == 0 {
		return
	}
	go func() {
		for _, e := range ended {
			e.conclude(o)
		}
	}()
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
	if !e.done.Load() {
		e.party.event(name, data)
	}
}
