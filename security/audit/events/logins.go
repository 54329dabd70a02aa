// Package events turns events of the bridge into entries of the audit trail:
// logins, keys, tokens, policies, models, approvals and calls of tools. Commands
// are recorded by the router. A [Publisher] tells operators.
package events

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/security"
	"github.com/aibridge/aibridge/security/audit"
)

// Bounds of the entries about logins: enough to see attempts, and not more than an
// attacker may cost.
const (
	loginSucceeded   = "login.succeeded"
	loginEvery       = time.Hour // one success of a credential by a door
	loginsRemembered = 10_000
	failuresPerTick  = 20
	failuresTick     = time.Second
)

// Logins records attempts to authenticate.
type Logins struct {
	trail LoginTrail
	held  string
	now   func() time.Time

	mu       sync.Mutex
	seen     map[login]time.Time // successes that were recorded
	tick     time.Time
	failures int // recorded since the tick
	left     int // not recorded since
}

// A LoginTrail records login attempts. RecordHeld does not wait: the caller of the
// trail's Keep does.
type LoginTrail interface {
	audit.Recorder
	RecordHeld(ctx context.Context, e audit.Entry)
}

type login struct{ principal, credential, door string }

// NewLogins returns a record of logins. Logins at the door named held are recorded
// held: that door has the trail kept before it answers, and must not wait here.
func NewLogins(trail LoginTrail, held string) *Logins {
	return &Logins{trail: trail, held: held, now: time.Now, seen: make(map[login]time.Time)}
}

// Settled records an attempt, or counts it.
func (l *Logins) Settled(ctx context.Context, a security.Attempt) {
	if a.Err != nil {
		l.failed(ctx, a)
		return
	}
	if a.Who.Method == protocol.MethodAnonymous || !l.news(login{a.Who.ID, a.Who.Credential, a.Door}) {
		return
	}
	record := l.trail.Record
	if a.Door == l.held {
		record = l.trail.RecordHeld
	}
	record(ctx, audit.Entry{Event: loginSucceeded, Code: audit.OK, Door: a.Door, Address: a.From, Details: client(a)}.By(a.Who))
}

// news reports whether a success has not been recorded lately.
func (l *Logins) news(key login) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	if at, ok := l.seen[key]; ok && now.Sub(at) < loginEvery {
		return false
	}
	if len(l.seen) >= loginsRemembered {
		clear(l.seen) // some are recorded once too often
	}
	l.seen[key] = now
	return true
}

func (l *Logins) failed(ctx context.Context, a security.Attempt) {
	code := protocol.CodeOf(a.Err)
	if code == protocol.NotAuthenticated { // no credential was shown, as in many first requests
		return
	}
	l.mu.Lock()
	now := l.now()
	if now.Sub(l.tick) >= failuresTick {
		l.tick, l.failures = now, 0
	}
	if l.failures >= failuresPerTick {
		l.left++
		l.mu.Unlock()
		return
	}
	l.failures++
	left := l.left
	l.left = 0
	l.mu.Unlock()
	details := client(a)
	if left > 0 {
		if details == nil {
			details = make(map[string]string)
		}
		details["not_recorded_before"] = strconv.Itoa(left)
	}
	l.trail.Record(ctx, audit.Entry{
		Event: audit.LoginFailed, Code: string(code), Security: true, Reason: protocol.AsError(a.Err).Message,
		Door: a.Door, Address: a.From, Details: details,
	})
}

func client(a security.Attempt) map[string]string {
	if a.Client == "" {
		return nil
	}
	return map[string]string{"client_id": a.Client}
}
