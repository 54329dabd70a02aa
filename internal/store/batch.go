package store

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nuid"

	"github.com/aibridge/aibridge/protocol"
)

const (
	// maxBatch is the number of changes that fit into one atomic batch, a limit of NATS.
	maxBatch = 1000
	// maxBatches is the number of batches that may be under way; NATS takes 50 a stream.
	maxBatches = 16
)

// Headers of an atomic batch. The stream keeps them with the messages.
const (
	batchID       = "Nats-Batch-Id"
	batchSequence = "Nats-Batch-Sequence"
	batchCommit   = "Nats-Batch-Commit"
)

// Atomic makes all changes or none. It returns when the view has them; readers
// of several keys may meanwhile see some changed and others not yet. A key may
// be named once. It fails like the first op that cannot be done: 3001, 3002 or
// 3003. One change is cheaper by its table's own methods.
func (s *Store) Atomic(ctx context.Context, ops ...Op) (err error) {
	switch {
	case len(ops) == 0:
		return nil
	case len(ops) == 1:
		_, err := s.write(ctx, ops[0])
		return err
	case len(ops) > maxBatch:
		return protocol.Errorf(protocol.LimitReached, "%d changes at once, %d is the limit", len(ops), maxBatch)
	}
	began := time.Now()
	defer func() { s.metrics.wrote("atomic", began, err) }()
	if err := s.usable(ctx); err != nil {
		return err
	}
	ctx, cancel := bounded(ctx, s.options.WriteTimeout)
	defer cancel()
	guards, err := s.guards(ctx, ops)
	if err != nil {
		return err
	}
	settle, err := s.reserveAll(ops)
	if err != nil {
		return err
	}
	defer settle()
	select {
	case s.batches <- struct{}{}:
		defer func() { <-s.batches }()
	case <-ctx.Done():
		return protocol.Wrap(protocol.StoreUnavailable, ctx.Err(), "the store is too slow for so many changes")
	}
	return s.commitGuarded(ctx, ops, guards)
}

// commitGuarded commits the ops, and again with other guards if the present ones do
// not hold and that is no reason to fail.
func (s *Store) commitGuarded(ctx context.Context, ops []Op, guards []uint64) error {
	for wait := busyFirst; ; wait = min(2*wait, busyPause) {
		msgs, err := s.messages(ops, guards)
		if err != nil {
			return err
		}
		revision, err := s.commit(ctx, msgs)
		if err == nil {
			return s.follow(ctx, revision)
		}
		if !errors.Is(err, errConflict) {
			return err
		}
		if err := s.resolveAll(ctx, ops, guards); err != nil {
			return err
		}
		if err := pause(ctx, wait); err != nil {
			return err
		}
	}
}

// guards are the guards of the ops, each of which must name another key.
func (s *Store) guards(ctx context.Context, ops []Op) ([]uint64, error) {
	guards := make([]uint64, len(ops))
	subjects := make(map[string]bool, len(ops))
	for i := range ops {
		guard, err := s.guard(ctx, &ops[i])
		if err != nil {
			return nil, err
		}
		guards[i] = guard
		if subjects[ops[i].subject] {
			return nil, fmt.Errorf("store: %s %s is named twice in one atomic change", ops[i].table, ops[i].key)
		}
		subjects[ops[i].subject] = true
	}
	return guards, nil
}

// resolveAll finds the op that made a batch fail, or corrects the guards.
func (s *Store) resolveAll(ctx context.Context, ops []Op, guards []uint64) error {
	for i := range ops {
		if guards[i] == unguarded {
			continue
		}
		var err error
		if guards[i], err = s.resolve(ctx, &ops[i]); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) messages(ops []Op, guards []uint64) ([]*nats.Msg, error) {
	msgs := make([]*nats.Msg, len(ops))
	for i, op := range ops {
		var err error
		if msgs[i], err = s.message(op, guards[i]); err != nil {
			return nil, err
		}
	}
	return msgs, nil
}

// commit publishes messages as one batch, adding to their headers, and returns
// the revision of the last.
func (s *Store) commit(ctx context.Context, msgs []*nats.Msg) (uint64, error) {
	id := nuid.Next()
	for i, msg := range msgs {
		if msg.Header == nil {
			msg.Header = make(nats.Header, 3)
		}
		msg.Header[batchID] = []string{id}
		msg.Header[batchSequence] = []string{strconv.Itoa(i + 1)}
	}
	last := len(msgs) - 1
	msgs[last].Header[batchCommit] = []string{"1"}
	for i, msg := range msgs[:last] {
		// The first is acknowledged before the rest is sent: its answer shows
		// whether the stream takes the batch at all.
		if i == 0 {
			if err := s.onceLed(ctx, func() error { return s.openBatch(ctx, msg) }); err != nil {
				return 0, err
			}
		} else if err := s.state.conn.PublishMsg(msg); err != nil {
			return 0, unavailable(err)
		}
	}
	ack, err := s.store(ctx, s.state, msgs[last])
	return ack.Sequence, err
}

// openBatch sends the first message of a batch. Its acknowledgement is empty.
func (s *Store) openBatch(ctx context.Context, msg *nats.Msg) error {
	answer, err := s.state.request(ctx, msg)
	if err != nil {
		return unavailable(err)
	}
	if len(answer.Data) == 0 {
		return nil
	}
	return protocol.Wrap(protocol.StoreUnavailable, errors.New(string(answer.Data)), "the store refused the batch")
}
