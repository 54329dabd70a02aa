// Package storage holds the stored state of a bridge: NATS with the records of the bridges that
// share it, the store, and the log of evidence. A serving bridge opens it with [Open]; the
// functions for a bridge at rest, such as [Backup], are for tools.
package storage

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/aibridge/aibridge/cluster"
	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/commands/status"
	"github.com/aibridge/aibridge/internal/clock"
	"github.com/aibridge/aibridge/internal/config"
	"github.com/aibridge/aibridge/internal/evidence"
	"github.com/aibridge/aibridge/internal/lifecycle"
	"github.com/aibridge/aibridge/internal/natsd"
	"github.com/aibridge/aibridge/internal/store"
	"github.com/aibridge/aibridge/protocol"
)

// Options are the needs of [Open].
type Options struct {
	Config  config.Config
	Version string // of the program
	Newer   int    // see [cluster.Options]
	Clock   *clock.Clock
	Log     *slog.Logger
	Metrics prometheus.Registerer
	Life    *lifecycle.Lifecycle // gets everything that has to be closed

	Full    func() error // reports a disk without room
	Budget  store.Budget
	Waiting func(reason string)         // is called while the bridge may not serve yet
	Serving func(context.Context) error // is called once it may

	told string // the reason of a wait that the log has
}

// Storage is the open storage of a serving bridge.
type Storage struct {
	NATS    *natsd.Server
	Members *cluster.Membership
	Store   *store.Store

	Evidence *evidence.Log // claims and entries of the audit trail
	Claims   commands.Claims

	config  config.Config
	payload atomic.Int64 // the largest message of NATS, as last seen
	log     *slog.Logger
}

// Open opens the stored state of the bridge. It waits for NATS, and as a standby
// until no other bridge serves.
func Open(ctx context.Context, o Options) (*Storage, error) {
	nats, err := o.reach(ctx)
	if err != nil {
		return nil, err
	}
	o.Life.Add("nats", func(context.Context) error { nats.Close(); return nil })
	o.Metrics.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "aibridge_store_reopened_total",
		Help: "Times an embedded server was opened anew because its files had failed.",
	}, func() float64 { return float64(nats.Reopened()) }))
	if err := o.form(ctx, nats); err != nil {
		return nil, err
	}
	members, err := o.join(ctx, nats)
	if err != nil {
		return nil, err
	}
	if err := o.Serving(ctx); err != nil {
		return nil, err
	}
	s := &Storage{NATS: nats, Members: members, config: o.Config, log: o.Log}
	s.payload.Store(nats.State().MaxPayload())
	return s, s.open(ctx, o)
}

// open opens the store and the log of evidence.
func (s *Storage) open(ctx context.Context, o Options) (err error) {
	s.Store, err = OpenStore(ctx, s.NATS, o.Config, o.Log, func(so *store.Options) {
		so.Full, so.Budget, so.Registerer = o.Full, o.Budget, o.Metrics
		if s.Members.Shared() {
			so.Fence, so.Sure = true, s.Members.Sure
		}
		if s.Members.Working() == cluster.All {
			so.Node = o.Config.ID
		}
	})
	if err != nil {
		return err
	}
	o.Life.Add("store", func(context.Context) error { s.Store.Close(); return nil })
	s.Evidence, err = OpenEvidence(o.Config, o.Log, o.Metrics)
	if err != nil {
		return err
	}
	o.Life.Add("evidence", func(context.Context) error { return s.Evidence.Close() })
	s.Claims, err = s.openClaims(ctx, o)
	return err
}

// openClaims chooses the place of claims. A bridge that has its state to itself
// keeps them in its log, which is much quicker; one on an external NATS keeps them
// there, where a standby that takes over sees them.
func (s *Storage) openClaims(ctx context.Context, o Options) (commands.Claims, error) {
	switch {
	case s.Members.Working() == cluster.All && s.Members.Shared():
		return s.Store.ShareClaims(s.Members.Self().String(), s.alive), nil
	case o.Config.Shared():
		return s.Store.Claims(), nil
	}
	s.Store.UseTrail(o.Config.ID, s.Evidence)
	return s.Evidence, s.adoptEarlier(ctx, o.Config)
}

// alive reports whether a process of the cluster lives, as far as this one knows.
func (s *Storage) alive(owner string) bool {
	n, err := cluster.ParseNode(owner)
	return err == nil && s.Members.Alive(n)
}

// leaveTimeout bounds the time in which a bridge that has to end at once notifies the
// others.
const leaveTimeout = time.Second

// Ended waits for a reason to end at once: the state cannot be opened any more,
// or is another bridge's by now. It is nil when ctx ends first.
func (s *Storage) Ended(ctx context.Context) error {
	var err error
	select {
	case err = <-s.NATS.Failed():
		err = protocol.Wrap(protocol.StoreUnavailable, err, err.Error())
	case err = <-s.Members.Lost():
	case err = <-s.Store.Fenced():
	case <-ctx.Done():
		return nil
	}
	s.log.Error("the bridge ends", "error", err)
	if verdict := (*cluster.Verdict)(nil); !errors.As(err, &verdict) { // else the others know
		leaving, done := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
		defer done()
		if err := s.Members.Leave(leaving); err != nil {
			s.log.Warn("the others will find out that this bridge has ended", "error", err)
		}
	}
	s.NATS.Cut() // all later writes are another bridge's
	return err
}

// Checks are the parts of the storage that a bridge cannot serve without.
func (s *Storage) Checks() []status.Check {
	checks := []status.Check{{Name: "nats", Check: s.checkNATS}, {Name: "store", Check: s.Store.Check}}
	if s.Members.Shared() {
		checks = append([]status.Check{{Name: "lease", Check: s.Members.Check}}, checks...)
	}
	if log, ok := s.Claims.(interface{ Check() error }); ok {
		checks = append(checks, status.Check{Name: "claims", Check: log.Check})
	}
	return checks
}

// Cluster is the bridge's place among those that share its state.
func (s *Storage) Cluster(c *config.Config) status.Cluster {
	place := c.Place()
	if s.Members.Shared() {
		place.Epoch = s.Members.Self().Epoch
	}
	place.Working = c.Cluster.Working
	return place
}

func (s *Storage) checkNATS() error {
	if err := s.NATS.Check(); err != nil {
		return protocol.Wrap(protocol.StoreUnavailable, err,
			"the state is not stored: the disk fails, or has no room; what changes something is refused until it is opened anew")
	}
	return s.checkPayload()
}
