package storage

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/aibridge/aibridge/internal/store"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/security/audit"
	"github.com/aibridge/aibridge/security/seal"
)

// A chainRecord is the record of one bridge's chain for all bridges that share a
// state: its key, so that each of them can verify it, sealed under the key that
// they share.
type chainRecord struct {
	Bridge string    `json:"bridge"`
	Chain  string    `json:"chain"`
	Since  time.Time `json:"since"`
	Key    []byte    `json:"key"` // sealed
	// Closed is the head at which another bridge has closed the chain, as SEQ:HASH.
	Closed string `json:"closed,omitempty"`
}

func (r *chainRecord) purpose() string { return "audit key " + r.name() }

// name is the key of the record.
func (r *chainRecord) name() string { return r.Bridge + "/" + r.Chain }

// Chains are the audit trails of the bridges that share a state, and the keyring by
// which each of them verifies all.
type Chains struct {
	store  *store.Store
	table  *store.Table[chainRecord]
	births *store.Table[audit.Birth]
	seals  *seal.Store
	self   string
	log    *slog.Logger
}

// NewChains declares the tables of the trails. It comes before the store is loaded;
// everything else after that.
func NewChains(s *store.Store, seals *seal.Store, births *store.Table[audit.Birth], self string, log *slog.Logger) *Chains {
	return &Chains{store: s, table: store.NewTable[chainRecord](s, "auditchain").Essential(), births: births, seals: seals, self: self, log: log}
}

// Enroll puts the secret behind the key of this bridge's trail into the keyring, unless
// it is there.
func (c *Chains) Enroll(ctx context.Context, secret []byte) error {
	key, err := audit.NewKey(secret)
	if err != nil {
		return err
	}
	r := &chainRecord{Bridge: c.self, Chain: key.Chain(), Since: time.Now().UTC().Round(0)}
	if _, _, there := c.table.Get(r.name()); there {
		return nil
	}
	if r.Key, err = c.seals.Seal(secret, r.purpose()); err != nil {
		return err
	}
	if _, err = c.table.Create(ctx, r.name(), r); protocol.CodeOf(err) == protocol.AlreadyExists {
		return nil
	}
	return err
}

// Reseal seals anew the keys that an older data key has sealed, and counts them.
func (c *Chains) Reseal(ctx context.Context) (n int, err error) {
	for name := range c.table.All() {
		r, revision, there := c.table.Get(name)
		if !there {
			continue
		}
		sealed, changed, err := c.seals.Reseal(r.Key, r.purpose())
		if err != nil || !changed {
			continue // a key that cannot be opened stays as it is
		}
		anew := *r
		anew.Key = sealed
		if _, err := c.table.Update(ctx, name, &anew, revision); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// keyOf is the key of the chain that a bridge writes, nil if it is not in the keyring or
// cannot be opened: of several, that of the birth's record or else the latest.
func (c *Chains) keyOf(bridge string, born *audit.Birth) *audit.Key {
	var chosen *chainRecord
	for _, r := range c.table.All() {
		switch {
		case r.Bridge != bridge:
		case born != nil && r.Chain == born.Chain:
			chosen = r
			return c.open(chosen)
		case chosen == nil || r.Since.After(chosen.Since):
			chosen = r
		}
	}
	if chosen == nil {
		return nil
	}
	return c.open(chosen)
}

// open opens a key of the ring, nil if that cannot be.
func (c *Chains) open(r *chainRecord) *audit.Key {
	secret, err := c.seals.Open(r.Key, r.purpose())
	var key *audit.Key
	if err == nil {
		key, err = audit.NewKey(secret)
	}
	if err == nil && key.Chain() != r.Chain {
		err = fmt.Errorf("it is the key of chain %s", key.Chain())
	}
	if err != nil {
		c.log.Error("the key of another bridge's audit trail cannot be used: its entries are not verified", "bridge", r.Bridge, "chain", r.Chain, "error", err)
		return nil
	}
	return key
}

// Others are the trails of the other bridges. Live are the bridges that are there.
func (c *Chains) Others(ctx context.Context, live func(bridge string) bool) ([]audit.Chain, error) {
	there := make(map[string]bool) // bridges that have, or had, a trail
	var known []string
	for bridge := range c.births.All() {
		there[bridge] = true
		known = append(known, bridge)
	}
	for _, r := range c.table.All() {
		known = append(known, r.Bridge)
	}
	logs, err := c.store.AuditLogs(ctx, known)
	if err != nil {
		return nil, err
	}
	for bridge := range logs {
		there[bridge] = true
	}
	delete(there, c.self)
	var all []audit.Chain
	for bridge := range there {
		chain := audit.Chain{Bridge: bridge, Live: live(bridge)}
		chain.Birth, _, _ = c.births.Get(bridge)
		chain.Key = c.keyOf(bridge, chain.Birth)
		if log := logs[bridge]; log != nil {
			chain.Log = trailLog{log}
		}
		all = append(all, chain)
	}
	return all, nil
}

// Close records in a trail the end of the chain of a bridge that has ended, unless
// another bridge has.
func (c *Chains) Close(ctx context.Context, t *audit.Trail, chain audit.Chain) error {
	if chain.Log == nil {
		return nil
	}
	name, closedAt := "", audit.Head{}
	if chain.Key != nil {
		name = (&chainRecord{Bridge: chain.Bridge, Chain: chain.Key.Chain()}).name()
	}
	r, revision, there := c.table.Get(name)
	if !there {
		return nil // of a bridge whose key is lost
	}
	if r.Closed != "" {
		closedAt, _ = audit.ParseHead(r.Closed) // one that is none is no head
	}
	head, closed, err := t.CloseChain(ctx, chain, closedAt)
	if err != nil || !closed {
		return err
	}
	c.log.Info("the audit trail of a bridge that has ended is closed", "bridge", chain.Bridge, "head", head)
	anew := *r
	anew.Closed = head.String()
	if _, err = c.table.Update(ctx, name, &anew, revision); protocol.CodeOf(err) == protocol.RevisionConflict {
		return nil // another bridge has closed it, too
	}
	return err
}
