package storage

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/aibridge/aibridge/internal/config"
	"github.com/aibridge/aibridge/internal/evidence"
	"github.com/aibridge/aibridge/internal/store"
	"github.com/aibridge/aibridge/security/audit"
)

// evidenceDir is the folder of the log of claims and entries of the audit trail.
func evidenceDir(c config.Config) string { return filepath.Join(c.Data, "evidence") }

// OpenEvidence opens the log of claims and entries of the audit trail. The
// embedded NATS, started before, keeps other processes off it. On an external
// NATS it has the entries that are not there yet.
func OpenEvidence(c config.Config, log *slog.Logger, metrics prometheus.Registerer) (*evidence.Log, error) {
	options := evidence.Options{
		SyncAlways:  c.Sync == "always",
		GroupBlocks: c.Shared(),
		AcceptLoss:  c.AcceptLoss,
		Log:         log,
		Registerer:  metrics,
	}
	if keep := int64(c.Audit.KeepMiB) << 20; keep > 0 {
		options.SegmentBytes = min(max(keep/16, 1<<20), 64<<20) // retention forgets segments
	}
	if options.GroupBlocks {
		options.SegmentBytes = 8 << 20
	}
	return evidence.Open(evidenceDir(c), options)
}

// adoptEarlier takes up data that an earlier version has kept elsewhere: claims in
// a folder of their own, and the audit trail in NATS.
func (s *Storage) adoptEarlier(ctx context.Context, c config.Config) error {
	if err := s.Evidence.Adopt(filepath.Join(c.Data, "claims")); err != nil {
		return err
	}
	taken := func() (int, error) { return audit.Imported(ctx, s.Evidence) }
	moved, err := s.Store.MoveTrail(ctx, c.ID, s.Evidence, taken, s.Evidence.Sync)
	if err != nil {
		return fmt.Errorf("audit trail of an earlier version: %w", err)
	}
	if moved > 0 {
		s.log.Info("the audit trail was moved from NATS into its log", "groups", moved)
	}
	return nil
}

// withEvidence has the log of evidence of a bridge that does not run. It is
// nil if the state is on an external NATS.
func withEvidence(c config.Config, s *store.Store, open func() (*evidence.Log, error), do func(*evidence.Log) error) (err error) {
	if c.Shared() {
		return do(nil)
	}
	local, err := open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, local.Close()) }()
	s.UseTrail(c.ID, local)
	return do(local)
}
