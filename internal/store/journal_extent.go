package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// An extent holds the first and last messages of a journal's logs. It is kept apart
// from them, on the state connection.
//
// NATS mends a damaged file by cutting it at the damage, and the log that is
// left looks whole: it only ends earlier, or begins later. The extent distinguishes
// that from entries that were never stored and entries that were trimmed.
type extent struct {
	Version int    `json:"v"`
	Writer  string `json:"writer"`
	Boot    string `json:"boot,omitempty"` // see Options.Boot
	Values  span   `json:"values"`
	Entries span   `json:"entries"`
}

// A span is the sequences of a log, both included: of the oldest message in use and
// of the last that was acknowledged.
type span struct {
	First uint64 `json:"first"`
	Last  uint64 `json:"last"`
}

const (
	extentSchema = 1
	// extentEvery is the time by which the extent may be behind at the end. It is never
	// behind at the beginning, where it is stored before anything is trimmed.
	extentEvery = time.Second
)

// A reach is the span of a log in use.
type reach struct{ first, last atomic.Uint64 }

func (r *reach) span() span { return span{r.first.Load(), r.last.Load()} }

// cover has the reach begin and end as a stream does.
func (r *reach) cover(info *streamInfo) {
	first := info.State.FirstSeq
	if info.State.Messages == 0 {
		first = info.State.LastSeq + 1
	}
	r.first.Store(first)
	r.last.Store(info.State.LastSeq)
}

// missing is the number of messages in was that are not in now any more.
func (now span) missing(was span) uint64 {
	if was.Last == 0 || was.First > was.Last { // nothing counted
		return 0
	}
	lost := uint64(0)
	if now.First > was.First {
		lost += min(now.First, was.Last+1) - was.First
	}
	if from := max(now.Last+1, now.First, was.First); from <= was.Last && now.Last < was.Last {
		lost += was.Last + 1 - from
	}
	return lost
}

// An extentKeeper stores the extent of a journal.
type extentKeeper struct {
	store           *Store
	stream, subject string
	values, entries *reach
	quit, done      chan struct{} // of the keeping goroutine; nil while there is none

	mu     sync.Mutex // held while one is stored, so that none overtakes another
	at     uint64     // sequence of the one that was stored last
	stored extent
}

// last is the extent that was stored last, nil if there is none.
func (k *extentKeeper) last(ctx context.Context) (*extent, error) {
	m, err := lastMessage(ctx, k.store.state, k.stream, k.subject)
	if err != nil {
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if m == nil {
		info, err := inspect(ctx, k.store.state, k.stream)
		if err == nil {
			k.at = info.State.LastSeq
		}
		return nil, err
	}
	e := new(extent)
	if err := json.Unmarshal(m.Data, e); err != nil {
		return nil, &integrityError{subject: k.stream, revision: m.Sequence, err: err}
	}
	if e.Version > extentSchema {
		return nil, &integrityError{subject: k.stream, revision: m.Sequence, err: fmt.Errorf("written by a newer bridge: version %d", e.Version)}
	}
	k.at = m.Sequence
	return e, nil
}

// keep stores the extent as it is now, unless it is stored. It fails with
// errConflict if another process has stored one since.
func (k *extentKeeper) keep(ctx context.Context) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := extent{extentSchema, k.store.id, k.store.options.Boot, k.values.span(), k.entries.span()}
	if now == k.stored {
		return nil
	}
	data, err := json.Marshal(now)
	if err != nil {
		return err
	}
	ctx, cancel := bounded(ctx, k.store.options.WriteTimeout)
	defer cancel()
	for again := false; ; again = true {
		ack, err := k.store.store(ctx, k.store.state, &nats.Msg{
			Subject: k.subject,
			Header:  nats.Header{jetstream.ExpectedLastSeqHeader: {strconv.FormatUint(k.at, 10)}},
			Data:    data,
		})
		if err == nil {
			k.at, k.stored = ack.Sequence, now
			return nil
		}
		if !errors.Is(err, errConflict) || again || !k.own(ctx) {
			return err
		}
	}
}

