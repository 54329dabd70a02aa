package app

import (
	"context"
	"time"

	"github.com/aibridge/aibridge/internal/store"
	"github.com/aibridge/aibridge/security"
	"github.com/aibridge/aibridge/security/audit"
	"github.com/aibridge/aibridge/security/token"
)

// openRevocations readies what knows which tokens are revoked. The store is
// loaded.
func (a *App) openRevocations(table *store.Table[security.Revocation], verifier *token.Verifier) {
	a.revocations = security.NewTokenService(security.TokenOptions{
		Revocations: table, LongestLife: verifier.LongestLife(), AcceptsUndated: verifier.AcceptsUndated(),
		Settled: a.clock.Settled, Log: a.log, Changed: recordRevocation(a.audit),
	})
	a.run("revoked tokens", a.revocations.Run)
}

// recordRevocation records that tokens were revoked.
func recordRevocation(trail audit.Recorder) func(context.Context, security.TokenEvent) {
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
