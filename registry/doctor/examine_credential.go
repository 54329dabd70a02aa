package doctor

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// credential: the one it shows, and whether that is valid.
func (e *examination) credential() {
	const check = "credential"
	counts := slices.IndexFunc(e.credentials, func(c Credential) bool { return !c.Expired && !c.Revoked })
	refused := e.latest(time.Time{}, ofFamily("connect"))
	switch {
	case e.client != nil:
		e.shown(check)
	case e.agent.Line:
		e.say(check, OK, "it is connected over WebSocket with a credential that counts")
	case refused != nil && e.isCredential(refused):
		e.blame(check, Problem, refused)
	case counts >= 0:
		e.say(check, OK, "it has a credential that counts: %s", e.credentials[counts])
	case len(e.credentials) > 0:
		e.find(check, Problem, "give it another one: aibridge key create, or aibridge cert issue", "no credential of it counts any more: %s", e.credentials[0])
	default:
		e.say(check, Unknown, "the bridge keeps no key and no certificate of it; a token or another party's credential may be what it shows")
	}
}

// isCredential reports whether a fault is about a credential.
func (e *examination) isCredential(c *Case) bool {
	switch c.Kind {
	case NoCredential, UnknownCredential, ExpiredCredential, RevokedCredential, Throttled:
		return true
	}
	return false
}

// soon is the time, before the end of a credential, at which that is said at the latest.
const soon = 24 * time.Hour

// shown notes the credential that the connected client has shown.
func (e *examination) shown(check string) {
	who := e.client.Who
	if !e.knows(who.Party()) {
		e.say(check, OK, "it is connected with a credential of its owner that counts")
		return
	}
	text := fmt.Sprintf("%s %s of %s %s, which acts for %s", methodInWords(who.Method), short(who.Credential, mostName), who.Kind, who.ID, e.actsFor(who))
	switch left := who.Expires.Sub(e.now); {
	case who.Expires.IsZero():
		e.say(check, OK, "%s, and does not expire", text)
	case left < soon && who.CertSerial == "" && who.Method != protocol.MethodToken:
		e.find(check, Warning, "renew it before it ends: aibridge key create makes another key", "%s, ends at %s", text, who.Expires.UTC().Format(time.RFC3339))
	default:
		e.say(check, OK, "%s, until %s", text, who.Expires.UTC().Format(time.RFC3339))
	}
}

// actsFor lists the agents that a principal may be.
func (e *examination) actsFor(who *protocol.Principal) string {
	agents := e.Agents.Behind(who.Party(), e.client.ClientID)
	const most = 5
	names := make([]string, 0, most)
	for _, id := range agents[:min(len(agents), most)] {
		names = append(names, string(id))
	}
	if more := len(agents) - most; more > 0 {
		names = append(names, plural(more, "other"))
	}
	switch {
	case who.Unbounded():
		return "every agent"
	case len(names) == 0:
		return "no agent"
	}
	return strings.Join(names, ", ")
}

func methodInWords(method string) string {
	switch method {
	case protocol.MethodAPIKey:
		return "API key"
	case protocol.MethodToken:
		return "token"
	case protocol.MethodCertificate:
		return "certificate"
	case protocol.MethodPassword:
		return "password"
	case protocol.MethodAnonymous:
		return "nothing"
	}
	return method
}

// String describes a credential in a few words.
func (c Credential) String() string {
	text := c.Kind + " " + c.ID
	switch {
	case c.Revoked:
		return text + " was revoked"
	case c.Expired:
		return text + " expired at " + c.Expires.UTC().Format(time.RFC3339)
	case c.Expires.IsZero():
		return text
	}
	return text + " until " + c.Expires.UTC().Format(time.RFC3339)
}
