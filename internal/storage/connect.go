package storage

import (
	"context"
	"log/slog"
	"path/filepath"

	"github.com/aibridge/aibridge/internal/config"
	"github.com/aibridge/aibridge/internal/natsd"
	"github.com/aibridge/aibridge/internal/store"
	"github.com/aibridge/aibridge/protocol"
)

// Connect reaches the NATS that holds the state: the embedded one, or the one
// that is configured.
func Connect(c config.Config, log *slog.Logger) (*natsd.Server, error) {
	return c.NATS.Open(c.ID, natsd.Options{Dir: filepath.Join(c.Data, "nats"), SyncAlways: c.Sync == "always", Log: log})
}

// OpenStore opens the store, with the options that only a serving bridge
// has, nil for none. NATS in this process answers as soon as the disk does: a
// write is not given up before whoever waits for it.
func OpenStore(ctx context.Context, nats *natsd.Server, c config.Config, log *slog.Logger, serving func(*store.Options)) (*store.Store, error) {
	options := store.Options{
		Prefix:     c.Root,
		Replicas:   c.NATS.Replicas,
		AcceptLoss: c.AcceptLoss,
		Boot:       bootThatMayLose(c),
		Log:        log,
	}
	if !c.NATS.External() {
		options.WriteTimeout = protocol.DefaultTimeout
	}
	if serving != nil {
		serving(&options)
	}
	return store.Open(ctx, store.Conns{State: nats.State(), Flow: nats.Flow()}, options)
}

// bootThatMayLose is the run of the machine with whose end acknowledged messages
// may be lost; "" if they never are, or that is for another machine to say.
func bootThatMayLose(c config.Config) string {
	if c.Sync == "always" || c.NATS.External() {
		return ""
	}
	return natsd.Boot()
}
