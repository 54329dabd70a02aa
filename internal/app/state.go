package app

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

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
			Log:         log,
		})
	}
	return natsd.Start(natsd.Options{
		Dir:        filepath.Join(config.Data, "nats"),
		SyncAlways: config.Sync == "always",
		Log:        log,
	})
}

func openStore(ctx context.Context, nats *natsd.Server, config Config, log *slog.Logger, metrics prometheus.Registerer) (*store.Store, error) {
	return store.Open(ctx, store.Conns{State: nats.State(), Flow: nats.Flow()}, store.Options{
		Prefix:     config.Root,
		Replicas:   config.NATS.Replicas,
		AcceptLoss: config.AcceptLoss,
		Log:        log,
		Registerer: metrics,
	})
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

// Backup writes everything the bridge with this configuration knows, and
// returns what that is in a few words. The claims of an embedded state are not
// in it: some minutes later they are of no use to anybody. The pepper of the API keys is not in
// it: whoever gets hold of a backup shall not be able to guess keys.
func Backup(ctx context.Context, config Config, w io.Writer) (summary string, err error) {
	err = withStore(ctx, config, func(s *store.Store) error {
		manifest, err := s.Backup(ctx, w)
		summary = describe(manifest)
		return err
	})
	return summary, err
}

// Restore fills the state from a backup. It refuses to touch a state that
// holds something, unless force is set.
func Restore(ctx context.Context, config Config, r io.Reader, force bool) (summary string, err error) {
	err = withStore(ctx, config, func(s *store.Store) error {
		manifest, err := s.Restore(ctx, r, force)
		summary = describe(manifest)
		return err
	})
	return summary, err
}

func describe(m *store.Manifest) string {
	if m == nil {
		return ""
	}
	what := fmt.Sprintf("%d registrations", m.Keys)
	if m.Claims > 0 {
		what += fmt.Sprintf(" and %d claims", m.Claims)
	}
	return what + ", as of " + m.Created.Local().Format(time.DateTime)
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
