package store

import (
	"context"
	"encoding/binary"
	"errors"
	"sync"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

// SharedClaims are the claims of all bridges of a cluster, in one log that each of
// them follows: of the claims of a request the first in the log counts
// (docs/decisions/0024). The outcome of the request comes behind it. It implements
// [commands.SharedClaims].
//
// A bridge whose claim is stored waits until it has followed the log as far, and
// then knows whether it was the first. One that was not waits for the answer of
// the one that was; if that process has ended without one, the outcome is unknown.
type SharedClaims struct {
	*Claims
	self  string                  // this process
	alive func(owner string) bool // whether a process may still answer

	mu       sync.Mutex
	position uint64 // up to where the log is followed
	moved    chan struct{}
	taken    map[takenKey]*takenRequest
	expiring map[int64][]takenKey // by the minute behind their expiry
	swept    int64                // minute
	answers  int                  // bytes
	oldest   []takenKey           // with answers
}

var _ commands.SharedClaims = (*SharedClaims)(nil)

type takenKey struct{ principal, request string }

// A takenRequest is a request that a process has claimed.
type takenRequest struct {
	owner   string
	hash    [32]byte
	expires time.Time
	ended   bool
	answer  []byte        // nil if it is not kept
	changed chan struct{} // closed when it is ended or given up; nil if none waits
}

const (
	// mostAnswer bounds an answer that is stored for other bridges, in bytes.
	mostAnswer = 64 << 10
	// mostAnswers bounds those that are kept here.
	mostAnswers = 64 << 20
	// aliveEvery is the interval at which waiters check whether the owner is alive.
	aliveEvery = 250 * time.Millisecond
)

// ShareClaims makes the store's claims those of all bridges. self names this
// process among them. It is called before the store is loaded.
func (s *Store) ShareClaims(self string, alive func(owner string) bool) *SharedClaims {
	c := &SharedClaims{
		Claims: s.claims, self: self, alive: alive, moved: make(chan struct{}),
		taken: make(map[takenKey]*takenRequest), expiring: make(map[int64][]takenKey), swept: time.Now().Unix() / 60,
	}
	s.claims.mu.Lock()
	defer s.claims.mu.Unlock()
	s.claims.owner, s.claims.shared = self, c
	s.claims.gathering = s.claims.newGroup()
	return c
}

// Pending yields nothing: the claims of others are found when a request is claimed
// again.
func (*SharedClaims) Pending(func(commands.Claim) bool) {}

// Claim returns nil if the claim of this process is the first. Otherwise it waits
// for the outcome of the request and returns it as [commands.Taken]: 4012 if that
// is not known any more, 1005 if it was another request.
func (c *SharedClaims) Claim(ctx context.Context, claim commands.Claim) error {
	key := takenKey{claim.Principal, claim.RequestID}
	for {
		if _, is := c.look(key); is == free || is == own {
			if err := c.propose(ctx, claim); err != nil {
				return err
			}
		}
		t, is := c.look(key)
		switch {
		case is == free: // its time is over
			return protocol.Errorf(protocol.TimedOut, "the request's time was over before it was claimed")
		case is == own:
			return nil
		case t.hash != claim.Hash:
			return protocol.Errorf(protocol.IDReused, "the id was used for another request; send a new id with a new request")
		}
		again, err := c.outcome(ctx, key, t)
		if !again {
			return err
		}
	}
}

// A standing is the state of a request as this process sees it.
type standing int

const (
	free  standing = iota // not claimed
	own                   // this process's, which has not run it
	other                 // it was run, or another process does
)

// look finds a request.
func (c *SharedClaims) look(key takenKey) (*takenRequest, standing) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.taken[key]
	switch {
	case t == nil:
		return nil, free
	case t.owner == c.self && !t.ended:
		return t, own
	}
	return t, other
}

// propose stores a claim and waits until this process has followed the log so far.
func (c *SharedClaims) propose(ctx context.Context, claim commands.Claim) error {
	err := c.Claims.Claim(ctx, claim)
	if err != nil {
		if protocol.CodeOf(err) != protocol.PayloadTooLarge { // it may have been stored
			c.Settle(claim, nil)
		}
		return err
	}
	for {
		c.mu.Lock()
		behind, moved := c.position < c.Claims.stored.Load(), c.moved
		c.mu.Unlock()
		if !behind {
			return nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			c.Settle(claim, nil)
			return protocol.Wrap(protocol.StoreUnavailable, ctx.Err(), "the store did not show in time who claimed the request first")
		case <-c.store.run.Done():
			return protocol.Errorf(protocol.ShuttingDown, "the store is closed")
		}
	}
}

