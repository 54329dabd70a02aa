package token

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// Algorithms of signatures, as RFC 7518 and RFC 8037 name them.
const (
	HS256 = "HS256" // shared secret
	ES256 = "ES256" // ECDSA on P-256
	EdDSA = "EdDSA" // Ed25519
	RS256 = "RS256" // RSA; of OpenID Connect issuers only
)

// defaultLifetime is the time that a token may last, unless its issuer is trusted
// with more.
const defaultLifetime = 24 * time.Hour

// An Issuer is an issuer whose tokens are accepted, and how far it is trusted. Exactly
// one of OIDC, JWKS, Key and Secret says where its keys come from.
type Issuer struct {
	Issuer string `yaml:"issuer" doc:"the iss claim of its tokens; for OpenID Connect the URL of the issuer"`

	OIDC   bool   `yaml:"oidc" doc:"find the keys by OpenID Connect discovery"`
	JWKS   string `yaml:"jwks" doc:"key set: https URL or file"`
	Key    string `yaml:"key" doc:"PEM file with its public key"`
	Secret string `yaml:"secret" doc:"file with a secret shared with it (HS256), of 32 bytes or more"`
	CA     string `yaml:"ca" doc:"PEM file with the roots of its web server, instead of the system's"`

	Algorithms  []string      `yaml:"algorithms" doc:"accepted signatures: ES256, EdDSA, HS256 with secret, RS256 with oidc"`
	Audience    []string      `yaml:"audience" doc:"accepted aud claims; the bridge's id when empty"`
	MaxLifetime time.Duration `yaml:"max_lifetime" doc:"longest life of a token; 24h when empty"`
	RequireIAT  bool          `yaml:"require_iat" doc:"refuse tokens that do not say when they were issued; always with oidc"`

	Kind     protocol.Kind `yaml:"kind" doc:"kind of its subjects: agent, skill or operator; agent when empty"`
	IDClaim  string        `yaml:"id_claim" doc:"claim with the principal's id; sub when empty"`
	IDPrefix string        `yaml:"id_prefix" doc:"put before each id, so that issuers cannot speak for each other's subjects"`

	Space      protocol.SpaceID   `yaml:"space" doc:"space of its subjects; default when empty"`
	SpaceClaim string             `yaml:"space_claim" doc:"claim with the space, which must be in spaces"`
	Spaces     []protocol.SpaceID `yaml:"spaces" doc:"values that the space claim may have"`

	RolesClaim   string            `yaml:"roles_claim" doc:"claim with a list of names or one text with spaces; dots lead into objects"`
	Roles        map[string]string `yaml:"roles" doc:"which name of the roles claim gives which role; others give none"`
	DefaultRoles []string          `yaml:"default_roles" doc:"roles of all its subjects"`

	ScopesClaim string `yaml:"scopes_claim" doc:"claim that limits the token to actions such as skill:invoke; without it a token is not limited"`

	SignIn SignIn `yaml:"sign_in" doc:"ways for people to sign in to the console there; oidc only"`
}

// withDefaults fills in omitted fields and reports faults.
func (i Issuer) withDefaults(bridgeID string) (Issuer, error) {
	if i.Issuer == "" {
		return i, errors.New("an issuer has no name")
	}
	fail := func(format string, args ...any) (Issuer, error) {
		return i, fmt.Errorf("issuer %q: %w", i.Issuer, fmt.Errorf(format, args...))
	}
	sources := 0
	for _, set := range []bool{i.OIDC, i.JWKS != "", i.Key != "", i.Secret != ""} {
		if set {
			sources++
		}
	}
	if sources != 1 {
		return fail("one of oidc, jwks, key and secret must say where its keys are")
	}
	if i.OIDC {
		if err := checkURL(i.Issuer); err != nil {
			return fail("%w", err)
		}
	}
	if isURL(i.JWKS) {
		if err := checkURL(i.JWKS); err != nil {
			return fail("%w", err)
		}
	}
	allowed := i.allowed()
	if len(i.Algorithms) == 0 {
		i.Algorithms = allowed
	}
	for _, alg := range i.Algorithms {
		if !slices.Contains(allowed, alg) {
			return fail("algorithm %q cannot be used with its keys, only %s", alg, strings.Join(allowed, ", "))
		}
	}
	if len(i.Audience) == 0 {
		i.Audience = []string{bridgeID}
	}
	if i.MaxLifetime == 0 {
		i.MaxLifetime = defaultLifetime
	}
	i.RequireIAT = i.RequireIAT || i.OIDC // whose tokens have it
	if i.MaxLifetime < 0 {
		return fail("max_lifetime is negative")
	}
	if i.Kind == "" {
		i.Kind = protocol.KindAgent
	}
	if i.Kind != protocol.KindAgent && i.Kind != protocol.KindSkill && i.Kind != protocol.KindOperator {
		return fail("kind %q is none of agent, skill and operator", i.Kind)
	}
	if err := i.SignIn.check(&i); err != nil {
		return fail("%w", err)
	}
	if i.IDClaim == "" {
		i.IDClaim = "sub"
	}
	if i.Space == "" {
		i.Space = protocol.DefaultSpace
	}
	for _, space := range append([]protocol.SpaceID{i.Space}, i.Spaces...) {
		if reason := space.Rule().Check(string(space)); reason != "" {
			return fail("space %q %s", space, reason)
		}
	}
	if (i.SpaceClaim == "") != (len(i.Spaces) == 0) {
		return fail("space_claim and spaces go together")
	}
	return i, nil
}

// allowed are the algorithms that fit where the keys come from.
func (i *Issuer) allowed() []string {
	switch {
	case i.Secret != "":
		return []string{HS256}
	case i.OIDC:
		return []string{ES256, EdDSA, RS256}
	}
	return []string{ES256, EdDSA}
}

func isURL(s string) bool { return strings.Contains(s, "://") }

// checkURL wants keys to come over TLS, or from this machine.
func checkURL(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.User != nil || u.Fragment != "" {
		return fmt.Errorf("%q is not a URL that keys can be fetched from", text)
	}
	if u.Scheme == "https" || u.Scheme == "http" && loopback(u.Hostname()) {
		return nil
	}
	return fmt.Errorf("%q must begin with https://", text)
}

func loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsLoopback()
}
