package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"
)

// A follower is a table as the view sees it. Only the view's goroutine calls
// these methods.
type follower interface {
	name() string
	// put takes over what is stored at a key, unless the table has that
	// revision already and fresh is false.
	put(key string, revision uint64, data []byte, round uint32, fresh bool) error
	remove(key string)
	// sweep removes the keys that were not put in this round.
	sweep(round uint32)
}

// The view follows the registry stream and keeps the tables in step with it.
//
// It reads the stream from the beginning in rounds. A round ends when
// following breaks for any reason: a gap, silence, a lost connection. The next
// one reads everything again and then removes the keys it did not meet, so no
// fault can leave a ghost behind.
type view struct {
	store  *Store
	tables map[string]follower // fixed once started

	position position
	heard    atomic.Int64  // Unix nanoseconds of the last sign of life
	left     atomic.Uint64 // messages that are in the stream but not in the view
	current  atomic.Bool   // caught up and following
	damage   atomic.Pointer[error]

	round   uint32
	created time.Time       // identity of the stream in the last round
	unknown map[string]bool // tables that are stored but not declared
}

func newView(s *Store) *view {
	return &view{store: s, tables: make(map[string]follower), unknown: make(map[string]bool)}
}

// start begins to follow, and returns when the tables are complete. When it
// fails, nothing follows.
func (v *view) start(ctx context.Context) error {
	run, stop := context.WithCancelCause(v.store.run)
	loaded := make(chan error, 1)
	v.store.wait.Go(func() {
		defer stop(nil)
		v.follow(run, loaded)
	})
	select {
	case err := <-loaded:
		return err
	case <-ctx.Done():
		stop(ctx.Err())
		if err := <-loaded; err == nil {
			return nil // just so
		}
		return fmt.Errorf("store: the registry did not load in time, with %d messages to come: %w", v.left.Load(), ctx.Err())
	}
}

// follow runs rounds until ctx ends. The outcome of the first goes to loaded;
// if it is an error, it is the last round, too.
func (v *view) follow(ctx context.Context, loaded chan<- error) {
	first := func(err error) {
		if loaded != nil {
			loaded <- err
			loaded = nil
		}
	}
	pause := time.Duration(0)
	for {
		began := time.Now()
		err := v.followOnce(ctx, loaded != nil, func() { first(nil) })
		v.current.Store(false)
		var broken *integrityError
		if ctx.Err() != nil || loaded != nil && errors.As(err, &broken) {
			first(err)
			return
		}
		v.store.metrics.resyncs.Inc()
		v.store.log.Warn("following the registry broke off, beginning anew", "err", err)
		if time.Since(began) > time.Minute {
			pause = 0
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
		pause = min(pause+50*time.Millisecond, time.Second)
	}
}

// followOnce runs one round and returns why it ended. It calls complete when
// the view has all that the stream has.
func (v *view) followOnce(ctx context.Context, strict bool, complete func()) error {
	info, err := streamState(ctx, v.store.state, v.store.names.registry)
	if err != nil {
		return err
	}
	if began, ok := info.Config.Metadata[restoring]; ok {
		return &integrityError{
			subject:  info.Config.Name,
			revision: info.State.LastSeq,
			err:      fmt.Errorf("a restore begun at %s was not completed: run it again", began),
		}
	}
	c, err := consume(ctx, v.store.state, v.store.names.registry)
	if err != nil {
		return err
	}
	defer c.close()

	v.round++
	fresh := !info.Created.Equal(v.created)
	if fresh && !v.created.IsZero() {
		v.store.log.Warn("the registry stream is not the one it was", "created", info.Created)
	}
	v.created = info.Created

	last, met := info.State.LastSeq, uint64(0)
	for c.left > 0 {
		m, err := v.next(c)
		if err != nil {
			return err
		}
		met++
		last = max(last, m.seq)
		if err := v.apply(m, fresh); err != nil && strict {
			return err
		}
	}
	if err := v.checkComplete(ctx, met, last); err != nil {
		return err
	}
	for _, t := range v.tables {
		t.sweep(v.round)
	}
	v.position.advance(last)
	v.current.Store(true)
	complete()

	for {
		m, err := v.next(c)
		if err != nil {
			return err
		}
		_ = v.apply(m, false) // reported there
		v.position.advance(m.seq)
	}
}

func (v *view) next(c *consumer) (message, error) {
	m, err := c.next(func() { v.heard.Store(time.Now().UnixNano()) })
	v.left.Store(c.left)
	return m, err
}

// apply brings one message into its table. What cannot be read leaves the
// table as it is and is reported.
func (v *view) apply(m message, fresh bool) error {
	err := v.dispatch(m, fresh)
	if err == nil {
		return nil
	}
	broken := &integrityError{subject: m.Subject, revision: m.seq, err: err}
	v.store.metrics.damaged.Inc()
	v.store.log.Error("stored value cannot be read", "err", broken)
	var damage error = broken
	v.damage.Store(&damage)
	return broken
}

func (v *view) dispatch(m message, fresh bool) error {
	rest, ok := strings.CutPrefix(m.Subject, v.store.names.registryRoot)
	if !ok {
		return errors.New("outside the bucket")
	}
	name, token, _ := strings.Cut(rest, ".")
	table, ok := v.tables[name]
	if !ok {
		if !v.unknown[name] {
			v.unknown[name] = true
			v.store.log.Warn("the registry has keys of a table this bridge does not know", "table", name)
		}
		return nil
	}
	key, err := decodeKey(token)
	if err != nil {
		return err
	}
	if isDeletion(m.Header) {
		table.remove(key)
		return nil
	}
	return table.put(key, m.seq, m.Data, v.round, fresh)
}

// checkComplete fails if the stream holds messages that it did not deliver,
// as it does when its files are damaged. Only a stream that nobody else wrote
// to meanwhile can be judged.
func (v *view) checkComplete(ctx context.Context, met, last uint64) error {
	info, err := streamState(ctx, v.store.state, v.store.names.registry)
	if err != nil {
		return err
	}
	if info.State.LastSeq == last && met < info.State.Msgs {
		return &integrityError{
			subject:  info.Config.Name,
			revision: last,
			err:      fmt.Errorf("the stream has %d messages but delivers only %d", info.State.Msgs, met),
		}
	}
	return nil
}

// An integrityError is about something stored that is not what was stored.
type integrityError struct {
	subject  string
	revision uint64
	err      error
}

func (e *integrityError) Error() string {
	return fmt.Sprintf("store: integrity: %s at revision %d: %v", e.subject, e.revision, e.err)
}

func (e *integrityError) Unwrap() error { return e.err }
