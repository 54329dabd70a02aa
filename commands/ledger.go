package commands

import (
	"cmp"
	"crypto/sha256"
	"hash/maphash"
	"slices"
	"sync"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// A ledger remembers which requests were taken up, so that each is executed at
// most once (docs/protocol.md#request). Running ones are held as long as they
// run; finished ones until they expire, within bounds of number and memory.
//
// When memory is short, the oldest answers are dropped first. The record of a
// request that changed something stays: a repeat then gets 4012. Only when
// even the number of records is too large, those that would expire soonest are
// forgotten altogether, of parties that have more than a quarter of them first,
// and then of spaces that have more than half.
//
// There may be half a million finished requests, few of which are ever repeated. So
// they are kept out of the garbage collector's sight: records without pointers,
// which are found by a hash of 128 bits and name each other by number, and answers
// as bytes, one after the other.
type ledger struct {
	seeds [2]maphash.Seed

	mu      sync.Mutex
	running runningEntries
	found   ledgerIndex // the requests, running and finished
	records recordTable
	holders holders
	claimed map[entryKey][sha256.Size]byte // of those an earlier process took up
	expiry  expiry
	answers answerLog
	nearest slot // the record that is approached next: a guess, and any slot is good
	ahead   int  // the number that were approached and not expelled

	maxEntries int
	maxBytes   int
}

// An entryKey stands for a party and the id of a request of its own. Two
// of them coming out the same is as likely as guessing a UUID.
type entryKey struct{ a, b uint64 }

// An entry is one request that is running.
type entry struct {
	key     entryKey
	slot    slot     // of its record
	party   partyKey // whose it is
	hash    uint64   // fingerprint of the request
	effect  Effect
	expires time.Time
	owner   *Call   // the call that runs it
	joined  []*Call // calls that wait for the same answer
}

// A partyKey stands for a party: two hashes of it, and one of its space.
type partyKey struct{ a, b, space uint64 }

// runningEntries are the entries of running requests. A record of one has the place of
// its entry here.
type runningEntries struct {
	at   []*entry // nil where there is none
	free []int64
}

func (l *runningEntries) len() int { return len(l.at) - len(l.free) }

func (l *runningEntries) add(e *entry) (place int64) {
	if n := len(l.free); n > 0 {
		place, l.free = l.free[n-1], l.free[:n-1]
		l.at[place] = e
		return place
	}
	l.at = append(l.at, e)
	return int64(len(l.at) - 1)
}

func (l *runningEntries) remove(place int64) {
	l.at[place] = nil
	l.free = append(l.free, place)
}

// An outcome is the end of a call.
type outcome struct {
	result   []byte // raw JSON; with an error, the part done before it
	err      *protocol.Error
	warnings []string
	repeat   bool // of another call than the one that is answered; for audit
}

// A verdict is the ledger's decision about a request.
type verdict uint8

const (
	execute  verdict = iota // a new request: the call now owns the entry
	join                    // it runs: the call will be answered with it
	replay                  // it is finished: answer as it was
	conflict                // the id belongs to another body
	unknown                 // it was taken up, and its outcome is not known
)

func newLedger(maxEntries, maxBytes int) *ledger {
	l := &ledger{
		seeds:      [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()},
		claimed:    make(map[entryKey][sha256.Size]byte),
		maxEntries: maxEntries,
		maxBytes:   maxBytes,
	}
	l.answers.size = maxBytes / 64
	l.found.records = &l.records
	l.holders = newHolders(maxEntries)
	return l
}

// party is what a party is known by.
func (l *ledger) party(who protocol.Party) (p partyKey) {
	p.a, p.space = partyHash(l.seeds[0], who)
	p.b, _ = partyHash(l.seeds[1], who)
	return p
}

// key is the key of a request of a party.
func (l *ledger) key(p partyKey, request string) entryKey {
	return entryKey{mix(p.a, maphash.String(l.seeds[0], request)), mix(p.b, maphash.String(l.seeds[1], request))}
}

func partyHash(seed maphash.Seed, who protocol.Party) (party, space uint64) {
	space = maphash.String(seed, string(who.Space))
	return mix(mix(maphash.String(seed, string(who.Kind)), space), maphash.String(seed, who.ID)), space
}

// caller is what the party that makes a call is known by.
func (l *ledger) caller(c *Call) partyKey {
	if c.plan == nil {
		return l.party(c.Principal.Party())
	}
	return c.plan.callerOf(c).key
}

// approach has the processor fetch the place where a call's request will be looked
// for, which nearly always is in no cache.
func (l *ledger) approach(c *Call) {
	c.taken.key = l.key(l.caller(c), c.RequestID)
	l.found.approach(c.taken.key)
}

// begin takes a call up, or returns the verdict and the outcome of an earlier call
// of the same request. In either case the request is remembered as long as the call
// says.
func (l *ledger) begin(c *Call, hash uint64) (verdict, *entry, outcome) {
	party, key := l.caller(c), c.taken.key
	if key == (entryKey{}) {
		key = l.key(party, c.RequestID)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sweep(c.steady)
	s, known := l.found.enter(key)
	r := l.records.at(s)
	switch {
	case !known:
		e := &c.taken
		*e = entry{key: key, slot: s, party: party, hash: hash, effect: c.command.Effect, owner: c, expires: c.keep}
		r.state, r.day = running, l.running.add(e)
		l.makeRoom()
		return execute, e, outcome{}
	case r.state != running:
		return l.again(c, r, hash)
	}
	e := l.running.at[r.day]
	if e.hash != hash {
		return conflict, nil, outcome{}
	}
	if c.keep.After(e.expires) {
		e.expires = c.keep
	}
	e.joined = append(e.joined, c)
	c.joins = e
	return join, e, outcome{}
}

// runs is the entry of a running request, nil if it does not run.
func (l *ledger) runs(key entryKey) *entry {
	if s := l.found.find(key); s != noSlot && l.records.at(s).state == running {
		return l.running.at[l.records.at(s).day]
	}
	return nil
}

// again is the verdict for a repeat of a finished request.
func (l *ledger) again(c *Call, r *record, hash uint64) (verdict, *entry, outcome) {
	same := r.hash == hash
	if r.state == claimed {
		prints, made := &c.router.prints, l.claimed[r.key]
		same = !prints.comparable(made) || made == prints.claim(c.command, c.digest)
	}
	if !same {
		return conflict, nil, outcome{}
	}
	r.expires = max(r.expires, c.keep.UnixMilli()) // the expiry finds out when its day comes
	if r.state == answered {
		if out, ok := l.answers.read(r.answer); ok {
			return replay, nil, out
		}
	}
	return unknown, nil, outcome{}
}

// finish keeps the answer of an entry and returns the calls that joined it.
func (l *ledger) finish(e *entry, answer outcome, now time.Time) (joined []*Call) {
	l.mu.Lock()
	joined = l.leave(e)
	r := l.date(e.slot, e.party, record{key: e.key, hash: e.hash, expires: e.expires.UnixMilli(), effect: e.effect, state: lost}, now)
	r.answer = l.answers.write(e.slot, e.effect, answer, l.maxBytes)
	if r.answer != noAnswer {
		r.state = answered
	} else if r.effect == Read {
		l.remove(e.slot)
	}
	l.shrink()
	l.mu.Unlock()
	return joined
}

// leave takes an entry out of the running ones and returns the calls that joined it.
func (l *ledger) leave(e *entry) (joined []*Call) {
	l.running.remove(l.records.at(e.slot).day)
	joined, e.joined, e.owner = e.joined, nil, nil
	return joined
}

// date makes a slot that is found the record of a request that does not run, which
// expires.
func (l *ledger) date(s slot, party partyKey, as record, now time.Time) *record {
	as.holder = l.holders.add(party.a, party.space)
	r := l.records.at(s)
	*r = as
	l.expiry.add(&l.records, s, now)
	return r
}

// forget removes an entry that was not executed after all and returns the
// calls that joined it.
func (l *ledger) forget(e *entry) (joined []*Call) {
	l.mu.Lock()
	defer l.mu.Unlock()
	joined = l.leave(e)
	l.found.remove(e.key)
	l.records.release(e.slot)
	return joined
}

// withdraw removes a call from the waiters for an entry, and reports whether it
// was one of them.
func (l *ledger) withdraw(c *Call) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.joins == nil {
		return false
	}
	e := c.joins
	c.joins = nil // its owner may be used again
	i := slices.Index(e.joined, c)
	if i < 0 {
		return false
	}
	e.joined = slices.Delete(e.joined, i, i+1)
	return true
}

// remember enters a request that an earlier process took up. If that was one
// of an earlier version, the claim lacks the kind of its principal, and counts for
// every kind.
func (l *ledger) remember(c Claim, now time.Time) {
	var who protocol.Party
	if who.UnmarshalText([]byte(c.Principal)) != nil {
		return
	}
	who.Space = cmp.Or(who.Space, protocol.DefaultSpace)
	kinds := []protocol.Kind{who.Kind}
	if who.Kind == "" {
		kinds = []protocol.Kind{protocol.KindAgent, protocol.KindSkill, protocol.KindOperator, protocol.KindBridge}
	}
	for _, who.Kind = range kinds {
		l.enterClaim(who, c, now)
	}
}

func (l *ledger) enterClaim(who protocol.Party, c Claim, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	party := l.party(who)
	key := l.key(party, c.RequestID)
	if l.found.find(key) != noSlot || !c.Expires.After(now) {
		return
	}
	l.claimed[key] = c.Hash
	s, _ := l.found.enter(key)
	l.date(s, party, record{key: key, effect: Act, state: claimed, expires: c.Expires.UnixMilli(), answer: noAnswer}, now)
}

// listeners are the calls that follow a running entry.
func (l *ledger) listeners(e *entry) []*Call {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]*Call{e.owner}, e.joined...)
}

