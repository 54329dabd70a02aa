package token

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/aibridge/aibridge/protocol"
)

const (
	leeway        = 10 * time.Second // for nbf and iat: issuers' clocks may be ahead of ours
	proofLifetime = 15 * time.Minute // longest of a proof
	maxCandidates = 8                // keys that a token without kid is tried with
	maxJTI        = 256              // bytes
)

// Certificates are those that the bridge's authorities issued.
type Certificates interface {
	// ByThumbprint finds a certificate by the SHA-256 of its DER form.
	ByThumbprint(sha256 [32]byte) (*x509.Certificate, bool)
	// Identify yields the principal a certificate stands for, if it is good:
	// 2005, 2006 or 2007 otherwise.
	Identify(cert *x509.Certificate) (*protocol.Principal, error)
}

// Options configure a [Verifier].
type Options struct {
	BridgeID     string // audience of tokens, unless an issuer says otherwise
	Issuers      []Issuer
	Certificates Certificates     // whose keys may sign proofs; optional
	Log          *slog.Logger     // optional
	Now          func() time.Time // default time.Now
}

// A Token was verified.
type Token struct {
	Principal *protocol.Principal

	// Bound says that only a client that proves the key of the certificate with
	// this thumbprint may use the token.
	Bound      bool
	Thumbprint [32]byte

	// Proof is the certificate whose key signed the token, which proves that
	// its bearer holds it; nil for tokens of issuers.
	Proof *x509.Certificate
}

// A Verifier verifies tokens. Its methods may be called by many goroutines.
type Verifier struct {
	options  Options
	issuers  map[string]*trust
	replays  *replays
	started  time.Time
	reserved []string // ids that no issuer may speak for
}

// trust is an issuer and its keys.
type trust struct {
	Issuer
	keys   *keySet
	parser *jwt.Parser
}

// errInvalid is the reason why a token is refused, for the log only.
type errInvalid struct{ why error }

// errExpired is for a token that was good once.
type errExpired struct{ who *protocol.Principal }

func (e errExpired) Error() string { return "it has expired" }

// Whose is the principal of a token that [Verifier.Verify] refused because it has
// expired, nil for others: their claims are not to be trusted.
func Whose(err error) *protocol.Principal {
	e, _ := errors.AsType[errExpired](err)
	return e.who
}

func (e errInvalid) Error() string { return "the token is not valid: " + e.why.Error() }
func (e errInvalid) Unwrap() error { return e.why }

func invalid(format string, args ...any) error { return errInvalid{fmt.Errorf(format, args...)} }

// Invalid reports whether an error of [Verifier.Verify] is the token's fault,
// and not that its keys cannot be had.
func Invalid(err error) bool {
	_, ok := errors.AsType[errInvalid](err)
	return ok
}

// New checks the configuration. Keys are fetched by [Verifier.Run] or when
// they are needed; those in files must be there.
func New(o Options) (*Verifier, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	v := &Verifier{
		options:  o,
		issuers:  make(map[string]*trust, len(o.Issuers)),
		replays:  newReplays(),
		started:  o.Now().Truncate(time.Second),
		reserved: []string{"administrator", "anonymous", o.BridgeID},
	}
	for _, issuer := range o.Issuers {
		issuer, err := issuer.withDefaults(o.BridgeID)
		if err != nil {
			return nil, err
		}
		if v.issuers[issuer.Issuer] != nil {
			return nil, fmt.Errorf("issuer %q is there twice", issuer.Issuer)
		}
		keys, err := v.keysOf(&issuer)
		if err != nil {
			return nil, fmt.Errorf("issuer %q: %w", issuer.Issuer, err)
		}
		v.issuers[issuer.Issuer] = &trust{issuer, keys, v.parser(
			jwt.WithValidMethods(issuer.Algorithms), jwt.WithIssuer(issuer.Issuer), jwt.WithAudience(issuer.Audience...))}
	}
	return v, nil
}

