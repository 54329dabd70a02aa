package dispatch

import (
	"net/netip"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/protocol/grant"
)

// A Caller is the principal that started a dispatch, and its way of asking.
// Policy judges it again before each later member.
type Caller struct {
	grant.Grant

	Sender  string     `json:"sender_id,omitempty"`
	Door    string     `json:"door,omitempty"`
	Address netip.Addr `json:"address,omitzero"`
}

// CallerOf is a principal as a caller.
func CallerOf(p *protocol.Principal) Caller { return Caller{Grant: grant.Of(p)} }

// callerName identifies the party that started the dispatch.
func (d *Dispatch) callerName() string {
	who := protocol.Party{Space: d.Home, ID: d.Principal}
	if d.Caller != nil {
		who.Kind = d.Caller.Kind
	}
	return who.String()
}

// denied fails if the caller of the dispatch may not invoke a member any more, or
// is unknown.
func (r *run) denied(seat int) error { return r.e.mayAsk(r.d, r.d.Seats[seat].Skill) }

func (e *Engine) mayAsk(d *Dispatch, skill protocol.SkillID) error {
	if e.opts.MayAsk == nil {
		return nil
	}
	if d.Caller == nil {
		return protocol.Errorf(protocol.PermissionDenied, "the caller of the dispatch is unknown")
	}
	return e.opts.MayAsk(d, skill)
}

// callOffWithGrant cancels the dispatch when its caller's credential is
// revoked. After a mere expiry no further member is asked, and those that were
// asked may finish.
func (r *run) callOffWithGrant() (stop func() bool) {
	if r.d.Caller == nil {
		return func() bool { return true }
	}
	return r.e.opts.Grants.OnEnd(r.d.Caller.Grant, func(why error) {
		if !grant.Expired(why) {
			r.leaveNote(note{cancel: true, because: protocol.AsError(why).Message})
		}
	})
}