// sweep removes expired records.
func (l *ledger) sweep(now time.Time) {
	for s := range l.expiry.due(&l.records, now) {
		if l.records.at(s).expires > now.UnixMilli() { // a repeat has prolonged it
			l.expiry.remove(&l.records, s)
			l.expiry.add(&l.records, s, now)
			continue
		}
		l.remove(s)
	}
}

// remove forgets a finished request.
func (l *ledger) remove(s slot) {
	r := l.records.at(s)
	l.answers.drop(r.answer)
	l.expiry.remove(&l.records, s)
	l.found.remove(r.key)
	l.holders.remove(r.holder)
	if r.state == claimed {
		delete(l.claimed, r.key)
	}
	l.records.release(s)
}

// shrink keeps the answers within their bound. The oldest are lost, and with them the
// records of requests that only read: to read again changes nothing. The others stay, and are
// not touched, which would take long: their answers are simply not found any more.
func (l *ledger) shrink() {
	for l.answers.bytes > l.maxBytes {
		number := l.answers.first
		for _, s := range l.answers.pages[0].reads {
			if r := l.records.at(s); r.effect == Read && r.answer.page == number && r.answer != noAnswer {
				l.remove(s)
			}
		}
		if l.answers.first == number { // or it went with the last of its answers
			l.answers.cut()
			l.answers.trim()
		}
	}
	l.expel(l.found.count - l.maxEntries) // mostly begin has made room
}

