package app

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/diskspace"
	"github.com/aibridge/aibridge/internal/evidence"
	"github.com/aibridge/aibridge/internal/natsd"
	"github.com/aibridge/aibridge/internal/store"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/security/quota"
)

// The stored is the store of a bridge that works, and the hold on it.
type stored struct {
	nats  *natsd.Server
	lease *store.Lease // nil if no other bridge can have it
	store *store.Store

	evidence *evidence.Log // claims and entries of the audit trail
	claims   commands.Claims
}

// openStored opens what the bridge has stored. It waits for NATS, and as a
// standby until no other bridge works.
func openStored(ctx context.Context, b *base, e *entrance, disk *diskspace.Watch, quotas *quota.Keeper) (*stored, error) {
	nats, err := reach(ctx, b, e)
	if err != nil {
		return nil, err
	}
	b.life.Add("nats", func(context.Context) error { nats.Close(); return nil })
	b.metrics.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "aibridge_store_reopened_total",
		Help: "Times an embedded server was opened anew because its files had failed.",
	}, func() float64 { return float64(nats.Reopened()) }))
	lease, err := takeLease(ctx, b, e, nats)
	if err != nil {
		return nil, err
	}
	if err := e.sockets.StepForward(ctx); err != nil {
		return nil, err
	}
	db, err := openStore(ctx, nats, b.config, b.log, func(o *store.Options) {
		o.Fence, o.Full, o.Budget, o.Registerer = lease != nil, disk.Check, quotas.Records(), b.metrics
	})
	if err != nil {
		return nil, err
	}
	b.life.Add("store", func(context.Context) error { db.Close(); return nil })
	local, err := openEvidence(b.config, b.log, b.metrics)
	if err != nil {
		return nil, err
	}
	b.life.Add("evidence", func(context.Context) error { return local.Close() })
	claims, err := openClaims(ctx, b, db, local)
	return &stored{nats, lease, db, local, claims}, err
}

// openClaims chooses where claims are kept. A bridge that has its state to
// itself keeps them in its log, which is much quicker; one on an external NATS
// keeps them there, where a standby that takes over sees them.
func openClaims(ctx context.Context, b *base, db *store.Store, local *evidence.Log) (commands.Claims, error) {
	if b.config.NATS.External() {
		return db.Claims(), nil
	}
	db.UseTrail(b.config.ID, local)
	return local, adoptEarlier(ctx, b, db, local)
}

// ended waits for a reason to end at once: the state cannot be opened any more,
// or is another bridge's by now. It is nil when ctx ends first.
func ended(ctx context.Context, b *base, s *stored) error {
	var lost <-chan error
	if s.lease != nil {
		lost = s.lease.Lost()
	}
	var err error
	select {
	case err = <-s.nats.Failed():
		err = protocol.Wrap(protocol.StoreUnavailable, err, err.Error())
	case err = <-lost:
	case err = <-s.store.Fenced():
	case <-ctx.Done():
		return nil
	}
	b.log.Error("the bridge ends", "error", err)
	s.nats.Cut() // whatever is stored from now on is somebody else's
	return err
}
