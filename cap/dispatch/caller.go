package dispatch

import (
	"net/netip"

	"github.com/aibridge/aibridge/protocol"
)

// A Caller is who started a dispatch and how it asked, as authenticated then:
// what is needed to judge again whenever a member is asked later.
type Caller struct {
	protocol.Identity

	Sender  string     `json:"sender_id,omitempty"`
	Door    string     `json:"door,omitempty"`
	Address netip.Addr `json:"address,omitzero"`
}

// CallerOf is a principal as a caller.
func CallerOf(p *protocol.Principal) Caller { return Caller{Identity: p.Identity()} }

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
