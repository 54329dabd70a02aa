package pki

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"strings"

	"github.com/aibridge/aibridge/protocol"
)

// A claim token reads abt_<id>.<secret>, like an API key, and is good once.
const (
	tokenPrefix  = "abt_"
	tokenIDBytes = 8
	secretBytes  = 32
)

func newToken() (id string, hash [32]byte, text string) {
	raw := make([]byte, tokenIDBytes+secretBytes)
	_, _ = rand.Read(raw) // never fails
	id = hex.EncodeToString(raw[:tokenIDBytes])
	secret := base64.RawURLEncoding.EncodeToString(raw[tokenIDBytes:])
	return id, sha256.Sum256([]byte(secret)), tokenPrefix + id + "." + secret
}

// token finds the claim token of a text, if it is good. The refusal never
// gives the reason.
func (s *Service) token(text string) (*Token, uint64, error) {
	refused := protocol.Errorf(protocol.CredentialInvalid, "the claim token is not valid")
	id, secret, ok := strings.Cut(strings.TrimPrefix(text, tokenPrefix), ".")
	if !ok || !strings.HasPrefix(text, tokenPrefix) {
		return nil, 0, refused
	}
	t, revision, ok := s.opts.Tokens.Get(id)
	if !ok {
		return nil, 0, refused
	}
	shown := sha256.Sum256([]byte(secret))
	if subtle.ConstantTimeCompare(shown[:], t.Hash[:]) != 1 || t.Serial != "" || s.opts.Now().After(t.Expires) {
		return nil, 0, refused
	}
	return t, revision, nil
}

// redeem issues the certificate of a token. Of two that show it at the
// same time one gets it.
func (s *Service) redeem(ctx context.Context, text string, csr *x509.CertificateRequest) (Result, error) {
	t, revision, err := s.token(text)
	if err != nil {
		return Result{}, err
	}
	if err := checkNames(csr, &t.Scope); err != nil {
		return Result{}, err
	}
	if !t.AnyName {
		if err := s.unowned(t.Authority, &t.Scope, protocol.Party{}); err != nil { // it may be by now
			return Result{}, err
		}
	}
	e, err := s.issue(ctx, order{
		authority: t.Authority, scope: &t.Scope, public: csr.PublicKey, validity: seconds(t.Validity), by: t.By,
		claim: func(serial protocol.Serial) Entitlement {
			used := *t
			used.Serial = serial
			return Entitlement{Token: &used, Revision: revision}
		},
	})
	if protocol.CodeOf(err) == protocol.RevisionConflict {
		return Result{}, protocol.Errorf(protocol.CredentialInvalid, "the claim token is not valid")
	}
	if err != nil {
		return Result{}, err
	}
	return s.issued(e), nil
}
