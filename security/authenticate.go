package security

import (
	"context"
	"net/netip"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// UserAPIKey is the MQTT user name of those who show an API key as password.
const UserAPIKey = "apikey"

// An Authenticator yields the principal behind what somebody showed. Whatever
// is wrong, the answer is the same: it never tells which part.
type Authenticator struct {
	ring      *Keyring
	throttle  *throttle
	anonymous *protocol.Principal // nil: nobody gets in without a credential
}

// NewAuthenticator recognises the keys of the ring. With dev, whoever shows
// nothing is the one anonymous principal that may do everything.
func NewAuthenticator(ring *Keyring, dev bool) *Authenticator {
	a := &Authenticator{ring: ring, throttle: newThrottle(time.Now)}
	if dev {
		a.anonymous = &protocol.Principal{
			Kind:  protocol.KindOperator,
			ID:    "anonymous",
			Space: protocol.DefaultSpace,
			Roles: []string{protocol.RoleAnonymous},
		}
	}
	return a
}

// Key authenticates somebody at an address by the API key they showed, "" for
// none. A failure is answered late, later each time, and once an address has
// failed too often it is told to wait (4009).
//
// The right key is always let in: 256 random bits are not found by trying, and
// one device with an old key must not lock out everybody behind its address.
func (a *Authenticator) Key(ctx context.Context, key string, from netip.Addr) (*protocol.Principal, error) {
	if key == "" {
		if a.anonymous != nil {
			return a.anonymous, nil
		}
		return nil, protocol.Errorf(protocol.NotAuthenticated, "a credential is needed")
	}
	if who, ok := a.ring.Recognise(key); ok {
		return who, nil
	}
	delay, wait := a.throttle.failed(from)
	if wait > 0 {
		return nil, protocol.Errorf(protocol.RateLimited, "too many failed attempts").With("retry_after_ms", wait.Milliseconds())
	}
	pause := time.NewTimer(delay)
	defer pause.Stop()
	select {
	case <-pause.C:
	case <-ctx.Done():
	}
	return nil, protocol.Errorf(protocol.CredentialInvalid, "the credential is not valid")
}

// Password authenticates what an MQTT client showed on CONNECT.
func (a *Authenticator) Password(ctx context.Context, user string, password []byte, from netip.Addr) (*protocol.Principal, error) {
	switch user {
	case UserAPIKey:
		if len(password) == 0 {
			return nil, protocol.Errorf(protocol.NotAuthenticated, "a credential is needed")
		}
		return a.Key(ctx, string(password), from)
	case "":
		return a.Key(ctx, "", from)
	}
	if a.anonymous != nil { // under --dev devices may keep the user name they have
		return a.anonymous, nil
	}
	return nil, protocol.Errorf(protocol.NotAuthenticated, "a credential is needed")
}