// outcome waits for the outcome of a request that another process has claimed.
// again means that it was given up, and may be claimed.
func (c *SharedClaims) outcome(ctx context.Context, key takenKey, t *takenRequest) (again bool, err error) {
	look := time.NewTicker(aliveEvery)
	defer look.Stop()
	for late := false; ; {
		c.mu.Lock()
		is := c.taken[key]
		if t.changed == nil && !t.ended {
			t.changed = make(chan struct{})
		}
		ended, answer, changed := t.ended, t.answer, t.changed
		c.mu.Unlock()
		switch {
		case ended && answer != nil:
			return false, &commands.Taken{Answer: answer}
		case ended:
			return false, outcomeUnknown("its answer is not kept")
		case is != t:
			return true, nil
		case late:
			return false, outcomeUnknown("the bridge that took it up has ended")
		case !c.alive(t.owner): // and has said nothing, as far as the log is followed
			if err := c.catchUp(ctx); err != nil {
				return false, err
			}
			late = true
			continue
		}
		select {
		case <-changed:
		case <-look.C:
		case <-ctx.Done():
			return false, context.Cause(ctx)
		}
	}
}

// catchUp waits until this process has followed the log as far as it goes at the call,
// for [Options.WriteTimeout] at most.
func (c *SharedClaims) catchUp(ctx context.Context) error {
	ctx, cancel := bounded(ctx, c.store.options.WriteTimeout)
	defer cancel()
	info, err := inspect(ctx, c.store.flow, c.store.names.claims)
	for err == nil {
		c.mu.Lock()
		position, moved := c.position, c.moved
		c.mu.Unlock()
		if position >= info.State.LastSeq {
			return nil
		}
		var next *storedMessage
		if next, err = nextMessage(ctx, c.store.flow, c.store.names.claims, ">", position+1); err == nil && next == nil {
			return nil // the rest has expired
		}
		select {
		case <-moved:
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
	}
	return protocol.Wrap(protocol.OutcomeUnknown, err, "the bridge that took up the request has ended, and the store does not say what it has told last; look before you send it again with a new id")
}

func outcomeUnknown(why string) error {
	return protocol.Errorf(protocol.OutcomeUnknown, "the request was taken up by another bridge and its outcome is unknown: %s; look before you send it again with a new id", why)
}

// Settle implements [commands.SharedClaims]. It does not wait: until the answer is
// stored, others wait for it, and do not know it if this process ends before.
func (c *SharedClaims) Settle(claim commands.Claim, answer []byte) {
	kind := itemAnswer
	switch {
	case answer == nil:
		kind = itemGivenUp
	case len(answer) == 0 || len(answer) > mostAnswer:
		kind, answer = itemLost, nil
	}
	c.Claims.note(claim, claimSize(claim)+len(answer), func(record []byte) []byte { return appendItem(record, kind, claim, answer) })
}

// load follows the log from now on, and returns once all has come that there was.
func (c *SharedClaims) load(ctx context.Context) error {
	current := make(chan struct{})
	c.store.wait.Go(func() { c.follow(c.store.run, func() { close(current) }) })
	select {
	case <-current:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// follow takes up stored claims, until ctx ends. current is called once all claims stored
// before have come.
func (c *SharedClaims) follow(ctx context.Context, current func()) {
	next := uint64(1)
	told := sync.OnceFunc(current)
	for ctx.Err() == nil {
		err := c.followFrom(ctx, &next, told)
		if ctx.Err() != nil {
			return
		}
		c.store.log.Debug("claims are followed anew", "error", err)
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (c *SharedClaims) followFrom(ctx context.Context, next *uint64, current func()) error {
	reading, err := consume(ctx, c.store.flow, c.store.names.claims, *next, askTimeout)
	if err != nil {
		return err
	}
	defer reading.close()
	each := func(m message) error {
		c.apply(m.Data, m.seq)
		*next = m.seq + 1
		c.store.loading.step()
		return nil
	}
	if err := reading.drain(each); err != nil {
		return err
	}
	current()
	for {
		m, err := reading.next()
		if err != nil {
			return err
		}
		_ = each(m)
	}
}

// apply takes up a record of the log.
func (c *SharedClaims) apply(record []byte, position uint64) {
	owner, items := itemsOf(record)
	c.mu.Lock()
	defer c.mu.Unlock()
	for it, err := range items {
		if err != nil {
			c.store.log.Error("a record of claims cannot be read", "position", position, "error", err)
			break
		}
		c.applyItem(owner, &it)
	}
	c.position = position
	close(c.moved)
	c.moved = make(chan struct{})
	c.sweep(time.Now().Unix() / 60)
}

func (c *SharedClaims) applyItem(owner string, it *item) {
	key := takenKey{it.claim.Principal, it.claim.RequestID}
	t := c.taken[key]
	switch {
	case it.kind == itemClaim && t == nil:
		if it.claim.Expires.After(time.Now()) {
			c.taken[key] = &takenRequest{owner: owner, hash: it.claim.Hash, expires: it.claim.Expires}
			minute := it.claim.Expires.Unix()/60 + 1
			c.expiring[minute] = append(c.expiring[minute], key)
		}
	case it.kind == itemClaim || t == nil || t.owner != owner || t.ended: // the first counts
	case it.kind == itemGivenUp:
		delete(c.taken, key)
		t.wake()
	default:
		t.ended = true
		if it.kind == itemAnswer {
			t.answer = append(make([]byte, 0, len(it.answer)), it.answer...)
			c.keep(key, t)
		}
		t.wake()
	}
}

func (t *takenRequest) wake() {
	if t.changed != nil {
		close(t.changed)
		t.changed = nil
	}
}

// keep bounds the answers: the oldest are forgotten first.
func (c *SharedClaims) keep(key takenKey, t *takenRequest) {
	c.answers += len(t.answer)
	c.oldest = append(c.oldest, key)
	for c.answers > mostAnswers {
		if old := c.taken[c.oldest[0]]; old != nil {
			c.answers -= len(old.answer)
			old.answer = nil
		}
		c.oldest = c.oldest[1:]
	}
}

// sweep forgets expired claims.
func (c *SharedClaims) sweep(minute int64) {
	for ; c.swept < minute; c.swept++ {
		for _, key := range c.expiring[c.swept] {
			if t := c.taken[key]; t != nil && !t.expires.After(time.Unix(c.swept*60, 0)) {
				c.answers -= len(t.answer)
				delete(c.taken, key)
				t.wake()
			}
		}
		delete(c.expiring, c.swept)
	}
	for len(c.oldest) > 0 && c.taken[c.oldest[0]] == nil {
		c.oldest = c.oldest[1:]
	}
}

// sharedSchema is the version of records of shared claims: the schema's byte, the
// length and bytes of the owner, and items: a kind, a claim as in other records,
// and of an answer its length and bytes.
const sharedSchema = 2

// Kinds of items.
const (
	itemClaim   byte = iota + 1
	itemAnswer       // the outcome of a request
	itemLost         // it was run, and its answer is not kept
	itemGivenUp      // it was not run, and may be
)

type item struct {
	kind   byte
	claim  commands.Claim
	answer []byte
}

func beginShared(owner string) []byte {
	record := append(make([]byte, 0, 256), sharedSchema)
	record = binary.AppendUvarint(record, uint64(len(owner)))
	return append(record, owner...)
}

func appendItem(record []byte, kind byte, claim commands.Claim, answer []byte) []byte {
	record = appendClaim(append(record, kind), claim)
	if kind == itemAnswer {
		record = append(binary.AppendUvarint(record, uint64(len(answer))), answer...)
	}
	return record
}

// itemsOf takes a record apart. One of the schema before is of no owner.
func itemsOf(record []byte) (owner string, items func(yield func(item, error) bool)) {
	if len(record) > 0 && record[0] == claimSchema {
		return "", func(yield func(item, error) bool) {
			for claim, err := range claimsOf(record) {
				if !yield(item{kind: itemClaim, claim: claim}, err) {
					return
				}
			}
		}
	}
	rest, err := record, error(nil)
	if len(record) == 0 || record[0] != sharedSchema {
		err = errors.New("not a record of shared claims")
	} else {
		owner, rest, err = cutString(record[1:])
	}
	return owner, func(yield func(item, error) bool) {
		for it := (item{}); err == nil && len(rest) > 0; {
			if it, rest, err = cutItem(rest); err == nil && !yield(it, nil) {
				return
			}
		}
		if err != nil {
			yield(item{}, err)
		}
	}
}

func cutItem(data []byte) (it item, rest []byte, err error) {
	it.kind = data[0]
	if it.claim, rest, err = cutClaim(data[1:]); err != nil || it.kind != itemAnswer {
		return it, rest, err
	}
	answer, rest, err := cutString(rest)
	it.answer = []byte(answer)
	return it, rest, err
}
