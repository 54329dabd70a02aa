package store

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

const (
	// maxGroup bounds a record of claims, in bytes.
	maxGroup = 512 << 10
	// noteAfter is the time after which notes that were not stored are tried again.
	noteAfter = 100 * time.Millisecond
	// noteWithin is the time within which notes are stored by themselves, unless a
	// claim takes them along before.
	noteWithin = 10 * time.Millisecond
	// lastTimeout is the time that a store that is closed takes at most to store such.
	lastTimeout = time.Second
)

// Claims keeps the claims of commands that act on the world, so that after a
// crash a repeated request is known and not run again. It implements
// [commands.Claims].
//
// While one record is on its way to the stream, the claims that come meanwhile
// are gathered into the next: however many claim at once, each waits for at
// most two records.
type Claims struct {
	store   *Store
	wake    chan struct{} // holds a token while there is something to write
	pending [][]byte      // records of an earlier process
	epoch   uint64        // sequence of the record of this process, 0 without a fence
	used    int64         // bytes in the stream at most, as far as the writer knows; asked for at first

	owner  string        // this process in the records, "" where only one has claims
	shared *SharedClaims // that follow the stream, nil where only one has claims
	stored atomic.Uint64 // position of the last group that is stored

	mu        sync.Mutex
	full      []*group // that are to be stored before the one that gathers
	gathering *group
	due       *time.Timer // stores waiting notes; stopped while there are none
}

var _ commands.Claims = (*Claims)(nil)

// A group is the claims of one record.
type group struct {
	record  []byte
	claims  int
	expires time.Time     // of the claim that lasts longest
	notes   []part        // parts without a waiting caller, which are stored however late
	done    chan struct{} // closed when err is final
	err     error
}

// A part is one of a record.
type part struct{ from, to int }

func (c *Claims) newGroup() *group {
	g := &group{record: beginClaims(), done: make(chan struct{})}
	if c.shared != nil {
		g.record = beginShared(c.owner)
	}
	return g
}

func newClaims(s *Store) *Claims {
	c := &Claims{store: s, wake: make(chan struct{}, 1), used: s.options.ClaimBytes}
	c.due = time.AfterFunc(noteWithin, c.hurry)
	c.due.Stop()
	c.gathering = c.newGroup()
	s.wait.Go(c.write)
	return c
}

// Claims are the store's claims.
func (s *Store) Claims() *Claims { return s.claims }

// Claim returns when the claim is durable: it will be among the pending ones
// of the next process that opens the store, until it expires. On an error it may or
// may not be stored.
func (c *Claims) Claim(ctx context.Context, claim commands.Claim) error {
	if life := c.store.options.ClaimLife; time.Until(claim.Expires) > life {
		return fmt.Errorf("store: a claim until %v outlives the %v that claims are kept", claim.Expires, life)
	}
	if err := c.store.sure(ctx); err != nil {
		return err
	}
	g, err := c.join(ctx, claim, claimSize(claim), func(record []byte) []byte { return c.append(record, claim) })
	if err != nil {
		return err
	}
	return c.await(ctx, g)
}

// append appends a claim to a record.
func (c *Claims) append(record []byte, claim commands.Claim) []byte {
	if c.shared != nil {
		return appendItem(record, itemClaim, claim, nil)
	}
	return appendClaim(record, claim)
}

// note has a note about a claim stored, for which no caller waits here, behind all that came before
// it, with the next claim or within noteWithin. Other bridges may wait for it: if it cannot be
// stored, it is tried again until the claim expires.
func (c *Claims) note(claim commands.Claim, size int, item func(record []byte) []byte) {
	c.mu.Lock()
	if g := c.gathering; g.claims > 0 && len(g.record)+size > maxGroup {
		c.full, c.gathering = append(c.full, g), c.newGroup()
	}
	g := c.gathering
	if g.claims == 0 {
		c.due.Reset(noteWithin)
	}
	from := len(g.record)
	g.add(claim, item)
	g.notes = append(g.notes, part{from, len(g.record)})
	c.mu.Unlock()
}

// noteAgain has the notes of a group that was not stored go before all that has
// come since: a claim that was made again must not be given up by an earlier note.
// It reports false if there are none.
func (c *Claims) noteAgain(lost *group) bool {
	again := c.notesOf(lost)
	if again == nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.full) > 0 || len(again.record)+len(c.gathering.record) > maxGroup {
		c.full = append([]*group{again}, c.full...)
		return true
	}
	c.gathering.insert(again, len(c.newGroup().record))
	return true
}

