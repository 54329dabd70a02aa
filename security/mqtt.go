package security

import (
	"context"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/security/token"
)

// Password authenticates the user name and password of a CONNECT, beside its
// certificate: a user name that names the kind of the password, or a password that
// cannot be anything else. Under --dev devices may keep the user name and the
// password they have; but a password that looks like a key must be right.
func (a *Authenticator) Password(ctx context.Context, s Shown, user string, password []byte) (*protocol.Principal, error) {
	s = a.read(s, user, password)
	if s.Secret == "" && (s.Kind == KeySecret || s.Kind == TokenSecret) {
		return nil, protocol.Errorf(protocol.NotAuthenticated, "a credential is needed: a token, an API key or a client certificate")
	}
	return a.Authenticate(ctx, s)
}

// Recognise is Password without waiting: it yields the principal of a right API
// key, or of no credential under --dev, and nil when the check may wait.
func (a *Authenticator) Recognise(s Shown, user string, password []byte) *protocol.Principal {
	s = a.read(s, user, password)
	key := s.Secret != "" && s.kind() == KeySecret
	nothing := s.Secret == "" && s.Kind == AnySecret && a.anonymous != nil
	if s.Certificate != nil || !key && !nothing {
		return nil
	}
	ctx := context.Background()
	who, err := a.identify(ctx, s)
	if err != nil {
		return nil
	}
	a.settled(ctx, s, Attempt{Who: who})
	return who
}

// read tells the kinds of the user name and the password.
func (a *Authenticator) read(s Shown, user string, password []byte) Shown {
	s.Secret = string(password)
	switch looks := (&Shown{Secret: s.Secret}).kind(); {
	case user == UserAPIKey:
		s.Kind = KeySecret
	case user == UserToken:
		s.Kind = TokenSecret
	case looks == KeySecret, looks == TokenSecret && a.anonymous == nil:
		s.Kind = looks
	case a.anonymous != nil || s.Secret == "":
		s.Secret = "" // a name proves nothing
	case a.options.Passwords != nil:
		s.Kind, s.User = PasswordSecret, user
	default:
		s.Kind = NoSecret
	}
	return s
}

// Names of the methods of enhanced authentication (MQTT 5 §4.12) by which
// clients show a key or a token, on CONNECT and again to renew it.
const (
	MethodKey   = "APIKEY"
	MethodToken = "JWT"
)

var _ Tokens = (*token.Verifier)(nil)
