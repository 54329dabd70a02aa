package storage

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aibridge/aibridge/internal/natsd"
	"github.com/aibridge/aibridge/internal/store"
)

const (
	firstConnectWait = 500 * time.Millisecond
	lastConnectWait  = 5 * time.Second
)

// reach reaches NATS. An external one that is away is waited for.
func (o *Options) reach(ctx context.Context) (*natsd.Server, error) {
	for wait := firstConnectWait; ; wait = min(2*wait, lastConnectWait) {
		nats, err := Connect(o.Config, o.Log)
		if !errors.Is(err, natsd.ErrAway) {
			return nats, err
		}
		o.Waiting("the bridge waits for NATS, which does not answer")
		o.Log.WarnContext(ctx, "NATS is away; the bridge waits for it", "error", err)
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// takeLease waits until no other bridge serves on the same root of the same
// NATS. The embedded NATS needs no lease: its folder has one process.
func (o *Options) takeLease(ctx context.Context, nats *natsd.Server) (*store.Lease, error) {
	if !o.Config.NATS.External() {
		return nil, nil
	}
	lease, err := store.AcquireLease(ctx, nats.State(), store.LeaseOptions{
		Prefix:   o.Config.Root,
		Replicas: o.Config.NATS.Replicas,
		Holder:   o.Config.ID,
		Log:      o.Log,
		Waiting: func(holder string) {
			o.Waiting(fmt.Sprintf("this bridge is a standby: %q serves %q and this one takes over when it ends", holder, o.Config.Root))
			o.Log.InfoContext(ctx, "waiting as a standby: another bridge serves the same root on the same NATS", "bridge", holder, "root", o.Config.Root)
		},
	})
	if err != nil {
		return nil, err
	}
	o.Log.InfoContext(ctx, "this bridge is the one that serves", "root", o.Config.Root, "epoch", lease.Epoch())
	o.Life.Add("lease", lease.Release)
	return lease, nil
}