// notesOf is a group of the notes of another that still matter, nil if none do.
func (c *Claims) notesOf(g *group) *group {
	if len(g.notes) == 0 || !g.expires.After(time.Now()) {
		return nil
	}
	notes := c.newGroup()
	for _, n := range g.notes {
		from := len(notes.record)
		notes.record = append(notes.record, g.record[n.from:n.to]...)
		notes.notes = append(notes.notes, part{from, len(notes.record)})
	}
	notes.claims, notes.expires = len(notes.notes), g.expires
	return notes
}

// insert puts the items of another group before those of this one, behind the header.
func (g *group) insert(before *group, header int) {
	shift := len(before.record) - header
	for i := range g.notes {
		g.notes[i].from += shift
		g.notes[i].to += shift
	}
	g.record = append(before.record, g.record[header:]...)
	g.notes = append(before.notes, g.notes...)
	g.claims += before.claims
	if before.expires.After(g.expires) {
		g.expires = before.expires
	}
}

func (c *Claims) hurry() {
	select {
	case c.wake <- struct{}{}:
	default: // the writer has yet to take the group
	}
}

// await returns the outcome of a group, if it is known in time.
func (c *Claims) await(ctx context.Context, g *group) error {
	select {
	case <-g.done:
		return g.err
	case <-ctx.Done():
		return protocol.Wrap(protocol.StoreUnavailable, ctx.Err(), "the store did not confirm the claim in time")
	case <-c.store.run.Done():
		return protocol.Errorf(protocol.ShuttingDown, "the store is closed")
	}
}

// join adds a claim to the group that is gathering, once there is room in it.
func (c *Claims) join(ctx context.Context, claim commands.Claim, size int, item func(record []byte) []byte) (*group, error) {
	for {
		c.mu.Lock()
		g := c.gathering
		full := len(g.record)+size > maxGroup
		if !full {
			g.add(claim, item)
		}
		c.mu.Unlock()
		if !full {
			c.hurry()
			return g, nil
		}
		if g.claims == 0 {
			return nil, protocol.Errorf(protocol.PayloadTooLarge, "the claim of request %.64q is too large", claim.RequestID)
		}
		if err := c.await(ctx, g); err != nil {
			return nil, err
		}
	}
}

func (g *group) add(claim commands.Claim, item func(record []byte) []byte) {
	g.record = item(g.record)
	g.claims++
	if claim.Expires.After(g.expires) {
		g.expires = claim.Expires
	}
}

// writeLast stores the notes that wait when the store is closed, if NATS answers:
// repeats of the last requests need their outcomes. Claims that wait have been
// refused.
func (c *Claims) writeLast() {
	ctx, cancel := context.WithTimeout(context.Background(), lastTimeout)
	defer cancel()
	for more := true; more && c.store.flow.current().isUp(); {
		var g *group
		if g, more = c.take(); c.notesOf(g) == nil {
			continue
		}
		if err := c.store.publishClaims(ctx, c.notesOf(g)); err != nil {
			c.store.log.Debug("what became of the last requests is not told to other bridges", "error", err)
			return
		}
	}
}

// write sends group after group until the store is closed.
func (c *Claims) write() {
	defer c.due.Stop()
	for {
		select {
		case <-c.wake:
		case <-c.store.run.Done():
			c.writeLast()
			return
		}
		runtime.Gosched() // other calls that are about to claim join the record
		g, more := c.take()
		if g.claims == 0 {
			continue
		}
		began := time.Now()
		err := c.makeRoom(c.store.run, int64(len(g.record)))
		if err == nil {
			err = c.store.publishClaims(c.store.run, g)
		}
		c.store.metrics.wrote("claims", began, err)
		c.store.metrics.claims.Add(float64(g.claims))
		switch {
		case err != nil && c.noteAgain(g):
			time.AfterFunc(noteAfter, c.hurry)
		case more:
			c.hurry()
		}
		g.err = err
		close(g.done)
	}
}

// recordCost bounds what the stream adds to a record of claims, in bytes.
const recordCost = 256

// makeRoom fails with 5001 if the claims would take more than they may with
// another record. A limit of the stream's own would have NATS reserve all of
// that on its disk. Expired claims are noticed when the room seems used up.
func (c *Claims) makeRoom(ctx context.Context, size int64) error {
	most := c.store.options.ClaimBytes
	size += recordCost
	if c.used+size > most {
		info, err := inspect(ctx, c.store.flow, c.store.names.claims)
		if err != nil {
			return unavailable(err)
		}
		c.used = int64(info.State.Bytes)
	}
	if c.used+size > most {
		return protocol.Errorf(protocol.StoreUnavailable,
			"claims of the last minutes take all of the %d bytes they may; there is room again as they expire", most)
	}
	c.used += size
	return nil
}

