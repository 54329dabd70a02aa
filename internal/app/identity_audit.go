package app

import (
	"context"
	"strconv"
	"sync"
	"time"

	mqttdoor "github.com/aibridge/aibridge/doors/mqtt"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/security"
	"github.com/aibridge/aibridge/security/audit"
)

// How attempts to get in are recorded: enough to see what goes on, and not
// more than an attacker may cost.
const (
	loginSucceeded   = "login.succeeded"
	loginEvery       = time.Hour // one success of a credential by a door
	loginsRemembered = 10_000
	failuresPerTick  = 20
	failuresTick     = time.Second
)

// A loginRecord writes attempts to authenticate into the audit trail.
type loginRecord struct {
	trail loginTrail
	now   func() time.Time

	mu       sync.Mutex
	seen     map[login]time.Time // successes that were recorded
	tick     time.Time
	failures int // recorded since the tick
	left     int // not recorded since
}

// A loginTrail is where they are recorded.
type loginTrail interface {
	audit.Recorder
	RecordHeld(ctx context.Context, e audit.Entry)
}

type login struct{ principal, credential, door string }

func newLoginRecord(trail loginTrail) *loginRecord {
	return &loginRecord{trail: trail, now: time.Now, seen: make(map[login]time.Time)}
}

// settled records an attempt, or counts it.
func (l *loginRecord) settled(ctx context.Context, a security.Attempt) {
	if a.Err != nil {
		l.failed(ctx, a)
		return
	}
	if a.Who.Method == protocol.MethodAnonymous || !l.news(login{a.Who.ID, a.Who.Credential, a.Door}) {
		return
	}
	record := l.trail.Record
	if a.Door == mqttdoor.Name { // the broker has the trail kept before it says anything, and must not wait here
		record = l.trail.RecordHeld
	}
	record(ctx, audit.Entry{Event: loginSucceeded, Code: audit.OK, Door: a.Door, Address: a.From, Details: client(a)}.By(a.Who))
}

// news reports whether a success has not been recorded lately.
func (l *loginRecord) news(key login) bool {
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

func (l *loginRecord) failed(ctx context.Context, a security.Attempt) {
	code := protocol.CodeOf(a.Err)
	if code == protocol.NotAuthenticated { // showed nothing: that is how many begin
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

// recordKey records that a key was made or revoked.
func recordKey(trail audit.Recorder) func(context.Context, security.KeyEvent) {
	return func(ctx context.Context, e security.KeyEvent) {
		event := audit.KeyCreated
		if e.Revoked {
			event = audit.KeyRevoked
		}
		trail.Record(ctx, audit.Entry{
			Event: event, Code: audit.OK, Security: true, Resource: "key/" + e.Key.ID, Reason: e.Key.Reason,
			Door: e.Call.Door, RequestID: e.Call.RequestID, TraceID: e.Call.TraceID, Address: e.Call.Address,
			Details: map[string]string{"principal_id": e.Key.Principal, "space_id": string(e.Key.Space)},
		}.By(e.Call.Principal))
	}
}
