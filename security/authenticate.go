package security

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"log/slog"
	"net/netip"
	"strings"
	"time"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/security/password"
	"github.com/aibridge/aibridge/security/token"
)

// MQTT user names that tell the kind of the password.
const (
	UserAPIKey = "apikey"
	UserToken  = "jwt"
)

// maxSecret bounds a credential, in bytes.
const maxSecret = 16 << 10

// Certificates yields the principals of client certificates.
type Certificates interface {
	// Identify yields the principal of a verified client certificate, with
	// CertSerial set and Expires as the certificate's. 2002, 2005, 2006 or 2007
	// if it is not good.
	Identify(cert *x509.Certificate) (*protocol.Principal, error)
}

// Tokens verifies tokens.
type Tokens interface {
	Verify(ctx context.Context, raw string) (*token.Token, error)
}

// Passwords yields the principals of user names and passwords that are no
// credentials of the bridge's.
type Passwords interface {
	// Verify fails with an error that is not the protocol's if they are wrong.
	Verify(ctx context.Context, l password.Login) (*protocol.Principal, error)
	// Stands reports whether a credential that was shown before is still valid.
	Stands(who *protocol.Principal) bool
}

// AuthenticatorOptions configure an [Authenticator]. All but Keys may be left
// out.
type AuthenticatorOptions struct {
	Keys         *Keyring
	Tokens       Tokens
	Certificates Certificates
	Passwords    Passwords
	// Dev makes clients without a credential the one anonymous principal that may do
	// everything.
	Dev bool
	// Throttle slows down clients with wrong credentials; its own if nil.
	Throttle *Throttle
	// Check fails for a verified token that is not to be accepted; optional.
	Check func(who *protocol.Principal) error
	// Settled is called after every attempt, and must not block.
	Settled func(context.Context, Attempt)
	Log     *slog.Logger
}

// An Attempt to authenticate was settled.
type Attempt struct {
	At     time.Time
	From   netip.Addr
	Door   string
	Client string              // MQTT client id, "" for others
	Who    *protocol.Principal // nil unless Err is nil
	Err    error               // as the client gets it

	// The details of a failure, for operators:
	Of    protocol.Party // whose credential was meant, as far as the bridge knows; zero if it does not
	Cause error          // the real reason, hidden from the client
}

// An Authenticator yields the principal behind credentials. A wrong credential
// always gets the same error, which does not tell which part is wrong.
type Authenticator struct {
	options   AuthenticatorOptions
	anonymous *protocol.Principal // nil: a credential is needed
}

// NewAuthenticator makes one for all doors.
func NewAuthenticator(o AuthenticatorOptions) *Authenticator {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Throttle == nil {
		o.Throttle = NewThrottle(time.Now)
	}
	a := &Authenticator{options: o}
	if o.Dev {
		a.anonymous = &protocol.Principal{
			Kind:   protocol.KindOperator,
			ID:     "anonymous",
			Space:  protocol.DefaultSpace,
			Roles:  []string{protocol.RoleAnonymous},
			Method: protocol.MethodAnonymous,
		}
	}
	return a
}

// Shown holds the credentials that a client showed at a door.
type Shown struct {
	Certificate *x509.Certificate // whose key the TLS handshake proved; nil without one
	Secret      string            // an API key, a token or a password, "" for none
	User        string            // that goes with a password
	Kind        SecretKind        // the kind that the client named
	Door        string            // by which they came: mqtt, http, ws
	Client      string            // MQTT client id, "" for others
	From        netip.Addr
	// Signed reports whether the signature is made with a secret.
	Signed func(secret string) bool
}

// A SecretKind is the kind of a secret.
type SecretKind uint8

// Kinds of secrets.
const (
	AnySecret SecretKind = iota // recognised by its form
	KeySecret
	TokenSecret
	PasswordSecret
	AccessSecret // the id of an access key, whose secret has signed and is not shown
	NoSecret     // an unknown kind, as opposed to no credential
)

// errConflict is shown two credentials of two parties.
var errConflict = errors.New("the credentials are those of two parties")

// Authenticate returns the principal of the credentials shown. Two of them, a
// certificate and a secret, must belong to one party, unless the secret is a
// token that is bound to the certificate.
//
// A failure is answered late, later each time, and a client that has failed too often is
// told to wait (4009). The right key or token is always let in: it is not found by
// trying, and a device with an old key must not lock out all others behind its address, nor a
// stranger the device whose name it uses. Passwords have [Throttle.Guess].
func (a *Authenticator) Authenticate(ctx context.Context, s Shown) (*protocol.Principal, error) {
	who, err, cause := a.attempt(ctx, s)
	done := Attempt{Who: who}
	if err != nil {
		done = a.failure(s, err, cause)
	}
	a.settled(context.WithoutCancel(ctx), s, done)
	return who, err
}

// attempt returns the principal, or the error for the client and its cause. A password,
// unlike keys and tokens, may be found by trying, so that it is not even looked at while
// its user or the address has to wait.
func (a *Authenticator) attempt(ctx context.Context, s Shown) (who *protocol.Principal, told, cause error) {
	if s.kind() == PasswordSecret && a.options.Passwords != nil {
		done, err := a.options.Throttle.Guess(ctx, s.From, s.User)
		if err != nil {
			return nil, err, err
		}
		defer done()
	}
	if who, cause = a.identify(ctx, s); cause != nil {
		return nil, a.refuse(ctx, s, cause), cause
	}
	return who, nil, nil
}