// parser checks the claims of all tokens: exp is there, and neither it
// nor nbf and iat are against the clock.
func (v *Verifier) parser(more ...jwt.ParserOption) *jwt.Parser {
	return jwt.NewParser(append(more, jwt.WithStrictDecoding(), jwt.WithJSONNumber(), jwt.WithLeeway(leeway),
		jwt.WithExpirationRequired(), jwt.WithIssuedAt(), jwt.WithTimeFunc(v.options.Now))...)
}

// keysOf finds out where the keys of an issuer come from.
func (v *Verifier) keysOf(i *Issuer) (*keySet, error) {
	s := &keySet{name: i.Issuer, log: v.options.Log, now: v.options.Now}
	var file string
	switch {
	case i.Secret != "":
		file, s.fetch = i.Secret, fromFile(i.Secret, one(readSecret))
	case i.Key != "":
		file, s.fetch = i.Key, fromFile(i.Key, one(readPublicKey))
	case i.JWKS != "" && !isURL(i.JWKS):
		file, s.fetch = i.JWKS, fromFile(i.JWKS, readKeySet)
	default:
		client, err := newHTTPClient(i.CA)
		if err != nil {
			return nil, err
		}
		if s.fetch = fromURL(client, i.JWKS); i.OIDC {
			s.fetch = fromDiscovery(client, i.Issuer)
		}
	}
	if file != "" {
		if s.refresh(context.Background(), 0); s.err != nil {
			return nil, s.err
		}
	}
	return s, nil
}

// Run keeps the keys of all issuers fresh until ctx ends.
func (v *Verifier) Run(ctx context.Context) error {
	var wait sync.WaitGroup
	for _, issuer := range v.issuers {
		wait.Go(func() { issuer.keys.follow(ctx) })
	}
	wait.Wait()
	return nil
}

// Verify verifies a token. The caller must compare a bound token with the client's
// certificate. An error of the token's own is [Invalid]; a *protocol.Error says
// that a certificate is not good any more, or that an issuer's keys cannot be had.
func (v *Verifier) Verify(ctx context.Context, raw string) (*Token, error) {
	t, err := parse(raw)
	if err != nil {
		return nil, errInvalid{err}
	}
	if issuer := v.issuers[t.issuer]; issuer != nil {
		return v.verifyIssued(ctx, t, issuer)
	}
	if t.header.Thumbprint != "" {
		return v.verifyProof(t)
	}
	return nil, invalid("its issuer is not trusted")
}

func (v *Verifier) verifyIssued(ctx context.Context, t *unverified, issuer *trust) (*Token, error) {
	if !slices.Contains(issuer.Algorithms, t.header.Algorithm) {
		return nil, invalid("its algorithm is not the issuer's")
	}
	keys, err := issuer.keys.find(ctx, t.header.Algorithm, t.header.KeyID)
	if err != nil {
		return nil, err
	}
	claims, expires, err := v.check(issuer.parser, t.raw, keys, issuer.MaxLifetime)
	if errors.Is(err, jwt.ErrTokenExpired) {
		if who, ok := issuer.principal(claims, t.raw, expires, v.reserved); ok {
			return nil, errInvalid{errExpired{who}}
		}
	}
	if err != nil {
		return nil, err
	}
	if _, dated := claims["iat"]; issuer.RequireIAT && !dated {
		return nil, invalid("it does not say when it was issued")
	}
	who, ok := issuer.principal(claims, t.raw, expires, v.reserved)
	if !ok {
		return nil, invalid("its claims name no principal")
	}
	thumbprint, bound, known := confirmation(claims)
	if !known {
		return nil, invalid("it is bound to what cannot be checked")
	}
	return &Token{Principal: who, Bound: bound, Thumbprint: thumbprint}, nil
}

