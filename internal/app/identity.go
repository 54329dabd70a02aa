package app

import (
	"context"
	"fmt"
	"time"

	mqttdoor "github.com/aibridge/aibridge/doors/mqtt"
	"github.com/aibridge/aibridge/internal/authz"
	"github.com/aibridge/aibridge/internal/store"
	"github.com/aibridge/aibridge/security"
	"github.com/aibridge/aibridge/security/audit/events"
	"github.com/aibridge/aibridge/security/password"
	"github.com/aibridge/aibridge/security/pki"
	"github.com/aibridge/aibridge/security/policy"
	"github.com/aibridge/aibridge/security/token"
)

// AdminKeyFile is the file in the data folder with the administrator's key.
const AdminKeyFile = security.AdminKeyFile

// CAFile is the file in the data folder with the root certificate.
const CAFile = pki.CAFile

// The tables of credentials.
type credentialTables struct {
	keys        *store.Table[security.Key]
	uses        *store.Table[security.KeyUse]
	peppers     *store.Table[security.PepperRecord]
	revocations *store.Table[security.Revocation]
	pki         *pkiTables
}

func newCredentialTables(s *store.Store) *credentialTables {
	return &credentialTables{
		keys:        store.NewTable[security.Key](s, "key"),
		uses:        store.NewTable[security.KeyUse](s, "keyuse").Essential(),
		peppers:     store.NewTable[security.PepperRecord](s, "pepper"),
		revocations: store.NewTable[security.Revocation](s, "revocation").Essential(),
		pki:         newPKITables(s),
	}
}

// The identities are the services that authenticate principals.
type identities struct {
	tables        *credentialTables
	keys          *security.KeyService
	tokens        *security.TokenService
	pki           *pki.Service
	verifier      *token.Verifier
	passwords     *password.Service // nil if there are none
	authenticator *security.Authenticator
}

// openPasswords opens the service of user names and passwords; nil if there is none.
func openPasswords(s *state) (*password.Service, security.Passwords, error) {
	passwords, err := password.Open(s.config.Passwords, s.log)
	if passwords == nil || err != nil {
		return nil, nil, err
	}
	return passwords, passwords, nil
}

// ensureAdministrator makes the administrator's key at the first start. Of bridges
// that form a cluster, and start together, the first of cluster.join makes it.
func ensureAdministrator(ctx context.Context, s *state, ring *security.Keyring) error {
	if s.config.Dev || s.config.Cluster.Formed() && !s.config.Cluster.First() {
		return nil
	}
	made, err := ring.EnsureAdministrator(ctx, s.config.Data, time.Now())
	if made {
		s.log.Info("made the administrator's key", "file", AdminKeyFile)
	}
	return err
}

// openIdentities opens them. The tables are loaded.
func openIdentities(ctx context.Context, s *state, tables *credentialTables, ring *security.Keyring, parties authz.Parties, shared *relaying) (*identities, error) {
	throttle := security.NewThrottle(time.Now)
	shareLimits(s, throttle, shared)
	authorities, err := openPKI(ctx, s, tables.pki, parties, throttle)
	if err != nil {
		return nil, err
	}
	if err := ensureAdministrator(ctx, s, ring); err != nil {
		return nil, err
	}
	verifier, err := token.New(token.Options{BridgeID: s.config.ID, Issuers: s.config.Tokens.Issuers, Certificates: authorities, Log: s.log})
	if err != nil {
		return nil, fmt.Errorf("tokens: %w", err)
	}
	revocations := security.NewTokenService(security.TokenOptions{
		Revocations: tables.revocations, LongestLife: verifier.LongestLife(), AcceptsUndated: verifier.AcceptsUndated(),
		Settled: s.clock.Settled, Log: s.log, Changed: events.Revocations(s.audit),
	})
	s.life.Run("revoked tokens", revocations.Run)
	passwords, known, err := openPasswords(s)
	if err != nil {
		return nil, err
	}
	s.credentials.Use(security.Sources{Keys: ring, Tokens: verifier, Revocations: revocations, Certificates: authorities, Passwords: known, Dev: s.config.Dev})
	s.life.Run("tokens", verifier.Run)
	keys := security.NewKeyService(security.KeyOptions{
		Ring: ring, Index: parties.Keys, Uses: tables.uses, BridgeID: s.config.ID, Clash: parties.Clash, Names: s.policies,
		Changed: events.Keys(s.audit), Log: s.log,
	})
	s.life.Run("keys", keys.Run)
	return &identities{tables: tables, keys: keys, tokens: revocations, pki: authorities, verifier: verifier, passwords: passwords, authenticator: security.NewAuthenticator(security.AuthenticatorOptions{
		Keys: ring, Tokens: verifier, Certificates: authorities, Passwords: known, Throttle: throttle, Check: s.credentials.Check, Dev: s.config.Dev,
		Settled: settled(s), Log: s.log,
	})}, nil
}

// settled records attempts to authenticate, and passes failed ones to the doctor of
// devices.
func settled(s *state) func(context.Context, security.Attempt) {
	logins := events.NewLogins(s.audit, mqttdoor.Name)
	return func(ctx context.Context, a security.Attempt) {
		logins.Settled(ctx, a)
		if w := s.promised.witness.value(); w != nil {
			w.Settled(ctx, a)
		}
	}
}

// openRights makes the rights on topics, and has lost rights end subscriptions.
func openRights(s *state, standing authz.Standing) (*security.TopicRights, error) {
	rights := security.NewTopicRights(security.TopicOptions{
		Topics: s.topics, Policies: s.policies, Owner: s.clients.Owner, Standing: standing, A2A: s.config.A2A.MQTT != "", MCP: s.config.MCP.OverMQTT(),
	})
	s.life.Run("reviews of subscriptions", s.clients.Run)
	s.policies.OnChange(s.clients.ReviewAll)
	s.life.Run("policies", s.policies.Run)
	if s.config.Security.Policies == "" {
		return rights, nil
	}
	files, err := policy.OpenFiles(s.policies, s.config.Security.Policies)
	if err != nil {
		return nil, fmt.Errorf("security.policies: %w", err)
	}
	s.life.Run("policy files", files.Run)
	return rights, nil
}
