package app

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/aibridge/aibridge/internal/backup"
	"github.com/aibridge/aibridge/internal/evidence"
	"github.com/aibridge/aibridge/internal/natsd"
	"github.com/aibridge/aibridge/internal/store"
	"github.com/aibridge/aibridge/security/audit"
	"github.com/aibridge/aibridge/security/pki"
)

// ErrRunning reports that a bridge works on the data folder.
var ErrRunning = natsd.ErrInUse

// Backup writes everything the bridge with this configuration knows, and
// returns what that is in a few words. Claims of an embedded state are in it, as
// they are in the log of the audit trail.
//
// It fails with [ErrRunning] if a bridge works on an embedded state: that
// makes backups of itself, see [backup.Service].
func Backup(ctx context.Context, config Config, w io.Writer, options backup.Options) (summary string, err error) {
	err = withStore(ctx, config, func(s *store.Store) (err error) {
		return withEvidence(config, s, readEvidence(config), func(*evidence.Log) error {
			summary, err = backup.Write(ctx, s, config.Places(), w, options)
			return err
		})
	})
	return summary, err
}

// Restore fills the state and the data folder from a backup. It refuses to
// touch what holds something, unless force is set.
func Restore(ctx context.Context, config Config, r io.Reader, force bool) (summary string, err error) {
	err = withStore(ctx, config, func(s *store.Store) (err error) {
		write := func() (*evidence.Log, error) { return openEvidence(config, config.Log.Logger(os.Stderr), nil) }
		return withEvidence(config, s, write, func(*evidence.Log) error {
			summary, err = backup.Restore(ctx, s, config.Places(), r, force)
			return err
		})
	})
	return summary, err
}

// VerifyAudit checks the audit trail in the data folder of a bridge that is
// not running. Head is what an earlier verification ended with, "" for nothing.
func VerifyAudit(ctx context.Context, config Config, head string) (report audit.Report, err error) {
	var noted audit.Head
	if head != "" {
		if noted, err = audit.ParseHead(head); err != nil {
			return report, err
		}
	}
	secret, err := os.ReadFile(filepath.Join(config.Data, auditKeyFile))
	if err != nil {
		return report, fmt.Errorf("key of the audit trail: %w", err)
	}
	err = withStore(ctx, config, func(s *store.Store) error {
		return withEvidence(config, s, readEvidence(config), func(local *evidence.Log) error {
			options, err := auditOptions(ctx, s, local, config, secret)
			if err == nil && options.Log == nil {
				options.Log, err = earlierTrail(ctx, s, config)
			}
			if err == nil {
				report, err = audit.VerifyLog(ctx, options, noted)
			}
			return err
		})
	})
	return report, err
}

// earlierTrail is the trail in the embedded NATS of a bridge of which no later
// version has run, nil if there is none.
func earlierTrail(ctx context.Context, s *store.Store, config Config) (audit.RemoteLog, error) {
	if there, err := s.HasAuditLog(ctx, config.ID); !there || err != nil {
		return nil, err
	}
	log, err := s.OpenAuditLog(ctx, config.ID)
	if err != nil {
		return nil, err
	}
	return auditLog{log}, nil
}

// readEvidence opens the log of evidence to read it.
func readEvidence(config Config) func() (*evidence.Log, error) {
	return func() (*evidence.Log, error) { return evidence.OpenReader(evidenceDir(config)) }
}

// withStore opens the store of a bridge that does not run.
func withStore(ctx context.Context, config Config, do func(*store.Store) error) error {
	if err := os.MkdirAll(config.Data, 0o700); err != nil {
		return err
	}
	log := config.Log.Logger(os.Stderr)
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

// DescribeCertificate says as JSON what a certificate in PEM says about
// itself.
func DescribeCertificate(text []byte) (json.RawMessage, error) {
	described, err := pki.Describe(text)
	if err != nil {
		return nil, err
	}
	return json.Marshal(described)
}
