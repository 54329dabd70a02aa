package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nuid"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/aibridge/aibridge/protocol"
)

// Conns are the connections to NATS. Both may be the same.
type Conns struct {
	State *nats.Conn // for data that must survive a power cut
	Flow  *nats.Conn // for data that must survive a crash of the process
}

// Options configure a [Store]. The zero value is usable.
type Options struct {
	Prefix   string // of the streams' names, so that bridges can share a NATS; default "aibridge"
	Replicas int    // copies of every stream in a NATS cluster, default 1

	WriteTimeout time.Duration // bounds a write whose context does not, default 5 s
	LoadTimeout  time.Duration // bounds Open, and the time of Load without progress, default 60 s

	// ClaimLife is the time that a claim may matter at most: the longest timeout
	// of a request and twice the allowed clock skew. Default 12 min.
	ClaimLife time.Duration
	// ClaimBytes bounds what the claims take on disk, default 1 GiB, of which
	// nothing is reserved. When they would take more, claiming fails with 5001.
	ClaimBytes int64

	// Fence has the store fence off an earlier process, which may still run
	// unaware, from the logs and claims: for the holder of a [Lease].
	Fence bool

	// Node is the bridge whose journal and claims are used, where each of several
	// active bridges has its own; "" where one bridge is active at a time, and each
	// takes over those of the one before.
	Node string
	// Sure returns nil once this bridge cannot have been declared dead, or the
	// reason to doubt that when ctx ends; optional. Nothing durable is written
	// before.
	Sure func(ctx context.Context) error
	// Full fails if no new records may be stored; optional. Existing records can be
	// changed and removed all the same, and tables that are [Table.Essential] take
	// everything.
	Full func() error

	// Budget bounds how many records each party has; nil bounds nothing.
	Budget Budget

	// AcceptLoss loads a registry or a journal although some of it is lost.
	// Without it, Load fails, so that one can look for a backup first.
	AcceptLoss bool

	// Boot names the present run of the machine if what the flow connection
	// acknowledges may be lost when that ends, as a power cut does it. A loss that
	// is found in another run is then logged and accepted. "" means that nothing
	// acknowledged is ever lost.
	Boot string

	Log        *slog.Logger
	Registerer prometheus.Registerer // nil keeps the metrics unregistered
}

func (o *Options) defaults() error {
	if o.Prefix == "" {
		o.Prefix = "aibridge"
	}
	if !prefixRule.MatchString(o.Prefix) {
		return fmt.Errorf("store: the prefix %q must match %s", o.Prefix, prefixRule)
	}
	if o.Replicas == 0 {
		o.Replicas = 1
	}
	if o.WriteTimeout == 0 {
		o.WriteTimeout = 5 * time.Second
	}
	if o.LoadTimeout == 0 {
		o.LoadTimeout = 60 * time.Second
	}
	if o.ClaimLife == 0 {
		o.ClaimLife = 12 * time.Minute
	}
	if o.ClaimBytes == 0 {
		o.ClaimBytes = 1 << 30
	}
	if o.Full == nil {
		o.Full = func() error { return nil }
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return nil
}

// Prefixes and tables are parts of NATS's names and subjects.
var (
	prefixRule = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`)
	tableRule  = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,31}$`)
)

// A Store is the bridge's durable state. Declare its tables with [NewTable],
// then [Store.Load] it, then use it.
type Store struct {
	options Options
	trail   LocalTrail // kept beside the store; optional
	trailOf string     // whose it is
	id      string     // of the process, as it were
	log     *slog.Logger
	state   *connection
	flow    *connection
	names   names
	metrics *metrics
	view    *view
	pulse   pulse
	probes  *Table[probe]
	claims  *Claims
	batches chan struct{} // holds a token for every atomic batch under way
	loading progress
	catchUp catchUp

	run    context.Context // ends with Close
	cancel context.CancelFunc
	wait   sync.WaitGroup
	loaded atomic.Bool
	fenced chan error
	err    error // the first wrong declaration
}

