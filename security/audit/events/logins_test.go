package events

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/security"
	"github.com/aibridge/aibridge/security/audit"
)

// loginsKept notes what is recorded, and how.
type loginsKept []string

func (k *loginsKept) Record(_ context.Context, e audit.Entry) {
	*k = append(*k, e.Door+" at once")
}

func (k *loginsKept) RecordHeld(_ context.Context, e audit.Entry) {
	*k = append(*k, e.Door+" held")
}

// The reader of an MQTT connection lets clients in, and must not wait for the
// disk; by other doors nobody calls Keep.
func TestLoginsByMQTTAreHeldAndOthersAreNot(t *testing.T) {
	var kept loginsKept
	l := NewLogins(&kept, "mqtt")
	for _, door := range []string{"mqtt", "http", "mqtt", "ws"} {
		who := &protocol.Principal{ID: "p", Credential: "k", Method: protocol.MethodAPIKey}
		l.Settled(t.Context(), security.Attempt{Door: door, Who: who})
	}
	if want := []string{"mqtt held", "http at once", "ws at once"}; !slices.Equal(kept, want) {
		t.Errorf("recorded %q, want %q", kept, want)
	}
}

// TestAFloodOfFailuresIsCounted shows a wrong credential often within a moment.
func TestAFloodOfFailuresIsCounted(t *testing.T) {
	var entries []audit.Entry
	now := time.Now()
	l := NewLogins(recorder(func(e audit.Entry) { entries = append(entries, e) }), "mqtt")
	l.now = func() time.Time { return now }
	wrong := security.Attempt{Door: "http", Client: "c", Err: protocol.Errorf(protocol.CredentialInvalid, "wrong")}
	l.Settled(t.Context(), security.Attempt{Door: "http", Err: protocol.Errorf(protocol.NotAuthenticated, "nothing")})
	for range failuresPerTick + 5 {
		l.Settled(t.Context(), wrong)
	}
	if len(entries) != failuresPerTick {
		t.Fatalf("%d are recorded", len(entries))
	}
	now = now.Add(failuresTick)
	l.Settled(t.Context(), wrong)
	if last := entries[len(entries)-1]; last.Details["not_recorded_before"] != "5" || last.Details["client_id"] != "c" || !last.Security {
		t.Errorf("recorded %+v", last)
	}
}

type recorder func(audit.Entry)

func (r recorder) Record(_ context.Context, e audit.Entry)     { r(e) }
func (r recorder) RecordHeld(_ context.Context, e audit.Entry) { r(e) }

func TestRevocationsAndKeysAreRecorded(t *testing.T) {
	var entries []audit.Entry
	trail := recorder(func(e audit.Entry) { entries = append(entries, e) })
	call := &commands.Call{Principal: &protocol.Principal{ID: "anna"}}
	Keys(trail)(t.Context(), security.KeyEvent{Call: call, Key: &security.Key{ID: "k", Principal: "lamp"}})
	Keys(trail)(t.Context(), security.KeyEvent{Call: call, Key: &security.Key{ID: "k", Reason: "lost"}, Revoked: true})
	Revocations(trail)(t.Context(), security.TokenEvent{Call: call, Revocation: &security.Revocation{ID: "r", Token: "jti"}})
	var got []string
	for _, e := range entries {
		if e.Principal != "anna" || !e.Security || e.Code != audit.OK {
			t.Errorf("recorded %+v", e)
		}
		got = append(got, e.Event+" "+e.Resource+" "+e.Reason+e.Details["token_id"])
	}
	if want := []string{"key.created key/k ", "key.revoked key/k lost", "token.revoked token/r jti"}; !slices.Equal(got, want) {
		t.Errorf("recorded %q, want %q", got, want)
	}
}