// take returns the group that is to be stored next, and whether there are others
// that are full.
func (c *Claims) take() (g *group, more bool) {
	next := c.newGroup()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.full) > 0 {
		g, c.full = c.full[0], c.full[1:]
		return g, true // the one that gathers comes behind it
	}
	c.due.Stop()
	g, c.gathering = c.gathering, next
	return g, false
}

// publishClaims stores a group; the stream drops it when its last claim has
// expired.
func (s *Store) publishClaims(ctx context.Context, g *group) error {
	ctx, cancel := bounded(ctx, s.options.WriteTimeout)
	defer cancel()
	life := max(time.Until(g.expires).Truncate(time.Second)+time.Second, time.Second)
	msg := &nats.Msg{
		Subject: s.names.claimsSubject,
		Header:  nats.Header{jetstream.MsgTTLHeader: {life.String()}},
		Data:    g.record,
	}
	if epoch := s.claims.epoch; epoch != 0 {
		msg.Header[jetstream.ExpectedLastSubjSeqSubjHeader] = []string{s.names.claimsEpoch}
		msg.Header[jetstream.ExpectedLastSubjSeqHeader] = []string{strconv.FormatUint(epoch, 10)}
	}
	ack, err := s.store(ctx, s.flow, msg)
	if errors.Is(err, errConflict) {
		return s.claims.refused(ctx)
	}
	if err == nil {
		s.claims.stored.Store(ack.Sequence)
	}
	return err
}

// refused returns the reason why NATS refused a record. Its servers also refuse while
// they choose another leader: only a later epoch, of another process, is a reason to end.
func (c *Claims) refused(ctx context.Context) error {
	s := c.store
	m, err := lastMessage(ctx, s.flow, s.names.claims, s.names.claimsEpoch)
	switch {
	case err != nil:
		return unavailable(err)
	case m != nil && m.Sequence == c.epoch:
		return protocol.Errorf(protocol.StoreUnavailable, "stream %s did not take a record; it may take it again", s.names.claims)
	}
	return s.fence(s.names.claims)
}

// begin has the claims of earlier processes that may still run refused from now
// on: their requests are another's now. Each claim names the record of its epoch,
// which never expires.
func (c *Claims) begin(ctx context.Context) error {
	s := c.store
	ack, err := s.store(ctx, s.flow, &nats.Msg{
		Subject: s.names.claimsEpoch,
		Header:  nats.Header{jetstream.MsgTTLHeader: {"never"}},
		Data:    beginClaims(),
	})
	if err != nil {
		return err
	}
	c.epoch = ack.Sequence
	return purge(ctx, s.flow, s.names.claims, jetstream.WithPurgeSubject(s.names.claimsEpoch), jetstream.WithPurgeKeep(1))
}

// Pending yields the claims that earlier processes left behind and that have
// not expired, once: then they are forgotten. They are there when the store is
// loaded.
func (c *Claims) Pending(yield func(commands.Claim) bool) {
	defer func() { c.pending = nil }()
	now := time.Now()
	for _, record := range c.pending {
		for claim, err := range claimsOf(record) {
			if err != nil { // load has checked the record
				break
			}
			if claim.Expires.After(now) && !yield(claim) {
				return
			}
		}
	}
}

// load reads the stream, again if NATS goes away meanwhile.
func (c *Claims) load(ctx context.Context) error {
	for {
		var err error
		if c.store.options.Fence && c.epoch == 0 {
			err = c.begin(ctx)
		}
		if err == nil && c.shared != nil {
			return c.shared.load(ctx)
		}
		if err == nil {
			err = c.loadOnce(ctx)
		}
		var broken *integrityError
		if err == nil || errors.As(err, &broken) {
			return err
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("store: the claims did not load: %w", errors.Join(context.Cause(ctx), err))
		}
	}
}

func (c *Claims) loadOnce(ctx context.Context) error {
	c.pending = nil
	stream := c.store.names.claims
	return readStream(ctx, c.store.flow, stream, func(m message) error {
		for _, err := range claimsOf(m.Data) {
			if err != nil {
				return &integrityError{subject: stream, revision: m.seq, err: err}
			}
		}
		c.pending = append(c.pending, m.Data)
		c.store.loading.step()
		return nil
	})
}
