package quota

import (
	"fmt"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/aibridge/aibridge/protocol"
)

// Options configure a [Keeper].
type Options struct {
	Principal  Limits // of each principal
	Privileged Limits // of each principal that may do everything, instead
	Space      Limits // of all principals of a space together, administrators apart
	Now        func() time.Time
	Records    RecordLimits
	Shared     bool                  // bridges beside this one let the same parties in, see [Keeper.Share]
	Registerer prometheus.Registerer // nil keeps the metrics to itself
}

// A Keeper counts the use of every party. It is safe for use by several
// goroutines, and asking it allocates nothing.
type Keeper struct {
	options Options
	start   time.Time
	seed    maphash.Seed
	shards  [shards]shard
	metrics *metrics
	records *Records
	room    int // accounts of a shard above which idle ones are looked for

	sharing sync.Mutex                               // held while others are told, or have told
	told    atomic.Pointer[map[protocol.Party][]Use] // by other bridges
}

const (
	shards   = 32 // a power of two
	perShard = 4096
)

type shard struct {
	mu      sync.RWMutex
	of      map[protocol.Party]*account
	cleaned int // accounts after the last time that idle ones were forgotten
}

// New makes a keeper.
func New(o Options) (*Keeper, error) {
	start := time.Now()
	if o.Now != nil {
		start = o.Now()
	}
	k := &Keeper{options: o, start: start, seed: maphash.MakeSeed(), room: perShard}
	k.told.Store(new(map[protocol.Party][]Use))
	for i := range k.shards {
		k.shards[i].of = make(map[protocol.Party]*account)
	}
	k.metrics = newMetrics(k)
	k.records = newRecords(o.Records, k.metrics)
	if o.Registerer != nil {
		for _, c := range k.metrics.collectors() {
			if err := o.Registerer.Register(c); err != nil {
				return nil, fmt.Errorf("quota: %w", err)
			}
		}
	}
	return k, nil
}

// None reports whether there are no limits at all, so that nothing need be counted.
func (k *Keeper) None() bool {
	return k.options.Principal.none() && k.options.Privileged.none() && k.options.Space.none()
}

// limits returns the limits of a principal and of its space.
func (k *Keeper) limits(who *protocol.Principal) (own, space Limits) {
	if unlimited(who) {
		return Limits{}, Limits{}
	}
	own, space = k.options.Principal, k.options.Space
	if who.Unbounded() {
		own = k.options.Privileged
	}
	if who.Administrator() { // a principal of all spaces uses no space's limits
		space = Limits{}
	}
	return own, space
}

// Admit takes one command of a size in bytes into account, or refuses it:
// 4009.
func (k *Keeper) Admit(who *protocol.Principal, size int) *protocol.Error {
	r := k.take(who, requests, size)
	if r.limit == "" {
		return nil
	}
	return r.error()
}

// Refusal takes into account that a command was refused, for its content or its sender. A
// sender that is refused too often is not listened to for a while: [Keeper.Admit] refuses
// its commands.
func (k *Keeper) Refusal(who *protocol.Principal) {
	own, space := k.limits(who)
	now := k.now()
	if own.Refusals > 0 {
		k.account(who.Party(), own, now).refuse(now, own)
	}
	if space.Refusals > 0 {
		k.account(protocol.Party{Space: who.Home()}, space, now).refuse(now, space)
	}
}

// Message takes one message of a size in bytes into account. If the limit is
// reached it returns a reason for the client, else "".
func (k *Keeper) Message(who *protocol.Principal, size int) (refused string) {
	r := k.take(who, messages, size)
	if r.limit == "" {
		return ""
	}
	return fmt.Sprintf("too many %s, again in %d ms", r.limit, milliseconds(r.wait))
}

// A refusal names the limit that was reached, "" for none.
type refusal struct {
	limit kind
	whose string
	most  int
	wait  time.Duration
}

func (r refusal) error() *protocol.Error {
	return protocol.Errorf(protocol.RateLimited, "too many %s", r.limit).
		With("retry_after_ms", milliseconds(r.wait)).
		With("limit", string(r.limit)).With("most", r.most).With("of", r.whose)
}

// milliseconds rounds up: a client that comes back then does not come too early.
func milliseconds(d time.Duration) int64 {
	return max(1, (d + time.Millisecond - 1).Milliseconds())
}

// take takes one of a kind, and its bytes, from the principal and its space,
// or nothing from either.
func (k *Keeper) take(who *protocol.Principal, what kind, size int) refusal {
	own, space := k.limits(who)
	if own.none() && space.none() {
		return refusal{}
	}
	now := k.now()
	mine := k.account(who.Party(), own, now)
	mine.asks(what, size)
	here := mine.rated(own)
	if r := mine.take(now, here, what, size); r.limit != "" {
		r.most = own.rate(r.limit)
		return k.refused(r, ofPrincipal)
	}
	if space.none() {
		return refusal{}
	}
	all := k.account(protocol.Party{Space: who.Home()}, space, now)
	all.asks(what, size)
	if r := all.take(now, all.rated(space), what, size); r.limit != "" {
		mine.giveBack(here, what, size)
		r.most = space.rate(r.limit)
		return k.refused(r, ofSpace)
	}
	return refusal{}
}

// refuse counts a refusal.
func (a *account) refuse(now int64, l Limits) {
	a.asks(refusals, 0)
	a.refusals.take(now, 1, a.rated(l).Refusals)
}

