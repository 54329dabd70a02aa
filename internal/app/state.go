package app

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/aibridge/aibridge/internal/claimlog"
	"github.com/aibridge/aibridge/internal/natsd"
	"github.com/aibridge/aibridge/internal/store"
)

// connect reaches the NATS that holds the state: the embedded one, or the one
// that is configured.
func connect(config Config, log *slog.Logger) (*natsd.Server, error) {
	if config.NATS.URL != "" {
		return natsd.Connect(natsd.ExternalOptions{
			URL:         config.NATS.URL,
			Name:        config.ID,
			Credentials: config.NATS.Credentials,
			CA:          config.NATS.CA,
			Cert:        config.NATS.Cert,
			Key:         config.NATS.Key,
			Log:         log,
		})
	}
	return natsd.Start(natsd.Options{
		Dir:        filepath.Join(config.Data, "nats"),
		SyncAlways: config.Sync == "always",
		Log:        log,
	})
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
	if config.Sync == "always" || config.NATS.URL != "" {
		return ""
	}
	return natsd.Boot()
}

// openClaimLog opens the files of claims. The embedded NATS, started before,
// keeps other processes off them.
func openClaimLog(config Config, log *slog.Logger, metrics prometheus.Registerer) (*claimlog.Log, error) {
	return claimlog.Open(filepath.Join(config.Data, "claims"), claimlog.Options{
		SyncAlways: config.Sync == "always",
		Log:        log,
		Registerer: metrics,
	})
}

func withStore(ctx context.Context, config Config, do func(*store.Store) error) error {
	if err := os.MkdirAll(config.Data, 0o700); err != nil {
		return err
	}
	log := newLogger(config.Log, os.Stderr)
	nats, err := connect(config, log)
	if err != nil {
		return err
	}
	defer nats.Close()
	s, err := openStore(ctx, nats, config, log, nil)
	if err != nil {
		return err
	}
	defer s.Close()
	return do(s)
}