// own finds out whether the extent that is stored is one of this process, of
// which the acknowledgement was lost.
func (k *extentKeeper) own(ctx context.Context) bool {
	m, err := lastMessage(ctx, k.store.state, k.stream, k.subject)
	var e extent
	if err != nil || m == nil || json.Unmarshal(m.Data, &e) != nil || e.Writer != k.store.id {
		return false
	}
	k.at = m.Sequence
	return true
}

// begin keeps the extent of a journal that was just loaded, from now on and
// until it ends, or the store is closed.
func (k *extentKeeper) begin(ctx context.Context) error {
	for attempt := 0; ; attempt++ {
		err := k.keep(ctx)
		if err == nil {
			break
		}
		if !errors.Is(err, errConflict) || attempt == writeAttempts {
			return err
		}
		if _, err := k.last(ctx); err != nil { // a process that is about to learn that it is not alone
			return err
		}
	}
	if k.quit == nil {
		k.quit, k.done = make(chan struct{}), make(chan struct{})
		k.store.wait.Go(func() { k.run(k.quit, k.done) })
	}
	return nil
}

// end brings the extent up to date and stops keeping it.
func (k *extentKeeper) end() {
	close(k.quit)
	<-k.done
	k.quit, k.done = nil, nil
}

func (k *extentKeeper) run(quit, done chan struct{}) {
	defer close(done)
	tick := time.NewTicker(extentEvery)
	defer tick.Stop()
	for running := true; running; {
		select {
		case <-tick.C:
		case <-quit:
			running = false
		case <-k.store.run.Done():
			running = false
		}
		if err := k.keep(context.Background()); err != nil {
			k.store.log.Debug("the extent of the journal could not be stored", "err", err)
		}
	}
}

// forget makes the journal new. It stores an extent without messages instead of
// none: so a process that still has the journal, such as one that was suspended
// before a restore, cannot store its old extent.
func (k *extentKeeper) forget(ctx context.Context) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	data, err := json.Marshal(extent{Version: extentSchema, Writer: k.store.id, Boot: k.store.options.Boot})
	if err != nil {
		return err
	}
	ack, err := k.store.store(ctx, k.store.state, &nats.Msg{Subject: k.subject, Data: data})
	if err != nil {
		return err
	}
	k.at = ack.Sequence
	return nil
}

// checkExtent fails if logs that were read lack messages at their ends that they
// had before. Entries trimmed meanwhile are not lost.
func (j *Journal) checkExtent(ctx context.Context, before *extent, values, entries span) error {
	if before == nil { // written by an earlier version, or new
		return nil
	}
	after, err := j.extent.last(ctx)
	if err != nil {
		return err
	}
	if after == nil {
		after = before
	}
	return errors.Join(
		j.store.checkSpan(j.values.stream, values, span{after.Values.First, before.Values.Last}, before.Boot),
		j.store.checkSpan(j.entries.stream, entries, span{after.Entries.First, before.Entries.Last}, before.Boot))
}

// checkSpan fails if a stream lacks messages at its ends that it had. Where a power
// cut may have taken them, it logs that and goes on.
func (s *Store) checkSpan(stream string, now, was span, boot string) error {
	lost := now.missing(was)
	if lost == 0 {
		return nil
	}
	err := &integrityError{
		subject:  stream,
		revision: now.Last,
		err: fmt.Errorf("%d messages are lost: it had %d to %d and has %d to %d; restore a backup, or start with accept_loss to go on without them",
			lost, was.First, was.Last, now.First, now.Last),
	}
	s.metrics.lost.Add(float64(lost))
	switch {
	case s.options.AcceptLoss:
		s.log.Error("going on in spite of a loss, as told", "err", err)
	case boot != "" && boot != s.options.Boot:
		s.log.Error("MQTT messages or sessions are lost, as a power cut does it to what is not synced to disk; if there was none, the disk is damaged", "err", err)
	default:
		return err
	}
	return nil
}
