package registry

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/fair"
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

// A peer is somebody who can be asked: an agent, or a skill that is called
// without one.
type peer struct {
	agent     *Agent   // nil for a skill
	endpoints []string // of the skill
}

// An exchange is one request to one peer and the wait for its answer.
type exchange struct {
	id string
	peer
	party party
	done  atomic.Bool // no event is passed on any more

	// How the request went. Guarded by the exchanges until the exchange has
	// ended, and fixed then.
	line     commands.Line      // it was sent over, nil for other ways
	endpoint string             // that was called last, "" for other ways
	hangUp   context.CancelFunc // ends a call of an endpoint, nil while there is none
	// A standing exchange stays open when the agent goes: the party is told
	// that as well, with the agent's exchanges locked.
	standing bool
	caller   fair.Party // on whose behalf a standing one is

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
	failure  *failure           // of undelivered
}

type outcomeKind uint8

const (
	answered    outcomeKind = iota
	garbled                 // the agent answered with something that is no response
	rejected                // the agent refused before it began
	gone                    // the agent went offline
	abandoned               // the bridge gave up: deadline, cancellation
	undelivered             // there is no answer, for a reason that the way there has
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

// enter takes an exchange up with the least busy of some peers.
func (x *exchanges) enter(e *exchange, peers []peer) {
	x.mu.Lock()
	defer x.mu.Unlock()
	e.peer = x.leastBusy(peers)
	x.byID[e.id] = e
	if e.agent == nil {
		return
	}
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
	if e.hangUp != nil {
		e.hangUp()
	}
	if e.agent == nil {
		return true
	}
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

// leastBusy picks the peer with the fewest open exchanges. Among equals the
// choice goes round.
func (x *exchanges) leastBusy(peers []peer) peer {
	x.turn++
	best := peers[x.turn%uint64(len(peers))]
	if len(peers) == 1 {
		return best
	}
	least := x.openWith(best)
	for i := range peers {
		p := peers[(x.turn+uint64(i))%uint64(len(peers))]
		if n := x.openWith(p); n < least {
			best, least = p, n
		}
	}
	return best
}

// openWith is how many exchanges an agent has.
func (x *exchanges) openWith(p peer) int {
	if p.agent == nil {
		return 0
	}
	if l := x.byAgent[p.agent.key()]; l != nil {
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
// being away: these are told.
func (x *exchanges) endAll(key agentKey, o outcome) {
	x.endSome(key, o, func(*exchange) bool { return true })
}

// endLost is endAll for an agent that nothing is heard of any more. Where an
// endpoint is being called it is the call that tells.
func (x *exchanges) endLost(key agentKey, o outcome) {
	x.endSome(key, o, func(e *exchange) bool { return e.hangUp == nil })
}

// endOver is endAll for what was sent over a line.
func (x *exchanges) endOver(line commands.Line, key agentKey, o outcome) {
	x.endSome(key, o, func(e *exchange) bool { return e.line == line })
}

// endSome ends some exchanges with an agent. They hear of it on a goroutine of
// their own, since the caller holds locks.
func (x *exchanges) endSome(key agentKey, o outcome, which func(*exchange) bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	l := x.byAgent[key]
	if l == nil {
		return
	}
	var ended []*exchange
	for e := l.first; e != nil; {
		behind := e.behind
		switch {
		case !which(e):
		case e.standing:
			e.line = nil
			e.party.hear(o)
		default:
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
