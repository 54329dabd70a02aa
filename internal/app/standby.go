package app

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
func reach(ctx context.Context, b *base, e *entrance) (*natsd.Server, error) {
	for wait := firstConnectWait; ; wait = min(2*wait, lastConnectWait) {
		nats, err := connect(b.config, b.log)
		if !errors.Is(err, natsd.ErrAway) {
			return nats, err
		}
		if !e.sockets.SteppedBack() {
			e.sockets.StepBack("http")
			e.lobby.Waits("the bridge waits for NATS, which does not answer")
		}
		b.log.WarnContext(ctx, "NATS is away; the bridge waits for it", "error", err)
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// takeLease waits until no other bridge works on the same root of the same
// NATS. The embedded NATS needs no lease: its folder has one process.
func takeLease(ctx context.Context, b *base, e *entrance, nats *natsd.Server) (*store.Lease, error) {
	if !b.config.NATS.External() {
		return nil, nil
	}
	lease, err := store.AcquireLease(ctx, nats.State(), store.LeaseOptions{
		Prefix:   b.config.Root,
		Replicas: b.config.NATS.Replicas,
		Holder:   b.config.ID,
		Log:      b.log,
		Waiting: func(holder string) {
			e.sockets.StepBack("http")
			e.lobby.Waits(fmt.Sprintf("this bridge is a standby: %q serves %q and this one takes over when it ends", holder, b.config.Root))
			b.log.InfoContext(ctx, "waiting as a standby: another bridge serves the same root on the same NATS", "bridge", holder, "root", b.config.Root)
		},
	})
	if err != nil {
		return nil, err
	}
	b.log.InfoContext(ctx, "this bridge is the one that works", "root", b.config.Root, "epoch", lease.Epoch())
	b.life.Add("lease", lease.Release)
	return lease, nil
}
