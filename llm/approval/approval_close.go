package approval

import (
	"context"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

var approvalClose = commands.Spec{
	Name:    "approval.close",
	Summary: "End an approval that a site has requested: the site has taken its decision over, or does not wait for one any more.",
	Effect:  commands.Write,
	Action:  "approval:close",
	Errors:  []protocol.Code{protocol.NotFound},
	Example: `{"approval_id":"01980a3e-9f6b-7c54-8b1e-3f2d6a7c9e10.5d41402abc4b","taken":true}`,
}

// CloseParams are the params of approval.close.
type CloseParams struct {
	ID     string `json:"approval_id" len:"36-64" audit:"yes" doc:"id of the approval"`
	Taken  bool   `json:"taken,omitempty" audit:"yes" doc:"true if the approval was given, and the call goes on there by it"`
	Reason string `json:"reason,omitempty" len:"0-500" text:"lines" audit:"yes" doc:"reason why nobody is asked any more"`
}

// Target implements [commands.Targeter].
func (p CloseParams) Target() commands.Resource {
	return commands.Resource{Type: "approval", ID: p.ID}
}

// CloseRequested ends an approval of a call at another bridge. One that has ended stays as it
// is.
func (s *Service) CloseRequested(ctx context.Context, call *commands.Call, p CloseParams) (Approval, error) {
	r, _, ok := s.opts.Approvals.Get(p.ID)
	if !ok || !r.Elsewhere || !r.requestedBy(call.Principal) {
		return Approval{}, unknown(p.ID)
	}
	var err error
	if p.Taken {
		err = s.Settle(ctx, p.ID)
	} else {
		err = s.Withdraw(ctx, p.ID, p.Reason)
	}
	if err != nil {
		return Approval{}, err
	}
	if r, _, ok = s.opts.Approvals.Get(p.ID); !ok {
		return Approval{}, unknown(p.ID)
	}
	return s.view(r), nil
}