// Open makes the streams that are missing and returns the store, empty until
// it is loaded.
func Open(ctx context.Context, conns Conns, options Options) (*Store, error) {
	if err := options.defaults(); err != nil {
		return nil, err
	}
	run, cancel := context.WithCancel(context.Background())
	s := &Store{
		options: options,
		id:      nuid.Next(),
		log:     options.Log,
		names:   newNames(options.Prefix, options.Node),
		batches: make(chan struct{}, maxBatches),
		fenced:  make(chan error, 1),
		run:     run,
		cancel:  cancel,
	}
	s.view, s.pulse.store = newView(s), s
	s.probes = NewTable[probe](s, "probe").Essential()
	s.metrics = newMetrics(s.view)
	if err := s.metrics.register(options.Registerer); err != nil {
		cancel()
		return nil, fmt.Errorf("store: register metrics: %w", err)
	}
	s.state = newConnection(conns.State)
	s.flow = s.state
	if conns.Flow != conns.State {
		s.flow = newConnection(conns.Flow)
	}
	s.claims = newClaims(s)

	ctx, done := context.WithTimeout(ctx, options.LoadTimeout)
	defer done()
	if err := s.makeStreams(ctx); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Load brings the tables into memory and returns when they are complete,
// however long that takes. It fails without progress for [Options.LoadTimeout],
// when ctx ends, and when something stored cannot be read; the error names it.
func (s *Store) Load(ctx context.Context) error {
	if s.err != nil {
		return s.err
	}
	if s.loaded.Swap(true) {
		return errors.New("store: loaded twice")
	}
	ctx, done := s.loading.watch(ctx, s.options.LoadTimeout)
	defer done()
	both, ctx := errgroup.WithContext(ctx)
	both.Go(func() error { return s.view.start(ctx) })
	both.Go(func() error { return s.claims.load(ctx) })
	if err := both.Wait(); err != nil {
		return err
	}
	s.wait.Go(s.keepTally)
	s.wait.Go(s.pulse.beat)
	return nil
}

// Check returns the reason why the store does not work properly at the moment: NATS is
// away, the view is not up to date, something stored cannot be read, or a stream does not
// answer or did not take its last write. It is nil when all is well.
func (s *Store) Check() error {
	switch {
	case !s.state.current().isUp() || !s.flow.current().isUp():
		return errNotConnected
	case !s.view.current.Load():
		return errors.New("the view of the registry is not up to date")
	}
	if damage := s.view.damage.Load(); damage != nil {
		return damage
	}
	return s.pulse.check()
}

// Fenced yields an error when another process writes in this one's place: this one
// stores nothing there any more, and should end.
func (s *Store) Fenced() <-chan error { return s.fenced }

// fence notes that another process writes to a stream, and returns the error for
// the writes that failed because of that.
func (s *Store) fence(stream string) error {
	s.metrics.fenced.WithLabelValues(whyTaken).Inc()
	err := protocol.Errorf(protocol.StoreUnavailable, "another bridge writes to stream %s", stream)
	select {
	case s.fenced <- err:
	default:
	}
	return err
}

// usable returns when the store can be written, or with the reason why not at the
// end of ctx.
func (s *Store) usable(ctx context.Context) error {
	switch {
	case s.run.Err() != nil:
		return protocol.Errorf(protocol.ShuttingDown, "the store is closed")
	case !s.loaded.Load():
		return errors.New("store: written to before it was loaded")
	}
	return s.sure(ctx)
}

// sure returns once this bridge is sure to be a member of its cluster, after
// [Options.WriteTimeout] at most.
func (s *Store) sure(ctx context.Context) error {
	if s.options.Sure == nil {
		return nil
	}
	ctx, cancel := bounded(ctx, s.options.WriteTimeout)
	defer cancel()
	err := s.options.Sure(ctx)
	if err != nil {
		s.metrics.fenced.WithLabelValues(whyUnsure).Inc()
	}
	return err
}

// Close stops following. Writes under way are failed. It does not close the
// connections.
func (s *Store) Close() {
	s.cancel()
	s.wait.Wait()
	s.state.close()
	if s.flow != s.state {
		s.flow.close()
	}
	s.metrics.unregister(s.options.Registerer)
}

// declare records a table before the store is loaded, or returns why it cannot. Load
// returns that, too.
func (s *Store) declare(t follower) error {
	var err error
	switch {
	case s.loaded.Load():
		err = fmt.Errorf("store: table %q declared after loading", t.name())
	case !tableRule.MatchString(t.name()):
		err = fmt.Errorf("store: table name %q must match %s", t.name(), tableRule)
	case s.view.tables[t.name()] != nil:
		err = fmt.Errorf("store: table %q declared twice", t.name())
	default:
		s.view.tables[t.name()] = t
	}
	if s.err == nil {
		s.err = err
	}
	return err
}
