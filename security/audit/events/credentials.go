package events

import (
	"context"
	"time"

	"github.com/aibridge/aibridge/security"
	"github.com/aibridge/aibridge/security/audit"
)

// Keys records that keys are made and revoked.
func Keys(trail audit.Recorder) func(context.Context, security.KeyEvent) {
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

// Revocations records that tokens are revoked.
func Revocations(trail audit.Recorder) func(context.Context, security.TokenEvent) {
	return func(ctx context.Context, e security.TokenEvent) {
		r := e.Revocation
		details := map[string]string{"until": r.Until.Format(time.RFC3339)}
		for name, value := range map[string]string{"token_id": r.Token, "principal_id": r.Principal, "kind": string(r.Kind), "issuer": r.Issuer, "space_id": string(r.Space)} {
			if value != "" {
				details[name] = value
			}
		}
		trail.Record(ctx, audit.Entry{
			Event: audit.TokenRevoked, Code: audit.OK, Security: true, Resource: "token/" + r.ID, Reason: r.Reason,
			Door: e.Call.Door, RequestID: e.Call.RequestID, TraceID: e.Call.TraceID, Address: e.Call.Address, Details: details,
		}.By(e.Call.Principal))
	}
}
