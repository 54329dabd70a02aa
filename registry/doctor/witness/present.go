package witness

import (
	"slices"
	"time"

	"github.com/aibridge/aibridge/commands"
	mqttdoor "github.com/aibridge/aibridge/doors/mqtt"
	"github.com/aibridge/aibridge/doors/mqtt/session"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/registry/doctor"
	"github.com/aibridge/aibridge/security"
	"github.com/aibridge/aibridge/security/password"
	"github.com/aibridge/aibridge/security/pki"
	"github.com/aibridge/aibridge/security/quota"
)

// Clients are the MQTT sessions as the doctor sees them.
type Clients struct{ MQTT *mqttdoor.Clients }

var _ doctor.Clients = Clients{}

// mostFilters bounds the filters of a session that are looked at.
const mostFilters = 100

// Session implements [doctor.Clients].
func (c Clients) Session(space protocol.SpaceID, clientID string) (doctor.Session, bool) {
	info, ok := c.MQTT.Session(space, clientID)
	if !ok {
		return doctor.Session{}, false
	}
	s := doctor.Session{
		ClientID: info.ClientID, Principal: info.Principal, Since: info.Since, Remote: info.Remote, Listener: info.Listener,
		Queued: info.Queued, Inflight: info.Inflight, Filters: filtersOf(&info),
	}
	if info.Connected {
		s.Who, _ = c.MQTT.Owner(space, clientID)
	}
	return s, true
}

func filtersOf(info *session.Info) []string {
	filters := make([]string, 0, min(len(info.Filters), mostFilters))
	for _, f := range info.Filters[:min(len(info.Filters), mostFilters)] {
		filters = append(filters, f.Filter)
	}
	return filters
}

// Credentials are the bridge's credentials, as the doctor sees them.
type Credentials struct {
	Keys         *security.KeyService
	Certificates *pki.Service
	Passwords    *password.Service // nil if there are none
	// Party finds the principal of the newest key of a party.
	Party func(kind protocol.Kind, id string, space protocol.SpaceID) (*protocol.Principal, bool)
}

var _ doctor.Credentials = Credentials{}

// Of implements [doctor.Credentials].
func (c Credentials) Of(party protocol.Party) (held []doctor.Credential) {
	for _, k := range c.Keys.Held(party) {
		held = append(held, doctor.Credential{
			Kind: "API key", ID: k.ID, Expired: k.State == security.KeyExpired, Revoked: k.State == security.KeyRevoked, Expires: moment(k.ExpiresAt),
		})
	}
	for _, h := range c.Certificates.Held(party) {
		held = append(held, doctor.Credential{Kind: "certificate", ID: string(h.Serial), Expired: h.Expired, Revoked: h.Revoked, Expires: h.Expires})
	}
	if c.Passwords != nil && party == password.Party(party.ID) && c.Passwords.Known(party.ID) {
		held = append(held, doctor.Credential{Kind: "password", ID: "of user " + party.ID})
	}
	counts := func(d doctor.Credential) int {
		if d.Expired || d.Revoked {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(held, func(a, b doctor.Credential) int { return counts(a) - counts(b) })
	return held
}

func moment(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}

// Principal implements [doctor.Credentials].
func (c Credentials) Principal(party protocol.Party) *protocol.Principal {
	if who, ok := c.Party(party.Kind, party.ID, party.Space); ok {
		return who
	}
	for _, h := range c.Certificates.Held(party) {
		if who, err := c.Certificates.Holder(h.Serial); err == nil {
			return who
		}
	}
	return nil
}

// Rights are the rights by policy, as the doctor sees them.
type Rights struct {
	Authorizer security.Authorizer
	Topics     *security.TopicRights
}

var _ doctor.Rights = Rights{}

// MayRegister implements [doctor.Rights].
func (r Rights) MayRegister(who *protocol.Principal, space protocol.SpaceID, id protocol.AgentID) bool {
	on := commands.Resource{Type: "agent", ID: string(id), Space: space}
	return r.Authorizer.AuthorizeCall(&commands.Call{Principal: who, SenderID: who.ID, Door: mqttdoor.Name}, "agent:register", on) == nil
}

// MayPublish implements [doctor.Rights].
func (r Rights) MayPublish(who *protocol.Principal, topic string) string {
	return why(r.Topics.MayPublish(who, topic, false))
}

// MaySubscribe implements [doctor.Rights].
func (r Rights) MaySubscribe(who *protocol.Principal, filter string) string {
	return why(r.Topics.MaySubscribe(who, filter))
}

func why(ruling security.Ruling) string {
	if ruling.Reason == 0 {
		return ""
	}
	return ruling.Text
}

// Quotas are the keeper's limits, as the doctor sees them.
type Quotas struct{ Keeper *quota.Keeper }

var _ doctor.Quotas = Quotas{}

// Reached implements [doctor.Quotas].
func (q Quotas) Reached(who *protocol.Principal) []string { return q.Keeper.Reached(who) }
