package app

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"

	"github.com/aibridge/aibridge/cluster/estate"
	"github.com/aibridge/aibridge/internal/storage"
	"github.com/aibridge/aibridge/internal/store"
	"github.com/aibridge/aibridge/security/audit"
	"github.com/aibridge/aibridge/security/audit/events"
	"github.com/aibridge/aibridge/security/keyfile"
	"github.com/aibridge/aibridge/security/seal"
)

// openAudit opens the audit trail. It is stopped after everything that
// records, and before the store.
func openAudit(ctx context.Context, b *base, s *storage.Storage, births *store.Table[audit.Birth], seals *seal.Store, operators *events.Publisher) (*audit.Trail, error) {
	secret, err := trailSecret(b)
	if err != nil {
		return nil, err
	}
	options, err := storage.TrailOptions(ctx, s.Store, births, s.Evidence, b.config, secret)
	if err != nil {
		return nil, err
	}
	options.Publish = operators.Entry
	options.Open = func(sealed []byte) (json.RawMessage, error) { return seals.Open(sealed, events.ArgumentsPurpose) }
	options.Logger, options.Registerer = b.log, b.metrics
	return audit.Open(ctx, options)
}

// trailSecret is the secret from which the key of the bridge's trail is made.
func trailSecret(b *base) ([]byte, error) {
	secret, err := keyfile.Secret(filepath.Join(b.config.Data, storage.TrailKey), audit.KeySize)
	if err != nil {
		return nil, fmt.Errorf("key of the audit trail: %w", err)
	}
	return secret, nil
}

// newAudits makes the commands about the trails of all bridges.
func newAudits(s *state, shared *relaying) *audit.Service {
	if s.chains == nil {
		return audit.NewService(s.audit, nil)
	}
	if shared != nil {
		shared.errands.does[auditSettle] = func(ctx context.Context, _ json.RawMessage) (any, error) {
			err := s.audit.Flush(ctx)
			return trailEnd{s.audit.Head().String()}, err
		}
	}
	return audit.NewService(s.audit, otherTrails{s, shared})
}

// auditSettle is the errand of storing recorded entries, and telling the end of the
// trail.
const auditSettle = "audit.settle"

// A trailEnd is the head of a bridge's trail.
type trailEnd struct {
	Head string `json:"head"`
}

// otherTrails are those of the other bridges that share the state.
type otherTrails struct {
	*state
	shared *relaying // nil where one bridge works at a time
}

// Settle implements [audit.Others].
func (o otherTrails) Settle(ctx context.Context) (heads map[string]audit.Head, silent []string) {
	heads = make(map[string]audit.Head)
	if o.shared == nil {
		return heads, nil
	}
	ends, silent := haveAll[trailEnd](ctx, o.shared, auditSettle, struct{}{})
	for bridge, end := range ends {
		if head, err := audit.ParseHead(end.Head); err == nil {
			heads[bridge] = head
		}
	}
	return heads, silent
}

// Chains implements [audit.Others].
func (o otherTrails) Chains(ctx context.Context) ([]audit.Chain, error) {
	return o.chains.Others(ctx, o.present)
}

// present reports whether a bridge is a member of the cluster, in any epoch.
func (s *state) present(bridge string) bool {
	for _, m := range s.Members.Members() {
		if m.ID == bridge {
			return true
		}
	}
	return false
}

// closeTrails closes the audit trails of bridges that have ended, where this bridge is
// their heir, until ctx ends. It begins with lending its own key to the others.
func closeTrails(ctx context.Context, s *state) error {
	secret, err := trailSecret(s.base)
	if err != nil {
		return err
	}
	return afterEach(ctx, s, func() {
		err := s.chains.Enroll(ctx, secret)
		if err == nil {
			err = closeOrphans(ctx, s)
		}
		if err != nil && ctx.Err() == nil {
			s.log.Warn("the audit trails of bridges that ended are not closed yet", "error", err)
		}
	})
}

// closeOrphans closes the trails of the bridges that have ended by now.
func closeOrphans(ctx context.Context, s *state) error {
	if err := s.Members.Catchup(ctx); err != nil {
		return err
	}
	chains, err := otherTrails{state: s}.Chains(ctx)
	if err != nil {
		return err
	}
	heirs := s.heirs()
	for _, c := range chains {
		if c.Live || estate.Adopter("audit/"+c.Bridge, heirs) != s.config.ID {
			continue
		}
		if err := s.chains.Close(ctx, s.audit, c); err != nil {
			return err
		}
	}
	return nil
}
