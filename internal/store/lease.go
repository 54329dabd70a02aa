package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/aibridge/aibridge/protocol"
)

// LeaseOptions say who asks for a [Lease].
type LeaseOptions struct {
	Prefix   string // of the streams' names, as in [Options]
	Replicas int    // copies of the lease's stream, default 1
	Holder   string // id of the bridge, which others are told

	// Waiting is called once when another bridge has the lease, with its id;
	// optional.
	Waiting func(holder string)
	Log     *slog.Logger

	renew time.Duration // between renewals; tests make it small
}

// How a lease is kept and lost, in renewals. Nothing is measured by a clock of
// NATS's, and nobody ends by a timer: while the cluster elects a leader, which
// takes seconds, no renewal is confirmed and nobody's silence counts.
const (
	renewEvery   = 300 * time.Millisecond
	silentAfter  = 10 // renewals missed while one's own were confirmed, after which a holder counts as dead
	countedApart = 3  // renewals that one's own may be apart for the silence between them to count
	unsureAfter  = 8  // renewals without confirmation, after which a holder says so
)

func (o *LeaseOptions) defaults() {
	if o.Prefix == "" {
		o.Prefix = "aibridge"
	}
	if o.Replicas == 0 {
		o.Replicas = 1
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.renew == 0 {
		o.renew = renewEvery
	}
	if o.Waiting == nil {
		o.Waiting = func(string) {}
	}
}

// A leaseRecord is the message in the lease's stream.
type leaseRecord struct {
	Version  int    `json:"v"`
	Epoch    uint64 `json:"epoch"`    // higher with every holder
	Holder   string `json:"holder"`   // id of the bridge
	Instance string `json:"instance"` // of its process
	Renewals uint64 `json:"renewals"`
	Released bool   `json:"released,omitempty"` // the holder has ended
}

const leaseSchema = 1

// A Lease says that one bridge of those that share a NATS and a root is the one
// that works. The others wait.
//
// It is a record that its holder renews by compare-and-set on the last
// revision. A waiting bridge counts how long the holder was silent, between its
// own writes that were confirmed less than a second apart, and after three
// seconds takes the lease with the next epoch. The holder that is refused then,
// whatever kept it, has lost it and must end.
type Lease struct {
	o        LeaseOptions
	nc       *connection
	stream   string
	subject  string // of the record
	presence string // of those who wait, each with its own
	instance string

	mine      leaseRecord
	revision  uint64
	confirmed atomic.Int64 // when a renewal was confirmed last, since started
	started   time.Time

	gone atomic.Bool // it is lost
	lost chan error
	stop context.CancelFunc
	done sync.WaitGroup
}

// AcquireLease returns the lease, once nobody else has it.
func AcquireLease(ctx context.Context, conn *nats.Conn, o LeaseOptions) (*Lease, error) {
	o.defaults()
	if !prefixRule.MatchString(o.Prefix) {
		return nil, fmt.Errorf("store: the prefix %q must match %s", o.Prefix, prefixRule)
	}
	l := &Lease{
		o:        o,
		nc:       newConnection(conn),
		stream:   o.Prefix + "-lease",
		subject:  o.Prefix + ".lease.holder",
		presence: o.Prefix + ".lease.waiting.",
		instance: nuid.Next(),
		started:  time.Now(),
		lost:     make(chan error, 1),
	}
	if err := l.acquire(ctx); err != nil {
		l.nc.close()
		return nil, err
	}
	run, stop := context.WithCancel(context.Background())
	l.stop = stop
	l.done.Go(func() { l.keep(run) })
	return l, nil
}

// Epoch is higher than that of every holder before.
func (l *Lease) Epoch() uint64 { return l.mine.Epoch }

// Lost yields why the lease is another bridge's now, when that is so.
func (l *Lease) Lost() <-chan error { return l.lost }

// Check says why nobody can be sure that the lease is still held, nil if it is:
// NATS has not confirmed a renewal for more than two seconds.
func (l *Lease) Check() error {
	silent := time.Since(l.started) - time.Duration(l.confirmed.Load())
	if silent < unsureAfter*l.o.renew {
		return nil
	}
	return protocol.Errorf(protocol.StoreUnavailable, "NATS has not confirmed for %v that this bridge is the one that works", silent.Round(100*time.Millisecond))
}

// Release gives the lease to whoever waits for it, at once. It is tried again,
// when NATS does not confirm it, for as long as nobody takes over unasked.
func (l *Lease) Release(ctx context.Context) error {
	l.stop()
	l.done.Wait()
	defer l.nc.close()
	if l.gone.Load() { // there is nothing to give
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, silentAfter*l.o.renew)
	defer cancel()
	l.mine.Released = true
	for {
		err := l.renew(ctx)
		if err == nil || errors.Is(err, errConflict) && l.verdict(ctx) != nil {
			return nil
		}
		select {
		case <-time.After(l.o.renew):
		case <-ctx.Done():
			return err
		}
	}
}

// acquire makes the stream and waits for the lease.
func (l *Lease) acquire(ctx context.Context) error {
	tick := time.NewTicker(l.o.renew)
	defer tick.Stop()
	for err := l.open(ctx); err != nil; err = l.open(ctx) {
		if !passing(err) {
			return err
		}
		l.o.Log.Warn("NATS does not make streams yet", "error", err)
		select {
		case <-time.After(10 * l.o.renew):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	watch := vigil{lease: l}
	for told := false; ; {
		held, revision, err := l.look(ctx)
		switch {
		case err != nil:
			l.o.Log.Debug("the lease cannot be read", "error", err)
		case held != nil && held.Instance == l.instance: // the acknowledgement was lost
			l.mine, l.revision = *held, revision
			return nil
		case held == nil || held.Released || watch.silent(ctx, revision):
			if err := l.take(ctx, held, revision); err == nil {
				return nil
			} else if ctx.Err() == nil {
				l.o.Log.Debug("the lease is not to be had", "error", err)
			}
		case held.Version > leaseSchema:
			return fmt.Errorf("store: the lease was written by a newer bridge: version %d", held.Version)
		case !told:
			told = true
			l.o.Waiting(held.Holder)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// open makes the stream.
func (l *Lease) open(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	return makeStream(ctx, l.nc.conn, jetstream.StreamConfig{
		Name:              l.stream,
		Description:       "AI Bridge: which of the bridges is the one that works",
		Subjects:          []string{l.subject, l.presence + "*"},
		MaxMsgsPerSubject: 1,
		Storage:           jetstream.FileStorage,
		Replicas:          l.o.Replicas,
		AllowMsgTTL:       true, // for those who wait
	})
}

// passing reports whether NATS could not answer, as it cannot while the servers
// of a cluster start or choose who leads.
func passing(err error) bool {
	var api *jetstream.APIError
	switch {
	case errors.As(err, &api):
		return api.Code == http.StatusServiceUnavailable
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrTimeout), errors.Is(err, nats.ErrNoResponders),
		errors.Is(err, nats.ErrDisconnected), errors.Is(err, nats.ErrReconnectBufExceeded):
		return true
	}
	return false
}

// attempt bounds one request to NATS.
func (l *Lease) attempt(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, countedApart*l.o.renew)
}

// look reads the record; nil if there is none.
func (l *Lease) look(ctx context.Context) (*leaseRecord, uint64, error) {
	ctx, cancel := l.attempt(ctx)
	defer cancel()
	m, err := lastMessage(ctx, l.nc, l.stream, l.subject)
	if err != nil || m == nil {
		return nil, 0, err
	}
	r := new(leaseRecord)
	if err := json.Unmarshal(m.Data, r); err != nil {
		return nil, 0, &integrityError{subject: l.stream, revision: m.Sequence, err: err}
	}
	return r, m.Sequence, nil
}

// take writes a record of one's own over the present one.
func (l *Lease) take(ctx context.Context, before *leaseRecord, revision uint64) error {
	l.mine = leaseRecord{Version: leaseSchema, Epoch: 1, Holder: l.o.Holder, Instance: l.instance}
	if before != nil {
		l.mine.Epoch = before.Epoch + 1
		if !before.Released {
			l.o.Log.Warn("the bridge that worked is silent: this one takes over", "silent", before.Holder, "epoch", l.mine.Epoch)
		}
	}
	l.revision = revision
	return l.renew(ctx)
}

// renew writes the record, over the one that was written last.
func (l *Lease) renew(ctx context.Context) error {
	ctx, cancel := l.attempt(ctx)
	defer cancel()
	l.mine.Renewals++
	data, err := json.Marshal(l.mine)
	if err != nil {
		return err
	}
	ack, err := storeMessage(ctx, l.nc, &nats.Msg{
		Subject: l.subject,
		Header:  nats.Header{jetstream.ExpectedLastSubjSeqHeader: {strconv.FormatUint(l.revision, 10)}},
		Data:    data,
	})
	if err != nil {
		return err
	}
	l.revision = ack.Sequence
	l.confirmed.Store(int64(time.Since(l.started)))
	return nil
}

// keep renews the lease until ctx ends or the lease is lost.
func (l *Lease) keep(ctx context.Context) {
	tick := time.NewTicker(l.o.renew)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		err := l.renew(ctx)
		if err != nil && ctx.Err() == nil {
			l.o.Log.Debug("the lease was not renewed", "error", err)
		}
		if errors.Is(err, errConflict) {
			if lost := l.verdict(ctx); lost != nil {
				l.gone.Store(true)
				l.lost <- lost
				return
			}
		}
	}
}

// verdict finds out why a renewal was refused: a renewal of one's own whose
// acknowledgement was lost has been stored, or the lease is another's.
func (l *Lease) verdict(ctx context.Context) error {
	held, revision, err := l.look(ctx)
	switch {
	case err != nil:
		return nil // the next renewal asks again
	case held == nil:
		l.revision = 0
		return nil
	case held.Instance == l.instance && held.Epoch == l.mine.Epoch:
		l.revision = revision
		return nil
	}
	return protocol.Errorf(protocol.StoreUnavailable,
		"bridge %q has taken over (epoch %d): this one did not renew its lease in time, and ends", held.Holder, held.Epoch)
}

// A vigil counts how long the holder of a lease was silent while others were
// heard.
type vigil struct {
	lease    *Lease
	revision uint64    // that the holder wrote last
	heard    time.Time // when a write of one's own was confirmed last
	silence  time.Duration
}

// silent writes something of one's own, and reports whether the holder, which
// was at a revision just now, was silent for too long.
func (v *vigil) silent(ctx context.Context, revision uint64) bool {
	now, err := v.write(ctx)
	switch apart := now.Sub(v.heard); {
	case revision != v.revision:
		v.revision, v.silence = revision, 0
	case err == nil && apart <= countedApart*v.lease.o.renew:
		v.silence += apart
	}
	if err == nil {
		v.heard = now
	}
	return v.silence > silentAfter*v.lease.o.renew
}

// write proves that the stream takes writes.
func (v *vigil) write(ctx context.Context) (time.Time, error) {
	l := v.lease
	ctx, cancel := l.attempt(ctx)
	defer cancel()
	_, err := storeMessage(ctx, l.nc, &nats.Msg{
		Subject: l.presence + l.instance,
		Header:  nats.Header{jetstream.MsgTTLHeader: {"1m"}},
		Data:    []byte(l.o.Holder),
	})
	return time.Now(), err
}
