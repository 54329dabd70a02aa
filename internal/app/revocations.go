package app

import (
	"context"
	"fmt"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/store"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/security"
	"github.com/aibridge/aibridge/security/audit"
	"github.com/aibridge/aibridge/security/token"
)

const tokenRevokedText = "the token was revoked"

func errTokenRevoked() *protocol.Error {
	return protocol.Errorf(protocol.CredentialInvalid, "%s", tokenRevokedText)
}

// openRevocations readies what knows which tokens are revoked. The store is
// loaded.
func (a *App) openRevocations(table *store.Table[security.Revocation], verifier *token.Verifier) {
	a.revocations = security.NewTokenService(security.TokenOptions{
		Revocations: table, LongestLife: verifier.LongestLife(), AcceptsUndated: verifier.AcceptsUndated(),
		Settled: a.clock.Settled, Log: a.log, Changed: recordRevocation(a.audit),
	})
	a.extensions.Permissions = append(a.extensions.Permissions, tokensCount{a.revocations})
	a.run("revoked tokens", a.revocations.Run)
}

// tokensCount refuses calls of those whose token was revoked in the moment
// before their connection ends.
type tokensCount struct{ tokens *security.TokenService }

// Check implements [commands.PermissionCheck].
func (c tokensCount) Check(_ context.Context, call *commands.Call, _ string, _ commands.Resource) error {
	if c.tokens.Revoked(call.Principal) {
		return errTokenRevoked()
	}
	return nil
}

// endRevokedTokens ends what was begun with a token that is revoked from now
// on, by whichever node that was: calls in flight and connections.
func (a *App) endRevokedTokens(table *store.Table[security.Revocation]) {
	table.OnChange(func(_ string, _, now *security.Revocation) {
		a.revocations.Note()
		if now != nil {
			go a.endTokens(now)
		}
	})
	a.revocations.Note() // for what came since it was opened
}

func (a *App) endTokens(r *security.Revocation) {
	failed := a.router.Fail(r.Covers, errTokenRevoked())
	ended := a.disconnect(r.Covers, reasonAdministrative, tokenRevokedText)
	failed += a.router.Fail(r.Covers, errTokenRevoked()) // what came in meanwhile
	if ended > 0 {
		a.audit.Record(context.Background(), audit.Entry{
			Event: audit.SessionDisconnected, Code: audit.OK, Resource: "token/" + r.ID, Reason: tokenRevokedText,
			Details: map[string]string{"connections": fmt.Sprint(ended)},
		})
	}
	a.log.Info("ended what stood on revoked tokens", "revocation", r.ID, "calls", failed, "connections", ended)
}

// recordRevocation records that tokens were revoked.
func recordRevocation(trail audit.Recorder) func(context.Context, security.TokenEvent) {
	return func(ctx context.Context, e security.TokenEvent) {
		r := e.Revocation
		details := map[string]string{"until": r.Until.Format(time.RFC3339)}
		for name, value := range map[string]string{"token_id": r.Token, "principal_id": r.Principal, "issuer": r.Issuer, "space_id": string(r.Space)} {
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
