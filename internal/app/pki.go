package app

import (
	"context"
	"net/netip"
	"slices"

	"github.com/aibridge/aibridge/internal/store"
	"github.com/aibridge/aibridge/security"
	"github.com/aibridge/aibridge/security/pki"
)

// pkiTables are the tables of package pki.
type pkiTables struct {
	store        *store.Store
	authorities  *store.Table[pki.Hierarchy]
	certificates *store.Table[pki.Certificate]
	requests     *store.Table[pki.Request]
	tokens       *store.Table[pki.Token]
}

func newPKITables(s *store.Store) *pkiTables {
	return &pkiTables{
		store:        s,
		authorities:  store.NewTable[pki.Hierarchy](s, "cert-authority"),
		certificates: store.NewTable[pki.Certificate](s, "cert"),
		requests:     store.NewTable[pki.Request](s, "cert-request"),
		tokens:       store.NewTable[pki.Token](s, "cert-token"),
	}
}

// issue stores a certificate and its request or token in one atomic change.
func (t *pkiTables) issue(ctx context.Context, c *pki.Certificate, f pki.Entitlement) error {
	create := t.certificates.CreateOp(string(c.Serial), c)
	switch {
	case f.Request != nil:
		key := string(f.Request.Scope.Space) + "/" + f.Request.ID
		return t.store.Atomic(ctx, create, t.requests.PutOp(key, f.Request, f.Revision))
	case f.Token != nil:
		return t.store.Atomic(ctx, create, t.tokens.PutOp(f.Token.ID, f.Token, f.Revision))
	}
	return t.store.Atomic(ctx, create)
}

// openPKI opens the certificate authorities. The store is loaded.
func openPKI(ctx context.Context, s *state, tables *pkiTables, parties pki.Parties, throttle *security.Throttle) (*pki.Service, error) {
	passphrase, err := s.config.PKI.ReadPassphrase()
	if err != nil {
		return nil, err
	}
	authorities, err := pki.Open(ctx, pki.Options{
		Authorities:  tables.authorities,
		Certificates: tables.certificates,
		Requests:     tables.requests,
		Tokens:       tables.tokens,
		Issue:        tables.issue,
		Dir:          s.config.Data,
		KeyFile:      s.caKey,
		Passphrase:   passphrase,
		KeyType:      pki.KeyType(s.config.PKI.KeyType),
		BridgeID:     s.config.ID,
		Names:        slices.Concat(s.config.Hosts, s.config.PKI.Names),
		PublicURL:    s.config.PKI.PublicURL,
		Parties:      parties,
		Publish:      s.events.Certificate,
		Audit:        s.audit,
		Failed:       func(ctx context.Context, from netip.Addr) error { return throttle.Failed(ctx, from) },
		Log:          s.log,
		Registerer:   s.metrics,
	})
	if err != nil {
		return nil, err
	}
	s.promised.certificates.keep(authorities)
	return authorities, nil
}