func (k *Keeper) refused(r refusal, whose string) refusal {
	r.whose = whose
	k.metrics.refused(r.limit, whose)
	return r
}

func (a *account) take(now int64, l Limits, what kind, size int) refusal {
	b, rate := &a.requests, l.Requests
	if what == messages {
		b, rate = &a.messages, l.Messages
	} else if wait := a.refusals.wait(now, l.Refusals); wait > 0 {
		return refusal{limit: refusals, most: l.Refusals, wait: wait}
	}
	if wait, ok := b.take(now, 1, rate); !ok {
		return refusal{limit: what, most: rate, wait: wait}
	}
	if wait, ok := a.bytes.take(now, size, l.Bytes); !ok {
		b.giveBack(1, rate)
		return refusal{limit: bytes, most: l.Bytes, wait: wait}
	}
	return refusal{}
}

func (a *account) giveBack(l Limits, what kind, size int) {
	if what == messages {
		a.messages.giveBack(1, l.Messages)
	} else {
		a.requests.giveBack(1, l.Requests)
	}
	a.bytes.giveBack(size, l.Bytes)
}

// retryConnection is the time when a principal with too many connections should try
// again.
const retryConnection = time.Second

// MayConnect fails with 4009 if a principal may not have one more connection. It
// counts nothing.
func (k *Keeper) MayConnect(who *protocol.Principal) *protocol.Error {
	return k.connections(who, 0, func(n, most int64) bool { return n < most })
}

// Connect counts an open connection, and fails with 4009 if it is one too many.
// Disconnect must follow in either case, with the same principal.
func (k *Keeper) Connect(who *protocol.Principal) *protocol.Error {
	return k.connections(who, 1, func(n, most int64) bool { return n <= most })
}

// Disconnect ends the count of a connection.
func (k *Keeper) Disconnect(who *protocol.Principal) {
	_ = k.connections(who, -1, func(int64, int64) bool { return true })
}

// connections adds to the connections of a principal and of its space, and
// judges what they are then.
func (k *Keeper) connections(who *protocol.Principal, more int64, within func(n, most int64) bool) *protocol.Error {
	if unlimited(who) {
		return nil
	}
	own, space := k.limits(who)
	var first refusal
	count := func(p protocol.Party, l Limits, whose string) {
		n, most := k.shard(p).connections(p, more, func() *account { return k.newAccount(p, l) }), l.Connections
		if most > 0 && first.limit == "" && !within(n, int64(most)) {
			first = k.refused(refusal{limit: connections, most: most, wait: retryConnection}, whose)
		}
	}
	count(who.Party(), own, ofPrincipal)
	if !who.Administrator() {
		count(protocol.Party{Space: who.Home()}, space, ofSpace)
	}
	if first.limit == "" {
		return nil
	}
	return first.error()
}

// connections adds to a party's connections and returns the new number, with those at
// other bridges. The lock keeps the account from being forgotten meanwhile.
func (s *shard) connections(p protocol.Party, more int64, open func() *account) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.of[p]
	if a == nil {
		if more == 0 {
			return 0
		}
		a = open()
		s.of[p] = a
	}
	a.connections += more
	if a.elsewhere != nil {
		return a.connections + a.elsewhere.connections.Load()
	}
	return a.connections
}

// newAccount is one of a party with limits.
func (k *Keeper) newAccount(p protocol.Party, l Limits) *account {
	a := new(account)
	if k.options.Shared {
		a.elsewhere = &elsewhere{limits: l}
		a.elsewhere.leave((*k.told.Load())[p])
	}
	return a
}

// Limits returns the limits of a principal and of its whole space. The limits of
// stored things are enforced by the packages that store them.
func (k *Keeper) Limits(who *protocol.Principal) (own, space Limits) { return k.limits(who) }

// Refused counts a refusal to store something of a kind, for the space's limit or
// the principal's own.
func (k *Keeper) Refused(what kind, space bool) {
	whose := ofPrincipal
	if space {
		whose = ofSpace
	}
	k.metrics.refused(what, whose)
}

func (k *Keeper) now() int64 {
	if k.options.Now == nil {
		return int64(time.Since(k.start)) // asks for one time instead of two
	}
	return int64(k.options.Now().Sub(k.start))
}

func (k *Keeper) shard(p protocol.Party) *shard {
	return &k.shards[maphash.Comparable(k.seed, p)%shards]
}

// account finds the account of a party, or opens it.
func (k *Keeper) account(p protocol.Party, l Limits, now int64) *account {
	s := k.shard(p)
	s.mu.RLock()
	a := s.of[p]
	s.mu.RUnlock()
	if a != nil {
		return a
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if a = s.of[p]; a != nil {
		return a
	}
	if len(s.of) >= max(k.room, 2*s.cleaned) {
		s.forget(now)
	}
	a = k.newAccount(p, l)
	s.of[p] = a
	return a
}

// forget drops the accounts that nothing is known of but their names.
func (s *shard) forget(now int64) {
	for p, a := range s.of {
		if a.idle(now) {
			delete(s.of, p)
		}
	}
	s.cleaned = len(s.of)
}

func (k *Keeper) accounts() (n int) {
	for i := range k.shards {
		k.shards[i].mu.RLock()
		n += len(k.shards[i].of)
		k.shards[i].mu.RUnlock()
	}
	return n
}
