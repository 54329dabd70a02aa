package app

import (
	"context"
	"log/slog"
	"path/filepath"

	"github.com/aibridge/aibridge/internal/natsd"
	"github.com/aibridge/aibridge/internal/store"
)

// connect reaches the NATS that holds the state: the embedded one, or the one
// that is configured.
func connect(config Config, log *slog.Logger) (*natsd.Server, error) {
	return config.NATS.Open(config.ID, natsd.Options{Dir: filepath.Join(config.Data, "nats"), SyncAlways: config.Sync == "always", Log: log})
}

// openStore opens the store, with options of a bridge that works where there
// are any.
func openStore(ctx context.Context, nats *natsd.Server, config Config, log *slog.Logger, working func(*store.Options)) (*store.Store, error) {
	options := store.Options{
		Prefix:     config.Root,
		Replicas:   config.NATS.Replicas,
		AcceptLoss: config.AcceptLoss,
		Boot:       bootThatMayLose(config),
		Log:        log,
	}
	if working != nil {
		working(&options)
	}
	return store.Open(ctx, store.Conns{State: nats.State(), Flow: nats.Flow()}, options)
}

// bootThatMayLose is the run of the machine with whose end acknowledged messages
// may be lost; "" if they never are, or that is for another machine to say.
func bootThatMayLose(config Config) string {
	if config.Sync == "always" || config.NATS.External() {
		return ""
	}
	return natsd.Boot()
}
