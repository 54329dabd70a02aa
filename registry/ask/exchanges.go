package ask

import (
	"context"
	"encoding/json"
	"sync"
	"sync/atomic"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/fair"
	"github.com/aibridge/aibridge/protocol"
)

// Exchanges are the requests that agents have and have not answered yet.
type exchanges struct {
	mu      sync.Mutex
	open    exchangeIndex
	byAgent map[AgentKey]*load // of agents with open exchanges, and latest
	latest  *load              // that got an exchange, which most often gets the next
	turn    uint64             // breaks ties between equally busy agents
}

// A load is the open exchanges of an agent, as a list.
type load struct {
	agent AgentKey
	first *exchange
	n     int
}

// An exchange is one request to one peer and the wait for its answer.
type exchange struct {
	id     string
	number uint64 // of the id, 0 if the index does not find it by one
	Peer
	waiter waiter
	call   *commands.Call // its call, in whose memory it may be; nil for a durable one
	done   atomic.Bool    // no event is passed on any more

	// The way of the request. Guarded by the exchanges until the exchange has
	// ended, and fixed then.
	bridge   Bridge             // that sends it on, zero for this one
	line     commands.Line      // it was sent over, nil for other ways
	endpoint string             // that was called last, "" for other ways
	hangUp   context.CancelFunc // ends a call of an endpoint, nil while there is none
	// A durable exchange stays open when the agent disconnects: the waiter is informed,
	// with the agent's exchanges locked.
	durable bool
	caller  fair.Party // party of a durable exchange

	load           *load
	before, behind *exchange // of the same agent
}

// A waiter waits for the end of an exchange. It must not retain the data of its calls.
type waiter interface {
	// hear takes the outcome, once, on the goroutine that ends the exchange.
	hear(o outcome)
	// event handles an event of the agent before the end.
	event(name string, data []byte)
}

// An outcome is the end of an exchange: a result, which is valid until the waiter's hear
// returns, or a failure. With neither the bridge gave up: deadline, cancellation.
type outcome struct {
	answered bool
	result   json.RawMessage
	failure  *failure
}

func answered(result json.RawMessage) outcome { return outcome{answered: true, result: result} }

func (o outcome) abandoned() bool { return !o.answered && o.failure == nil }

// newExchanges has exchanges found by the numbers that ids give, nil for ids without.
func newExchanges(ids *IDs) *exchanges {
	return &exchanges{
		open:    exchangeIndex{ids: ids, byID: make(map[string]*exchange)},
		byAgent: make(map[AgentKey]*load),
	}
}

// enter takes an exchange up with the least busy of some peers.
func (x *exchanges) enter(e *exchange, peers []Peer) {
	x.mu.Lock()
	defer x.mu.Unlock()
	e.Peer = x.leastBusy(peers)
	x.open.put(e)
	if e.Agent == nil {
		return
	}
	l := x.loadOf(e.Agent.Key())
	if e.behind = l.first; e.behind != nil {
		e.behind.before = e
	}
	e.load, l.first = l, e
	l.n++
}

// loadOf is the load of an agent, which becomes the latest. The one that was is forgotten if
// it has no exchanges.
func (x *exchanges) loadOf(key AgentKey) *load {
	last := x.latest
	if last != nil && last.agent == key {
		return last
	}
	l := x.byAgent[key]
	if l == nil {
		l = &load{agent: key}
		x.byAgent[key] = l
	}
	x.latest = l
	if last != nil && last.n == 0 {
		delete(x.byAgent, last.agent)
	}
	return l
}

// remove takes an exchange out, if it is still open.
func (x *exchanges) remove(e *exchange) bool {
	if !x.open.has(e) {
		return false
	}
	x.open.remove(e)
	if e.hangUp != nil {
		e.hangUp()
	}
	if e.Agent == nil {
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
	if l.n--; l.n == 0 && l != x.latest {
		delete(x.byAgent, l.agent)
	}
	e.before, e.behind = nil, nil
	return true
}

// leastBusy picks the peer with the fewest open exchanges. Among equals the
// choice goes round.
func (x *exchanges) leastBusy(peers []Peer) Peer {
	x.turn++
	if len(peers) == 1 {
		return peers[0]
	}
	best := peers[x.turn%uint64(len(peers))]
	least := x.openWith(best)
	for i := range peers {
		p := peers[(x.turn+uint64(i))%uint64(len(peers))]
		if n := x.openWith(p); n < least {
			best, least = p, n
		}
	}
	return best
}

// openWith is the number of exchanges that an agent has.
func (x *exchanges) openWith(p Peer) int {
	if p.Agent == nil {
		return 0
	}
	if l := x.byAgent[p.Agent.Key()]; l != nil {
		return l.n
	}
	return 0
}

// find returns the open exchange with the id, held.
func (x *exchanges) find(id string) *exchange {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.open.get([]byte(id)).hold()
}

// answered returns the open exchange that a reply is about, by its id or else by
// its Correlation Data. It is held.
func (x *exchanges) answered(id, correlation []byte) *exchange {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.about(id, correlation).hold()
}

func (x *exchanges) about(id, correlation []byte) *exchange {
	if e := x.open.get(id); e != nil {
		return e
	}
	return x.open.get(correlation)
}

// take ends and returns the open exchange with an agent to which a reply of principal
// who refers, for the caller to conclude. It returns nil if there is none.
func (x *exchanges) take(agent protocol.AgentID, who *protocol.Principal, id, correlation []byte) *exchange {
	x.mu.Lock()
	defer x.mu.Unlock()
	e := x.about(id, correlation)
	if e == nil || !e.isWith(agent, who) {
		return nil
	}
	if e.call != nil {
		e.call.Approach()
	}
	x.remove(e)
	return e
}

// isWith reports whether an exchange is with an agent that belongs to principal who.
func (e *exchange) isWith(agent protocol.AgentID, who *protocol.Principal) bool {
	return e.Agent != nil && e.agentID() == agent && e.Agent.BelongsTo(who)
}

// hold keeps the memory of an exchange from being used for another one until
// release: it may end meanwhile. It is called while the exchange is open.
func (e *exchange) hold() *exchange {
	if e != nil && e.call != nil {
		e.call.Hold()
	}
	return e
}

func (e *exchange) release() {
	if e != nil && e.call != nil {
		e.call.Release()
	}
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

// withdraw removes an exchange without telling its waiter. It reports whether the
// exchange was still open.
func (x *exchanges) withdraw(e *exchange) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	e.done.Store(true)
	return x.remove(e)
}

// conclude passes the outcome of an exchange to its waiter.
func (e *exchange) conclude(o outcome) {
	e.done.Store(true)
	e.waiter.hear(o)
}

// endSome ends some exchanges with an agent; durable ones are only informed. The
// waiters get the outcome on another goroutine, since the caller holds locks.
func (x *exchanges) endSome(key AgentKey, why func(target) *failure, which func(*exchange) bool) {
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
		case e.durable:
			e.line, e.bridge = nil, Bridge{}
			e.waiter.hear(outcome{failure: why(e.target())})
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
			e.conclude(outcome{failure: why(e.target())})
		}
	}()
}

// count is the number of open exchanges.
func (x *exchanges) count() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.open.len()
}

// event passes on an event of the agent, unless the exchange has ended. No
// lock is held meanwhile: passing it on may end connections, and with them
// exchanges.
func (e *exchange) event(name string, data []byte) {
	if !e.done.Load() {
		e.waiter.event(name, data)
	}
}
