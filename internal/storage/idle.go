package storage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/aibridge/aibridge/internal/backup"
	"github.com/aibridge/aibridge/internal/config"
	"github.com/aibridge/aibridge/internal/evidence"
	"github.com/aibridge/aibridge/internal/natsd"
	"github.com/aibridge/aibridge/internal/store"
	"github.com/aibridge/aibridge/security/audit"
	"github.com/aibridge/aibridge/security/seal"
)

// ErrInUse reports that a bridge serves with the data folder.
var ErrInUse = natsd.ErrInUse

// Backup writes the whole state of the bridge with this configuration, and returns
// a summary in a few words. Claims of an embedded state are in it, as they are in
// the log of the audit trail.
//
// It fails with [ErrInUse] if a bridge works on an embedded state: that
// makes backups of itself, see [backup.Service].
func Backup(ctx context.Context, c config.Config, w io.Writer, options backup.Options) (summary string, err error) {
	err = withStore(ctx, c, func(s *store.Store) (err error) {
		return withEvidence(c, s, readEvidence(c), func(*evidence.Log) error {
			summary, err = backup.Write(ctx, s, c.Places(), w, options)
			return err
		})
	})
	return summary, err
}

// Restore fills the state and the data folder from a backup. It refuses to replace
// a state that is not empty, unless force is set.
func Restore(ctx context.Context, c config.Config, r io.Reader, force bool) (summary string, err error) {
	err = withStore(ctx, c, func(s *store.Store) (err error) {
		write := func() (*evidence.Log, error) { return OpenEvidence(c, c.Log.Logger(os.Stderr), nil) }
		return withEvidence(c, s, write, func(*evidence.Log) error {
			summary, err = backup.Restore(ctx, s, c.Places(), r, force)
			return err
		})
	})
	return summary, err
}

// VerifyAudit checks the audit trail in the data folder of a bridge that is not
// running, and with an external NATS those of all bridges there. Heads are the
// heads that earlier verifications printed, see [audit.ParseHeads].
func VerifyAudit(ctx context.Context, c config.Config, heads ...string) (all audit.Verification, err error) {
	noted, err := audit.ParseHeads(c.ID, heads)
	if err != nil {
		return all, err
	}
	secret, err := os.ReadFile(filepath.Join(c.Data, TrailKey))
	if err != nil {
		return all, fmt.Errorf("key of the audit trail: %w", err)
	}
	err = withStore(ctx, c, func(s *store.Store) error {
		return withEvidence(c, s, readEvidence(c), func(local *evidence.Log) error {
			births := Births(s)
			options, err := TrailOptions(ctx, s, births, local, c, secret)
			if err == nil && options.Log == nil {
				options.Log, err = earlierTrail(ctx, s, c)
			}
			if err != nil {
				return err
			}
			if c.Shared() {
				all, err = verifyShared(ctx, s, births, c, &options, noted)
				return err
			}
			all.Report, err = audit.VerifyLog(ctx, options, noted[c.ID]...)
			return err
		})
	})
	return all, err
}

// verifyShared checks the trails of all bridges on an external NATS.
func verifyShared(ctx context.Context, s *store.Store, births *store.Table[audit.Birth], c config.Config, own *audit.Options, noted map[string][]audit.Head) (all audit.Verification, err error) {
	seals, err := seal.Open(c.Data, "", SealTables(s), nil)
	if err != nil {
		return all, err
	}
	keyring := NewChains(s, seals, births, c.ID, c.Log.Logger(os.Stderr))
	if err := s.Load(ctx); err != nil {
		return all, err
	}
	chains, err := keyring.Others(ctx, func(string) bool { return false })
	if err != nil {
		return all, err
	}
	chains = append(chains, audit.Chain{Bridge: c.ID, Log: own.Log, Key: own.Key})
	return audit.VerifyChains(ctx, chains, own, noted)
}

// earlierTrail is the trail in the embedded NATS of a bridge of which no later
// version has run, nil if there is none.
func earlierTrail(ctx context.Context, s *store.Store, c config.Config) (audit.RemoteLog, error) {
	if there, err := s.HasAuditLog(ctx, c.ID); !there || err != nil {
		return nil, err
	}
	log, err := s.OpenAuditLog(ctx, c.ID)
	if err != nil {
		return nil, err
	}
	return trailLog{log}, nil
}

// readEvidence opens the log of evidence to read it.
func readEvidence(c config.Config) func() (*evidence.Log, error) {
	return func() (*evidence.Log, error) { return evidence.OpenReader(evidenceDir(c)) }
}

// onlyMember reports whether a data folder was used in a cluster that bridges form, and
// has no state of its own: one that was begun there would keep the bridge from returning.
func onlyMember(c config.Config) bool {
	_, member := os.Stat(memberDir(c))
	_, alone := os.Stat(aloneDir(c))
	return member == nil && errors.Is(alone, fs.ErrNotExist)
}

// withStore opens the store of a bridge that does not run.
func withStore(ctx context.Context, c config.Config, do func(*store.Store) error) error {
	if c.Cluster.Formed() {
		return fmt.Errorf("%w: the state is in a cluster of bridges, and can be had from one that runs", ErrInUse)
	}
	if c.NATS.URL == "" && onlyMember(c) {
		return fmt.Errorf("%w: the state of %s is in a cluster of bridges; name its configuration, and ask one that runs", ErrInUse, c.Data)
	}
	if err := os.MkdirAll(c.Data, 0o700); err != nil {
		return err
	}
	log := c.Log.Logger(os.Stderr)
	nats, err := Connect(c, log)
	if err != nil {
		return err
	}
	defer nats.Close()
	s, err := OpenStore(ctx, nats, c, log, nil)
	if err != nil {
		return err
	}
	defer s.Close()
	return do(s)
}

// VerifyState reads every record of some tables as a starting bridge does, and
// reports damaged and lost ones.
func VerifyState(ctx context.Context, c config.Config, tables []string) error {
	c.AcceptLoss = false
	return withStore(ctx, c, func(s *store.Store) error {
		for _, name := range tables {
			store.NewTable[json.RawMessage](s, name)
		}
		return s.Load(ctx)
	})
}

// Keep removes the records of all tables of a bridge at rest but some. It is for
// copies of a state that are not to go on with anything.
func Keep(ctx context.Context, c config.Config, kept func(table string) bool, all []string) error {
	return withStore(ctx, c, func(s *store.Store) error {
		var dropped []*store.Table[json.RawMessage]
		for _, name := range all {
			if table := store.NewTable[json.RawMessage](s, name); !kept(name) {
				dropped = append(dropped, table)
			}
		}
		if err := s.Load(ctx); err != nil {
			return err
		}
		for _, table := range dropped {
			for key := range table.All() {
				if err := table.Delete(ctx, key, 0); err != nil {
					return err
				}
			}
		}
		return nil
	})
}
