package security

import (
	"context"
	"crypto/sha256"
	"sync/atomic"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// remembered is the time that a connection remembers a recognised principal. Revocations and
// changes of rights take effect at once all the same: [AuthenticatorOptions].Check is called for
// each request.
const remembered = 10 * time.Second

// A memory is of the last credential that was recognised on a connection.
type memory struct{ last atomic.Pointer[recognition] }

type recognition struct {
	secret [sha256.Size]byte // hashed, so that comparing it leaks nothing
	who    *protocol.Principal
	until  time.Time
}

type memoryKey struct{}

// Remembering is a context for the requests of one connection. A key or a token that is
// shown in one request after the other is not verified each time, and its principal is
// the same value, for which other packages can cache results.
func Remembering(ctx context.Context) context.Context {
	return context.WithValue(ctx, memoryKey{}, new(memory))
}

// remember returns the principal of a credential that was shown before, and authenticates
// any other as always.
func (a *Authenticator) remember(ctx context.Context, s Shown) (*protocol.Principal, error) {
	m, ok := ctx.Value(memoryKey{}).(*memory)
	if !ok || a.options.Check == nil || s.Certificate != nil || s.Kind != AnySecret || s.Secret == "" {
		return a.Authenticate(ctx, s)
	}
	hash, now := sha256.Sum256([]byte(s.Secret)), time.Now()
	if known := m.last.Load(); known != nil && known.secret == hash && now.Before(known.until) && a.options.Check(known.who) == nil {
		return known.who, nil
	}
	who, err := a.Authenticate(ctx, s)
	if err == nil && (who.Method == protocol.MethodAPIKey || who.Method == protocol.MethodToken) {
		until := now.Add(remembered)
		if !who.Expires.IsZero() && who.Expires.Before(until) {
			until = who.Expires
		}
		m.last.Store(&recognition{hash, who, until})
	}
	return who, err
}
