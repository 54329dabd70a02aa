package store

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

// maxGroup bounds a record of claims, in bytes.
const maxGroup = 512 << 10

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

	mu        sync.Mutex
	gathering *group
}

var _ commands.Claims = (*Claims)(nil)

// A group is the claims of one record.
type group struct {
	record  []byte
	claims  int
	expires time.Time     // of the claim that lasts longest
	done    chan struct{} // closed when err is final
	err     error
}

func newGroup() *group { return &group{record: beginClaims(), done: make(chan struct{})} }

func newClaims(s *Store) *Claims {
	c := &Claims{store: s, wake: make(chan struct{}, 1), gathering: newGroup(), used: s.options.ClaimBytes}
	s.wait.Go(c.write)
	return c
}

// Claims are the store's claims.
func (s *Store) Claims() *Claims { return s.claims }

// Claim returns when the claim is durable: it will be among the pending ones
// of the next process that opens the store, until it expires. On an error it
// may or may not be.
func (c *Claims) Claim(ctx context.Context, claim commands.Claim) error {
	if life := c.store.options.ClaimLife; time.Until(claim.Expires) > life {
		return fmt.Errorf("store: a claim until %v outlives the %v that claims are kept", claim.Expires, life)
	}
	if err := c.store.sure(ctx); err != nil {
		return err
	}
	g, err := c.join(ctx, claim)
	if err != nil {
		return err
	}
	return c.await(ctx, g)
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
func (c *Claims) join(ctx context.Context, claim commands.Claim) (*group, error) {
	for {
		c.mu.Lock()
		g := c.gathering
		full := len(g.record)+claimSize(claim) > maxGroup
		if !full {
			g.add(claim)
		}
		c.mu.Unlock()
		if !full {
			select {
			case c.wake <- struct{}{}:
			default: // the writer has yet to take the group
			}
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

func (g *group) add(claim commands.Claim) {
	g.record = appendClaim(g.record, claim)
	g.claims++
	if claim.Expires.After(g.expires) {
		g.expires = claim.Expires
	}
}

// write sends group after group until the store is closed.
func (c *Claims) write() {
	for {
		select {
		case <-c.wake:
		case <-c.store.run.Done():
			return
		}
		g := c.take()
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

// take begins a new group and returns the one gathered so far.
func (c *Claims) take() *group {
	next := newGroup()
	c.mu.Lock()
	defer c.mu.Unlock()
	g := c.gathering
	c.gathering = next
	return g
}

// publishClaims stores a group; the stream drops it when its last claim has
// expired.
func (s *Store) publishClaims(ctx context.Context, g *group) error {
	ctx, cancel := context.WithTimeout(ctx, s.options.WriteTimeout)
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
	_, err := s.store(ctx, s.flow, msg)
	if errors.Is(err, errConflict) {
		return s.fence(s.names.claims)
	}
	return err
}

// begin has the claims of earlier processes that may still run refused from now
// on: what they want to act on is another's. Each claim names the record of its
// epoch, which never expires.
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
