package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// A follower is a table as the view sees it. Only the view's goroutine calls
// put, remove and sweep, and holds the view's mutex.
type follower interface {
	name() string
	// put takes over the stored value of a key, unless the table has that
	// revision already and fresh is false.
	put(key string, revision uint64, data []byte, round uint32, fresh bool) error
	remove(key string)
	// sweep removes the keys that were not put in this round.
	sweep(round uint32)
	Len() int
	// unchanged is the number of keys that have a revision of at most since.
	unchanged(since uint64) int
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
	damage   atomic.Pointer[integrityError]

	mu     sync.Mutex // held while the tables change
	steady bool       // the tables are as the registry was at the position

	// The rest is the following goroutine's.
	round   uint32
	created time.Time // identity of the stream in the last round
	lacks   time.Time // since when what is read lacks keys; zero if it never did
	unknown map[string]bool
	damaged map[string]*integrityError // by subject
}

func newView(s *Store) *view {
	return &view{
		store:   s,
		tables:  make(map[string]follower),
		unknown: make(map[string]bool),
		damaged: make(map[string]*integrityError),
	}
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
		err := <-loaded
		if err == nil { // just so
			return nil
		}
		return fmt.Errorf("store: the registry did not load, with %d messages to come: %w", v.left.Load(), errors.Join(context.Cause(ctx), err))
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
	pause, patience := time.Duration(0), askFirst
	var last error // why the round before ended
	for {
		began := time.Now()
		err := v.followOnce(ctx, loaded != nil, patience, func() {
			patience = askFirst
			first(nil)
		})
		v.current.Store(false)
		var broken *integrityError
		if ctx.Err() != nil {
			first(errors.Join(ctx.Err(), last))
			return
		}
		if loaded != nil && errors.As(err, &broken) {
			first(err)
			return
		}
		last = err
		v.store.metrics.resyncs.Inc()
		v.store.log.Warn("following the registry broke off, beginning anew", "err", err)
		if errors.Is(err, context.DeadlineExceeded) {
			// A slow server needs more patience. A request sent while the stream
			// had no leader is never answered.
			if patience *= 2; patience > askTimeout {
				patience = askFirst
			}
		}
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
// the view has all that the stream has. The first round is strict: it fails if
// anything stored is damaged.
func (v *view) followOnce(ctx context.Context, strict bool, patience time.Duration, complete func()) error {
	info, err := v.inspect(ctx)
	if err != nil {
		return err
	}
	c, err := consume(ctx, v.store.state, v.store.names.registry, 1, patience)
	if err != nil {
		return err
	}
	defer c.close()
	c.alive = func() {
		v.heard.Store(time.Now().UnixNano())
		v.left.Store(c.left)
	}
	last, err := v.catchUp(ctx, c, info, strict)
	if err != nil {
		return err
	}
	if strict {
		if err := v.checkTally(ctx, last); err != nil {
			return err
		}
	}
	v.settle(last)
	complete()
	for {
		m, err := c.next()
		if err != nil {
			return err
		}
		v.left.Store(m.left)
		v.advance(m)
	}
}

// inspect looks at the stream before it is followed.
func (v *view) inspect(ctx context.Context) (*streamInfo, error) {
	if _, err := v.store.state.connected(ctx); err != nil {
		return nil, err
	}
	info, err := inspect(ctx, v.store.state, v.store.names.registry)
	if err != nil {
		return nil, err
	}
	if began, ok := info.Config.Metadata[restoring]; ok {
		return nil, &integrityError{
			subject:  info.Config.Name,
			revision: info.State.LastSeq,
			err:      fmt.Errorf("a restore begun at %s was not completed: run it again", began),
		}
	}
	if info.State.Lost != nil {
		v.store.log.Warn("NATS has dropped messages that it could not read at the end of a file, as a crash leaves them", "stream", info.Config.Name, "bytes", info.State.Lost.Bytes)
	}
	return info, nil
}

// catchUp reads everything that is in the stream and returns the revision it
// then is at.
func (v *view) catchUp(ctx context.Context, c *consumer, info *streamInfo, strict bool) (last uint64, err error) {
	v.mu.Lock()
	v.steady = false
	v.mu.Unlock()
	v.round++
	fresh := !info.Created.Equal(v.created)
	if fresh && !v.created.IsZero() {
		v.store.log.Warn("the registry stream is not the one it was", "created", info.Created)
	}
	v.created = info.Created
	clear(v.damaged)

	last, met := info.State.LastSeq, uint64(0)
	err = c.drain(func(m message) error {
		v.store.loading.step()
		met++
		last = max(last, m.seq)
		v.mu.Lock()
		defer v.mu.Unlock()
		if err := v.apply(m, fresh); err != nil && strict {
			return err
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return last, v.checkComplete(ctx, met, last)
}

// checkComplete fails if the stream holds messages that it did not deliver.
// Only a stream without other writes meanwhile can be judged.
func (v *view) checkComplete(ctx context.Context, met, last uint64) error {
	info, err := inspect(ctx, v.store.state, v.store.names.registry)
	if err != nil {
		return err
	}
	if info.State.LastSeq == last && met < info.State.Messages {
		return &integrityError{
			subject:  info.Config.Name,
			revision: last,
			err:      fmt.Errorf("the stream has %d messages but delivers only %d", info.State.Messages, met),
		}
	}
	return nil
}

// errMoved is the error if another bridge wrote to the registry while it was read,
// and has counted it since. It is read again.
var errMoved = errors.New("the registry was written to while it was read")

// checkTally fails if the registry lacks keys that it had when an earlier
// process counted them.
func (v *view) checkTally(ctx context.Context, last uint64) error {
	t, err := v.store.lastTally(ctx)
	if t == nil || err != nil {
		return err
	}
	missing := t.missing(last, func(table string) (int, bool) {
		f, known := v.tables[table]
		if !known {
			return 0, false
		}
		return f.unchanged(t.Revision), true
	})
	if missing == 0 && last >= t.Revision {
		return nil
	}
	if last < t.Revision || v.mayBeBehind() {
		if err := v.awaitBeyond(ctx, last); err != nil {
			return err
		}
	}
	err = &integrityError{
		subject:  v.store.names.registry,
		revision: last,
		err:      fmt.Errorf("%d keys or more are lost since revision %d", missing, t.Revision),
	}
	if v.store.options.AcceptLoss {
		v.store.log.Error("going on in spite of a loss, as told", "err", err)
		return nil
	}
	return err
}

// mayBeBehind reports whether keys can be missing because servers are not equally far: one
// that has applied the next change of a key does not deliver the one before, while the one
// that leads, and says where the registry ends, has yet to apply it. A loss is not put down
// to that for long.
func (v *view) mayBeBehind() bool {
	if v.lacks.IsZero() {
		v.lacks = time.Now()
	}
	return time.Since(v.lacks) < applying
}

// applying is the time that the server that has just been elected to lead the registry
// may take to apply what the others have agreed on. Until then it reports, and
// delivers, only a part.
const applying = 15 * time.Second

// awaitBeyond returns [errMoved] once the registry has more than it had at a revision,
// and nil if it has not.
func (v *view) awaitBeyond(ctx context.Context, last uint64) error {
	for deadline := time.Now().Add(applying); ; {
		info, err := v.inspect(ctx)
		if err != nil || info.State.LastSeq > last {
			return cmp.Or(err, errMoved)
		}
		if info.Config.Replicas < 2 || time.Now().After(deadline) {
			return nil
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// settle ends catching up: the tables are as the registry is at a revision.
func (v *view) settle(revision uint64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, t := range v.tables {
		t.sweep(v.round)
	}
	v.steady = true
	v.position.advance(revision)
	v.current.Store(true)
	v.noteDamage()
}

// advance brings the tables from one revision to the next.
func (v *view) advance(m message) {
	v.mu.Lock()
	defer v.mu.Unlock()
	_ = v.apply(m, false) // reported there
	v.position.advance(m.seq)
}

// tally counts the keys, if the tables are as the registry was at a revision.
func (v *view) tally() *tally {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.steady {
		return nil
	}
	t := &tally{Version: tallySchema, Revision: v.position.at.Load(), Keys: make(map[string]int, len(v.tables))}
	for name, table := range v.tables {
		t.Keys[name] = table.Len()
	}
	return t
}

// apply brings one message into its table. A message that cannot be read leaves the
// table as it is and is reported.
func (v *view) apply(m message, fresh bool) error {
	err := v.dispatch(m, fresh)
	if err == nil {
		if len(v.damaged) > 0 && v.damaged[m.Subject] != nil {
			delete(v.damaged, m.Subject)
			v.noteDamage()
		}
		return nil
	}
	broken := &integrityError{subject: m.Subject, revision: m.seq, err: err}
	v.store.metrics.damaged.Inc()
	v.store.log.Error("stored value cannot be read", "err", broken)
	v.damaged[m.Subject] = broken
	v.noteDamage()
	return broken
}

// noteDamage makes one of the unreadable values known, if there are any.
func (v *view) noteDamage() {
	for _, broken := range v.damaged {
		v.damage.Store(broken)
		return
	}
	v.damage.Store(nil)
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

// An integrityError is about a stored record that was damaged or lost.
type integrityError struct {
	subject  string
	revision uint64 // 0 if none is known
	err      error
}

func (e *integrityError) Error() string {
	if e.revision == 0 {
		return fmt.Sprintf("store: integrity: %s: %v", e.subject, e.err)
	}
	return fmt.Sprintf("store: integrity: %s at revision %d: %v", e.subject, e.revision, e.err)
}

func (e *integrityError) Unwrap() error { return e.err }
