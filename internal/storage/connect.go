package storage

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/aibridge/aibridge/internal/config"
	"github.com/aibridge/aibridge/internal/natsd"
	"github.com/aibridge/aibridge/internal/store"
	"github.com/aibridge/aibridge/protocol"
)

// Connect reaches the NATS that holds the state: the embedded one, alone or as a
// member of a cluster, or the one that is configured.
func Connect(c config.Config, log *slog.Logger) (*natsd.Server, error) {
	if c.Cluster.Formed() {
		return startMember(c, log)
	}
	if at, err := movedTo(c); err != nil || at != "" {
		return nil, errors.Join(err, fmt.Errorf("the state in %s was moved %s: set cluster.join again, or remove the folder to begin with nothing", aloneDir(c), at))
	}
	return c.NATS.Open(c.ID, natsd.Options{Dir: aloneDir(c), SyncAlways: c.Sync == "always", Log: log})
}

// OpenStore opens the store, with the options that only a serving bridge
// has, nil for none. NATS in this process answers as soon as the disk does: a write
// is not given up before its waiting caller.
func OpenStore(ctx context.Context, nats *natsd.Server, c config.Config, log *slog.Logger, serving func(*store.Options)) (*store.Store, error) {
	options := store.Options{
		Prefix:     c.Root,
		Replicas:   c.Replicas(),
		AcceptLoss: c.AcceptLoss,
		Boot:       bootThatMayLose(c),
		Log:        log,
	}
	if !c.Shared() {
		options.WriteTimeout = protocol.DefaultTimeout
	}
	if serving != nil {
		serving(&options)
	}
	return store.Open(ctx, store.Conns{State: nats.State(), Flow: nats.Flow()}, options)
}

// bootThatMayLose is the run of the machine with whose end acknowledged messages
// may be lost; "" if they never are, or if NATS is on another machine.
func bootThatMayLose(c config.Config) string {
	if c.Sync == "always" || c.Shared() {
		return ""
	}
	return natsd.Boot()
}
