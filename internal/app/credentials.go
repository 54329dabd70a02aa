package app

import (
	"context"
	"fmt"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/registry"
	"github.com/aibridge/aibridge/security"
	"github.com/aibridge/aibridge/security/audit"
	"github.com/aibridge/aibridge/security/pki"
)

// followCredentials has the end of keys, tokens and certificates bite, on
// whichever bridge they were revoked. Everything else runs already.
func followCredentials(s *state, d *domains, router *commands.Router) {
	d.identities.tables.keys.OnChange(func(id string, old, now *security.Key) {
		if old != nil && !old.SameRights(now) {
			go endCredentials(s, router, audit.Entry{Resource: "key/" + id, Reason: "the API key was revoked"})
		}
	})
	d.identities.tables.revocations.OnChange(func(id string, _, now *security.Revocation) {
		d.identities.tokens.Note()
		if now != nil {
			go endCredentials(s, router, audit.Entry{Resource: "token/" + id, Reason: "the token was revoked"})
		}
	})
	d.identities.tokens.Note() // for changes since it was opened
	if passwords := d.identities.passwords; passwords != nil {
		s.life.Run("passwords", func(ctx context.Context) error {
			return passwords.Run(ctx, func() {
				go endCredentials(s, router, audit.Entry{Resource: "passwords", Reason: "the password was changed, or the user removed"})
			})
		})
	}
	d.identities.pki.OnEnd(func(e pki.Ended) { certificateEnded(s, d.agents, router, e) })
	d.identities.pki.OnEnd(func(e pki.Ended) { d.scenes.SkillChanged(e.Space, e.Skill) })
}

// certificateEnded ends everything that was based on a certificate: the work of its
// holder's agents, its calls, and its connections at every door.
func certificateEnded(s *state, agents *registry.Service, router *commands.Router, e pki.Ended) {
	suspended := agents.CertificateEnded(e.Serial, e.Err()) // before their disconnection would give another reason
	endCredentials(s, router, audit.Entry{
		Principal: e.Principal, Kind: e.Kind, Space: e.Space, CertSerial: e.Serial, Reason: e.Text,
	})
	s.log.Info("suspended what agents did with a certificate", "serial", e.Serial, "reason", e.Reason, "agents", suspended)
}

// endCredentials ends everything that is based on a credential that is no longer valid: calls in
// flight, connections, and grants that outlive calls. It looks at all of them; new ones are checked
// on arrival. The entry says why.
func endCredentials(s *state, router *commands.Router, why audit.Entry) {
	failed := router.Fail(s.credentials.Check)
	ended := s.clients.DisconnectFor(s.credentials.Check) + s.credentials.Review()
	failed += router.Fail(s.credentials.Check) // calls that came in meanwhile
	if failed+ended == 0 {
		return
	}
	if ended > 0 {
		why.Event, why.Code = audit.SessionDisconnected, audit.OK
		why.Details = map[string]string{"connections": fmt.Sprint(ended)}
		s.audit.Record(context.Background(), why)
	}
	s.log.Info("ended what stood on a credential", "resource", why.Resource, "serial", why.CertSerial, "reason", why.Reason,
		"calls", failed, "connections", ended)
}
