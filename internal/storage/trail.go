package storage

import (
	"context"
	"path/filepath"
	"time"

	"github.com/aibridge/aibridge/internal/config"
	"github.com/aibridge/aibridge/internal/evidence"
	"github.com/aibridge/aibridge/internal/store"
	"github.com/aibridge/aibridge/security/audit"
)

// Files of the audit trail in the data folder. The key belongs where the record is
// not: with both the trail can be forged.
const (
	TrailKey  = "audit.key"
	trailHead = "audit.head"
)

// Births declares the table of the births of the trails of all bridges.
func Births(s *store.Store) *store.Table[audit.Birth] {
	return store.NewTable[audit.Birth](s, "auditbirth").Essential()
}

// TrailOptions are those of a trail with a local log, which keeps it unless the
// state is on an external NATS.
func TrailOptions(ctx context.Context, s *store.Store, births *store.Table[audit.Birth], local *evidence.Log, c config.Config, secret []byte) (audit.Options, error) {
	key, err := audit.NewKey(secret)
	if err != nil {
		return audit.Options{}, err
	}
	options := audit.Options{
		Local:      local,
		Key:        key,
		HeadFile:   filepath.Join(c.Data, trailHead),
		Births:     trailBirths{births, c.ID},
		AcceptLoss: c.AcceptLoss,
		Earlier:    c.Places().Spool,
		BridgeID:   c.ID,
		Level:      audit.Level(c.Audit.Level),
		KeepFor:    time.Duration(c.Audit.KeepDays) * 24 * time.Hour,
		KeepSize:   uint64(c.Audit.KeepMiB) << 20,
	}
	if c.Shared() {
		log, err := s.OpenAuditLog(ctx, c.ID)
		if err != nil {
			return audit.Options{}, err
		}
		options.Log = trailLog{log}
	}
	return options, nil
}

// trailLog is the store's log as package audit wants it.
type trailLog struct{ *store.AuditLog }

// Bounds implements [audit.Log].
func (l trailLog) Bounds(ctx context.Context) (audit.Bounds, error) {
	b, err := l.AuditLog.Bounds(ctx)
	return audit.Bounds(b), err
}

// trailBirths keep the birth of a bridge's trail in the registry.
type trailBirths struct {
	table  *store.Table[audit.Birth]
	bridge string
}

// Birth implements [audit.Births]. The registry need not be loaded.
func (b trailBirths) Birth(ctx context.Context) (*audit.Birth, error) {
	return b.table.Peek(ctx, b.bridge)
}

// SetBirth implements [audit.Births].
func (b trailBirths) SetBirth(ctx context.Context, birth audit.Birth) error {
	_, err := b.table.Put(ctx, b.bridge, &birth)
	return err
}
