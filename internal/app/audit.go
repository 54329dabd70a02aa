package app

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"time"

	"github.com/aibridge/aibridge/internal/evidence"
	"github.com/aibridge/aibridge/internal/store"
	"github.com/aibridge/aibridge/security/audit"
	"github.com/aibridge/aibridge/security/audit/events"
	"github.com/aibridge/aibridge/security/keyfile"
	"github.com/aibridge/aibridge/security/seal"
)

// Files of the audit trail in the data folder. The key belongs where the
// record is not: whoever has both can forge it.
const (
	auditKeyFile  = "audit.key"
	auditHeadFile = "audit.head"
)

// openAudit opens the audit trail. It is stopped after everything that
// records, and before the store.
func openAudit(ctx context.Context, b *base, s *stored, seals *seal.Store, operators *events.Publisher) (*audit.Trail, error) {
	secret, err := keyfile.Secret(filepath.Join(b.config.Data, auditKeyFile), audit.KeySize)
	if err != nil {
		return nil, fmt.Errorf("key of the audit trail: %w", err)
	}
	options, err := auditOptions(ctx, s.store, s.evidence, b.config, secret)
	if err != nil {
		return nil, err
	}
	options.Publish = operators.Entry
	options.Open = func(sealed []byte) (json.RawMessage, error) { return seals.Open(sealed, events.ArgumentsPurpose) }
	options.Logger, options.Registerer = b.log, b.metrics
	return audit.Open(ctx, options)
}

// auditOptions are those of a trail with a local log, which keeps it unless the
// state is on an external NATS.
func auditOptions(ctx context.Context, s *store.Store, local *evidence.Log, config Config, secret []byte) (audit.Options, error) {
	key, err := audit.NewKey(secret)
	if err != nil {
		return audit.Options{}, err
	}
	options := audit.Options{
		Local:      local,
		Key:        key,
		HeadFile:   filepath.Join(config.Data, auditHeadFile),
		Births:     auditBirths{store.NewTable[audit.Birth](s, "auditbirth").Essential(), config.ID},
		AcceptLoss: config.AcceptLoss,
		Earlier:    config.Places().Spool,
		BridgeID:   config.ID,
		Level:      audit.Level(config.Audit.Level),
		KeepFor:    time.Duration(config.Audit.KeepDays) * 24 * time.Hour,
		KeepSize:   uint64(config.Audit.KeepMiB) << 20,
	}
	if config.NATS.External() {
		log, err := s.OpenAuditLog(ctx, config.ID)
		if err != nil {
			return audit.Options{}, err
		}
		options.Log = auditLog{log}
	}
	return options, nil
}

// auditLog is the store's log as package audit wants it.
type auditLog struct{ *store.AuditLog }

// Bounds implements [audit.Log].
func (l auditLog) Bounds(ctx context.Context) (audit.Bounds, error) {
	b, err := l.AuditLog.Bounds(ctx)
	return audit.Bounds(b), err
}

// auditBirths keep the birth of a bridge's trail in the registry.
type auditBirths struct {
	table  *store.Table[audit.Birth]
	bridge string
}

// Birth implements [audit.Births]. The registry need not be loaded.
func (b auditBirths) Birth(ctx context.Context) (*audit.Birth, error) {
	return b.table.Peek(ctx, b.bridge)
}

// SetBirth implements [audit.Births].
func (b auditBirths) SetBirth(ctx context.Context, birth audit.Birth) error {
	_, err := b.table.Put(ctx, b.bridge, &birth)
	return err
}
