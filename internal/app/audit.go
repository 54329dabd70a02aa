package app

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"

	"github.com/aibridge/aibridge/internal/storage"
	"github.com/aibridge/aibridge/security/audit"
	"github.com/aibridge/aibridge/security/audit/events"
	"github.com/aibridge/aibridge/security/keyfile"
	"github.com/aibridge/aibridge/security/seal"
)

// openAudit opens the audit trail. It is stopped after everything that
// records, and before the store.
func openAudit(ctx context.Context, b *base, s *storage.Storage, seals *seal.Store, operators *events.Publisher) (*audit.Trail, error) {
	secret, err := keyfile.Secret(filepath.Join(b.config.Data, storage.TrailKey), audit.KeySize)
	if err != nil {
		return nil, fmt.Errorf("key of the audit trail: %w", err)
	}
	options, err := storage.TrailOptions(ctx, s.Store, s.Evidence, b.config, secret)
	if err != nil {
		return nil, err
	}
	options.Publish = operators.Entry
	options.Open = func(sealed []byte) (json.RawMessage, error) { return seals.Open(sealed, events.ArgumentsPurpose) }
	options.Logger, options.Registerer = b.log, b.metrics
	return audit.Open(ctx, options)
}
