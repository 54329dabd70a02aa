package commands

import (
	"crypto/sha256"
	"slices"
	"sync"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// A ledger remembers which requests were taken up, so that each is executed
// at most once (PROTOCOL §1). Running ones are held as long as they run;
// finished ones until they expire, within bounds of number and memory.
//
// When memory is short, the oldest answers are dropped first. The entry of a
// request that changed something stays: a repeat then gets 4012. Only when
// even the number of entries is too large, those that would expire soonest are
// forgotten altogether.
type ledger struct {
	mu      sync.Mutex
	entries map[entryKey]*entry
	expiry  calendar
	answers answerList

	maxEntries int
	maxBytes   int
}

type entryKey struct{ principal, request string }

// An entry is one request that was taken up.
type entry struct {
	key     entryKey
	hash    uint64             // fingerprint of the request
	claimed *[sha256.Size]byte // instead of it, of a request that an earlier process took up
	effect  Effect
	state   entryState
	expires time.Time
	owner   *Call   // who runs it; nil when finished
	joined  []*Call // who wait for the same answer
	answer  outcome // when finished and kept

	day           int64  // in the calendar
	sooner, later *entry // neighbours on that day
	older, newer  *entry // neighbours in the list of answers
	size          int    // of the answer; 0 when it is not in the list
}

type entryState uint8

const (
	running  entryState = iota
	finished            // with an answer
	lost                // finished or interrupted, and nobody knows the answer
)

// An outcome is how a call ended.
type outcome struct {
	result   []byte // raw JSON; with an error, what was done before it
	err      *protocol.Error
	warnings []string
	repeat   bool // of another call than the one that is answered; for audit
}

// A verdict says what to do with a request.
type verdict uint8

const (
	execute  verdict = iota // nobody did: the call now owns the entry
	join                    // it runs: the call will be answered with it
	replay                  // it is finished: answer as it was
	conflict                // the id belongs to another body
	unknown                 // it was taken up, and what became of it is not known
)

func newLedger(maxEntries, maxBytes int) *ledger {
	return &ledger{entries: make(map[entryKey]*entry), maxEntries: maxEntries, maxBytes: maxBytes}
}

// begin takes a call up, or says what became of the same request. Whatever
// the verdict, a request that was seen is remembered as long as the call says.
func (l *ledger) begin(c *Call, hash uint64) (verdict, *entry, outcome) {
	key := entryKey{c.Principal.ID, c.RequestID}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sweep(c.arrived)
	e, ok := l.entries[key]
	if ok && !e.is(c, hash) {
		return conflict, nil, outcome{}
	}
	if !ok {
		e = &entry{key: key, hash: hash, effect: c.command.Effect, owner: c, expires: c.keep}
		l.entries[key] = e
		return execute, e, outcome{}
	}
	if c.keep.After(e.expires) {
		e.expires = c.keep // the calendar finds out when its day comes
	}
	switch e.state {
	case running:
		e.joined = append(e.joined, c)
		c.joins = e
		return join, e, outcome{}
	case finished:
		return replay, nil, e.answer
	case lost:
	}
	return unknown, nil, outcome{}
}

// is reports whether the entry is about the request of a call.
func (e *entry) is(c *Call, hash uint64) bool {
	if e.claimed != nil {
		return *e.claimed == claimHash(c.Command, c.request.Params)
	}
	return e.hash == hash
}

// finish keeps the answer of an entry and returns the calls that joined it.
func (l *ledger) finish(e *entry, answer outcome, now time.Time) (joined []*Call) {
	l.mu.Lock()
	defer l.mu.Unlock()
	joined, e.joined, e.owner = e.joined, nil, nil
	e.state, e.answer = finished, answer
	e.size = answer.size()
	l.answers.push(e)
	l.expiry.add(e, now)
	l.shrink()
	return joined
}

// forget removes an entry that was not executed after all and returns the
// calls that joined it.
func (l *ledger) forget(e *entry) (joined []*Call) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.entries, e.key)
	joined, e.joined, e.owner = e.joined, nil, nil
	return joined
}

// withdraw removes a call from those that wait for an entry, and reports
// whether it was one of them.
func (l *ledger) withdraw(c *Call) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.joins == nil {
		return false
	}
	i := slices.Index(c.joins.joined, c)
	if i < 0 {
		return false
	}
	c.joins.joined = slices.Delete(c.joins.joined, i, i+1)
	return true
}

// remember enters a request that an earlier process took up.
func (l *ledger) remember(c Claim, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := entryKey{c.Principal, c.RequestID}
	if _, ok := l.entries[key]; ok || !c.Expires.After(now) {
		return
	}
	e := &entry{key: key, claimed: &c.Hash, effect: Act, state: lost, expires: c.Expires}
	l.entries[key] = e
	l.expiry.add(e, now)
}

// listeners are the calls that follow a running entry.
func (l *ledger) listeners(e *entry) []*Call {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]*Call{e.owner}, e.joined...)
}

// sweep removes what has expired.
func (l *ledger) sweep(now time.Time) {
	for e := range l.expiry.due(now) {
		if e.expires.After(now) { // a repeat has prolonged it
			l.expiry.remove(e)
			l.expiry.add(e, now)
			continue
		}
		l.remove(e)
	}
}

// remove forgets an entry that is not running.
func (l *ledger) remove(e *entry) {
	l.answers.drop(e)
	l.expiry.remove(e)
	delete(l.entries, e.key)
}

// shrink keeps the ledger within its bounds.
func (l *ledger) shrink() {
	for l.answers.bytes > l.maxBytes && l.answers.oldest != nil {
		e := l.answers.oldest
		if e.effect == Read { // reading again changes nothing
			l.remove(e)
			continue
		}
		l.answers.drop(e)
		e.state = lost
	}
	for len(l.entries) > l.maxEntries {
		e := l.expiry.soonest()
		if e == nil {
			return // all are running, and their number is bounded elsewhere
		}
		l.remove(e)
	}
}

func (o outcome) size() int {
	const overhead = 128
	n := overhead + len(o.result)
	for _, w := range o.warnings {
		n += len(w)
	}
	if o.err != nil {
		n += len(o.err.Message) + 64*len(o.err.Details)
	}
	return n
}

// An answerList is the entries with an answer, oldest first.
type answerList struct {
	oldest, newest *entry
	bytes          int
}

func (a *answerList) push(e *entry) {
	a.bytes += e.size
	e.older, e.newer = a.newest, nil
	if a.newest == nil {
		a.oldest = e
	} else {
		a.newest.newer = e
	}
	a.newest = e
}

// drop removes an entry and its answer.
func (a *answerList) drop(e *entry) {
	if e.size == 0 {
		return
	}
	if e.older == nil {
		a.oldest = e.newer
	} else {
		e.older.newer = e.newer
	}
	if e.newer == nil {
		a.newest = e.older
	} else {
		e.newer.older = e.older
	}
	a.bytes -= e.size
	e.older, e.newer, e.size, e.answer = nil, nil, 0, outcome{}
}

// usage is the number of entries and the size of the answers in bytes.
func (l *ledger) usage() (entries, bytes int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.entries), l.answers.bytes
}
