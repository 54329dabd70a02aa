package dispatch

import (
	"net/netip"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// A Caller is who started a dispatch and how it asked, as authenticated then:
// what is needed to judge again whenever a member is asked later.
type Caller struct {
	Kind       protocol.Kind     `json:"kind"`
	ID         string            `json:"id"`
	Space      protocol.SpaceID  `json:"space"`
	Roles      []string          `json:"roles,omitempty"`
	Attributes map[string]string `json:"attributes,omitempty"`
	Credential string            `json:"credential,omitempty"`
	Method     string            `json:"method,omitempty"`
	Scopes     []string          `json:"scopes,omitempty"`
	Expires    time.Time         `json:"expires,omitzero"`
	Issued     time.Time         `json:"issued,omitzero"`
	CertSerial protocol.Serial   `json:"cert_sn,omitempty"`

	Sender  string     `json:"sender_id,omitempty"`
	Door    string     `json:"door,omitempty"`
	Address netip.Addr `json:"address,omitzero"`
}

// CallerOf is a principal as a caller.
func CallerOf(p *protocol.Principal) Caller {
	return Caller{
		Kind: p.Kind, ID: p.ID, Space: p.Space, Roles: p.Roles, Attributes: p.Attributes, Credential: p.Credential,
		Method: p.Method, Scopes: p.Scopes, Expires: p.Expires, Issued: p.Issued, CertSerial: p.CertSerial,
	}
}

// Principal is the caller as a principal.
func (c *Caller) Principal() *protocol.Principal {
	return &protocol.Principal{
		Kind: c.Kind, ID: c.ID, Space: c.Space, Roles: c.Roles, Attributes: c.Attributes, Credential: c.Credential,
		Method: c.Method, Scopes: c.Scopes, Expires: c.Expires, Issued: c.Issued, CertSerial: c.CertSerial,
	}
}

// denied says why a member may not be asked any more, nil if it may. Nobody
// can tell for a dispatch that does not say who started it.
func (r *run) denied(seat int) error {
	if r.e.opts.MayAsk == nil {
		return nil
	}
	if r.d.Caller == nil {
		return protocol.Errorf(protocol.PermissionDenied, "it is not known who started the dispatch")
	}
	return r.e.opts.MayAsk(r.d, r.d.Seats[seat].Skill)
}
