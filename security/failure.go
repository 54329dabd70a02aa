package security

import (
	"errors"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/security/password"
	"github.com/aibridge/aibridge/security/token"
)

// meant is an error about the credential of a known party.
type meant struct {
	of protocol.Party
	error
}

func (m meant) Unwrap() error { return m.error }

// failure is a failed attempt, with the details that operators may see.
func (a *Authenticator) failure(s Shown, told, cause error) Attempt {
	attempt := Attempt{Err: told, Cause: cause}
	known, _ := errors.AsType[meant](cause)
	attempt.Of = known.of
	switch kind := s.kind(); {
	case known.of.ID != "":
	case kind == KeySecret && s.Secret != "" && !errors.Is(cause, errConflict):
		attempt.Of, attempt.Cause = a.options.Keys.wrong(s.Secret)
	case kind == TokenSecret:
		if who := token.Whose(cause); who != nil {
			attempt.Of = who.Party()
		}
	case errors.Is(cause, password.ErrWrongPassword):
		attempt.Of = password.Party(s.User)
	}
	return attempt
}

// ExpiredToken reports whether the cause of a failed attempt is a token that has
// expired.
func ExpiredToken(cause error) bool { return token.Whose(cause) != nil }
