package app

import (
	"context"
	"fmt"

	"github.com/aibridge/aibridge/internal/store"
	"github.com/aibridge/aibridge/security"
	"github.com/aibridge/aibridge/security/audit"
)

// followCredentials has the end of keys and tokens bite, on whichever bridge
// they were revoked. Certificates tell of theirs, see [App.runPKI].
func (a *App) followCredentials(keys *store.Table[security.Key], revocations *store.Table[security.Revocation]) {
	keys.OnChange(func(id string, old, _ *security.Key) {
		if old != nil { // it gives other rights now, or none
			go a.endCredentials(audit.Entry{Resource: "key/" + id, Reason: "the API key was revoked"})
		}
	})
	revocations.OnChange(func(id string, _, now *security.Revocation) {
		a.revocations.Note()
		if now != nil {
			go a.endCredentials(audit.Entry{Resource: "token/" + id, Reason: "the token was revoked"})
		}
	})
	a.revocations.Note() // for what came since it was opened
}

// endCredentials ends whatever stands on a credential that is of no more use:
// calls in flight, connections, and what outlives calls. It looks at all of
// them: whoever comes in meanwhile is checked then. The entry says why.
func (a *App) endCredentials(why audit.Entry) {
	failed := a.router.Fail(a.credentials.Check)
	ended := a.mqtt.DisconnectFor(a.credentials.Check) + a.credentials.Review()
	failed += a.router.Fail(a.credentials.Check) // what came in meanwhile
	if failed+ended == 0 {
		return
	}
	if ended > 0 {
		why.Event, why.Code = audit.SessionDisconnected, audit.OK
		why.Details = map[string]string{"connections": fmt.Sprint(ended)}
		a.audit.Record(context.Background(), why)
	}
	a.log.Info("ended what stood on a credential", "resource", why.Resource, "serial", why.CertSerial, "reason", why.Reason,
		"calls", failed, "connections", ended)
}