func (a *Authenticator) settled(ctx context.Context, s Shown, attempt Attempt) {
	if a.options.Settled == nil {
		return
	}
	attempt.At, attempt.From, attempt.Door, attempt.Client = time.Now(), s.From, s.Door, s.Client
	a.options.Settled(ctx, attempt)
}

// identify returns the principal. An error that is not the protocol's means an
// invalid credential.
func (a *Authenticator) identify(ctx context.Context, s Shown) (*protocol.Principal, error) {
	var holder *protocol.Principal // of the certificate
	if s.Certificate != nil {
		if a.options.Certificates == nil {
			return nil, protocol.Errorf(protocol.CredentialInvalid, "certificates are not accepted")
		}
		var err error
		if holder, err = a.options.Certificates.Identify(s.Certificate); err != nil {
			return nil, err
		}
	}
	switch kind := s.kind(); {
	case kind == KeySecret:
		who, ok := a.options.Keys.Recognise(s.Secret)
		if !ok {
			return nil, errors.New("no such key")
		}
		return join(who, holder)
	case kind == AccessSecret:
		who, ok := a.options.Keys.recogniseAccess(s.Secret, s.Signed)
		if !ok {
			return nil, errors.New("the signature is not by a live access key")
		}
		return join(who, holder)
	case kind == TokenSecret && a.options.Tokens != nil:
		t, err := a.options.Tokens.Verify(ctx, s.Secret)
		if err != nil {
			return nil, err
		}
		if a.options.Check != nil {
			if err := a.options.Check(t.Principal); err != nil {
				return nil, meant{t.Principal.Party(), err}
			}
		}
		return bind(t, s.Certificate, holder)
	case kind == PasswordSecret && a.options.Passwords != nil:
		return a.user(ctx, s, holder)
	case s.Secret != "" || kind == NoSecret:
		return nil, errors.New("not a credential")
	case holder != nil:
		return holder, nil
	case a.anonymous != nil && kind == AnySecret:
		return a.anonymous, nil
	}
	return nil, protocol.Errorf(protocol.NotAuthenticated, "a credential is needed: a token, an API key or a client certificate")
}

// user returns the principal of a password.
func (a *Authenticator) user(ctx context.Context, s Shown, holder *protocol.Principal) (*protocol.Principal, error) {
	who, err := a.options.Passwords.Verify(ctx, password.Login{User: s.User, Password: s.Secret, Client: s.Client, From: s.From})
	if err != nil {
		return nil, err
	}
	a.options.Throttle.Guessed(s.From, s.User)
	return join(who, holder)
}

// kind returns the kind of the secret.
func (s *Shown) kind() SecretKind {
	switch {
	case s.Secret == "" || s.Kind == NoSecret:
		return s.Kind
	case len(s.Secret) > maxSecret:
		return NoSecret
	case s.Kind == AnySecret && strings.HasPrefix(s.Secret, keyPrefix):
		return KeySecret
	case s.Kind == AnySecret && token.Looks(s.Secret):
		return TokenSecret
	case s.Kind == AnySecret:
		return NoSecret
	}
	return s.Kind
}

// join returns the principal of a secret, perhaps with a certificate of its own.
func join(who, holder *protocol.Principal) (*protocol.Principal, error) {
	if holder == nil {
		return who, nil
	}
	if !who.Same(holder) {
		return nil, errConflict
	}
	return proven(who, holder), nil
}

// bind returns the principal of a token, perhaps with a certificate.
func bind(t *token.Token, cert *x509.Certificate, holder *protocol.Principal) (*protocol.Principal, error) {
	if !t.Bound {
		return join(t.Principal, holder)
	}
	if cert == nil || sha256.Sum256(cert.Raw) != t.Thumbprint {
		return nil, protocol.Errorf(protocol.ProofFailed, "the token is bound to a certificate that this connection does not hold")
	}
	return proven(t.Principal, holder), nil
}

// proven returns the principal, marked as holder of the certificate.
func proven(who, holder *protocol.Principal) *protocol.Principal {
	both := *who
	both.CertSerial = holder.CertSerial
	if both.Expires.IsZero() || !holder.Expires.IsZero() && holder.Expires.Before(both.Expires) {
		both.Expires = holder.Expires
	}
	return &both
}

// refuse turns a cause into the error for the client, after the delay of the throttle.
func (a *Authenticator) refuse(ctx context.Context, s Shown, why error) error {
	var known *protocol.Error
	if errors.As(why, &known) && known.Code != protocol.CredentialInvalid && known.Code != protocol.ProofFailed {
		return known // needs no guessing: there was nothing shown, or the certificate is not good any more
	}
	a.options.Log.DebugContext(ctx, "credential refused", "door", s.Door, "client", s.Client, "remote", s.From, "reason", why)
	if err := a.options.Throttle.Failed(ctx, s.From, s.names()...); err != nil {
		return err
	}
	if known != nil {
		return known
	}
	return protocol.Errorf(protocol.CredentialInvalid, "the credential is not valid")
}

// names are the names under which a failure is counted.
func (s *Shown) names() []string {
	var names []string
	if s.Client != "" {
		names = append(names, "client "+s.Client)
	}
	if id, _, ok := parseKey(s.Secret); ok {
		names = append(names, "key "+id)
	}
	if id, ok := strings.CutPrefix(s.Secret, keyPrefix); ok && s.Kind == AccessSecret {
		names = append(names, "key "+id)
	}
	if s.User != "" {
		names = append(names, userName(s.User))
	}
	return names
}