// makeRoom expels records for one that was added. The next to go are approached some
// requests before there is no room.
func (l *ledger) makeRoom() {
	free := l.maxEntries - l.found.count
	if free >= approached {
		return
	}
	l.expel(-free)
	for range 2 { // one to stay ahead of those that are expelled, and one to get there
		if l.ahead < approached {
			l.approachNext()
		}
	}
}

// expel removes n records, or as many as do not run: the number of others is bounded
// elsewhere.
func (l *ledger) expel(n int) {
	for ; n > 0; n-- {
		s := l.expendable()
		if s == noSlot {
			return
		}
		l.remove(s)
		l.ahead = max(l.ahead-1, 0)
	}
}

// approached is the number of records that are approached before they are expelled.
const approached = 16

// approachNext approaches one more of the records that expire soonest. To remove one is to
// read what is in no cache of the processor, and would be waited for.
func (l *ledger) approachNext() {
	if l.nearest == noSlot {
		l.nearest, l.ahead = l.expiry.soonest(), 0
	}
	if l.nearest == noSlot {
		return
	}
	r := l.records.at(l.nearest)
	l.found.approach(r.key)
	l.nearest = r.newer
	l.records.approach(l.nearest)
	l.ahead++
}

// usage is the number of requests and the size of the answers in bytes.
func (l *ledger) usage() (entries, bytes int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.found.count, l.answers.bytes
}
