package security

import (
	"context"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/security/token"
)

// Password authenticates what an MQTT client showed on CONNECT beside its
// certificate: a user name that says what the password is, or a password that
// cannot be anything else. Under --dev devices may keep the user name and the
// password they have; but what looks like a key must be right.
func (a *Authenticator) Password(ctx context.Context, s Shown, user string, password []byte) (*protocol.Principal, error) {
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
	default:
		s.Kind = NoSecret
	}
	if s.Secret == "" && (s.Kind == KeySecret || s.Kind == TokenSecret) {
		return nil, protocol.Errorf(protocol.NotAuthenticated, "a credential is needed")
	}
	return a.Authenticate(ctx, s)
}

// Names of the methods of enhanced authentication (MQTT 5 §4.12) by which
// clients show a key or a token, on CONNECT and again to renew it.
const (
	MethodKey   = "APIKEY"
	MethodToken = "JWT"
)

var _ Tokens = (*token.Verifier)(nil)