// check verifies signature and times and returns the claims.
func (v *Verifier) check(parser *jwt.Parser, raw string, keys []key, longest time.Duration) (jwt.MapClaims, time.Time, error) {
	if len(keys) == 0 {
		return nil, time.Time{}, invalid("there is no key for it")
	}
	set := jwt.VerificationKeySet{}
	for _, k := range keys[:min(len(keys), maxCandidates)] {
		set.Keys = append(set.Keys, k.public)
	}
	claims := jwt.MapClaims{}
	if _, err := parser.ParseWithClaims(raw, claims, func(*jwt.Token) (any, error) { return set, nil }); err != nil {
		return claims, time.Time{}, errInvalid{err} // of a token that is signed well, claims too
	}
	expires, err := claims.GetExpirationTime()
	if err != nil || expires == nil {
		return nil, time.Time{}, invalid("it does not expire")
	}
	if !v.options.Now().Before(expires.Time) { // no leeway: a connection would end at once
		return claims, expires.Time, errInvalid{jwt.ErrTokenExpired}
	}
	begins := v.options.Now()
	if issued, _ := claims.GetIssuedAt(); issued != nil {
		begins = issued.Time
	}
	if expires.Sub(begins) > longest || expires.Sub(v.options.Now()) > longest {
		return nil, time.Time{}, invalid("it lasts longer than %v", longest)
	}
	return claims, expires.Time, nil
}

// verifyProof verifies a token that was signed with the key of a certificate
// of ours.
func (v *Verifier) verifyProof(t *unverified) (*Token, error) {
	thumbprint, ok := parseThumbprint(t.header.Thumbprint)
	if !ok || v.options.Certificates == nil {
		return nil, invalid("the certificate it names is not known")
	}
	cert, ok := v.options.Certificates.ByThumbprint(thumbprint)
	if !ok {
		return nil, invalid("the certificate it names is not known")
	}
	algorithm := algorithmOf(cert.PublicKey)
	if algorithm == "" || algorithm != t.header.Algorithm {
		return nil, invalid("its algorithm is not the certificate's")
	}
	parser := v.parser(jwt.WithValidMethods([]string{algorithm}), jwt.WithAudience(v.options.BridgeID), jwt.WithIssuer(t.sub))
	claims, expires, err := v.check(parser, t.raw, []key{{algorithm: algorithm, public: cert.PublicKey}}, proofLifetime)
	if err != nil {
		return nil, err
	}
	holder, err := v.options.Certificates.Identify(cert)
	if err != nil {
		return nil, err
	}
	if t.sub == "" || t.sub != holder.ID && t.sub != "aibridge:"+string(holder.Kind)+"/"+holder.ID {
		return nil, invalid("it speaks for somebody else than the certificate")
	}
	jti, _ := claims["jti"].(string)
	issued, _ := claims.GetIssuedAt()
	if jti == "" || len(jti) > maxJTI || issued == nil {
		return nil, invalid("a proof needs jti and iat")
	}
	if issued.Before(v.started) { // uses before a restart are not remembered
		return nil, invalid("it was made before the bridge started")
	}
	switch v.replays.use(thumbprint, jti, expires, v.options.Now()) {
	case replayed:
		return nil, invalid("it was used before")
	case tooMany:
		return nil, protocol.BusyFor(time.Minute, "too many proofs at a time")
	}
	who := *holder
	who.Method, who.Credential, who.Expires = protocol.MethodToken, credential(claims, t.raw), earlier(expires, holder.Expires)
	who.Issued = issued.Time
	return &Token{Principal: &who, Proof: cert}, nil
}

// LongestLife is the longest time that a token issued by now, with a time of issue,
// may be valid. Its issuer's clock may be ahead.
func (v *Verifier) LongestLife() time.Duration {
	longest := proofLifetime
	for _, issuer := range v.issuers {
		longest = max(longest, issuer.MaxLifetime)
	}
	return longest + leeway
}

// AcceptsUndated reports whether tokens without a time of issue are accepted. One
// whose rest of life is too long now may be accepted later, when less of it is
// left, however long ago it was issued.
func (v *Verifier) AcceptsUndated() bool {
	for _, issuer := range v.issuers {
		if !issuer.RequireIAT {
			return true
		}
	}
	return false
}

// earlier is the earlier of two times, of which the zero time is never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
