package approval

import (
	"context"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

var approvalGet = commands.Spec{
	Name:    "approval.get",
	Summary: "Show a call of a tool that waits for approval, or what became of it.",
	Effect:  commands.Read,
	Action:  "approval:get",
	Errors:  []protocol.Code{protocol.NotFound},
	Example: `{"approval_id":"01980a3e-9f6b-7c54-8b1e-3f2d6a7c9e10"}`,
}

// GetParams are the params of approval.get.
type GetParams struct {
	ID string `json:"approval_id" len:"1-64" audit:"yes" doc:"id of the approval"`
}

// Target implements [commands.Targeter].
func (p GetParams) Target() commands.Resource {
	return commands.Resource{Type: "approval", ID: p.ID}
}

// Facts returns the attributes of an approval for policies.
func (s *Service) Facts(space protocol.SpaceID, id string) (a Approval, ok bool) {
	r, _, ok := s.opts.Approvals.Get(id)
	if !ok || r.Space != space {
		return a, false
	}
	return r.Approval, true
}

// Get shows an approval.
func (s *Service) Get(_ context.Context, call *commands.Call, p GetParams) (Approval, error) {
	r, _, ok := s.opts.Approvals.Get(p.ID)
	if !ok || !s.visible(call.Principal, r) {
		return Approval{}, unknown(p.ID)
	}
	return s.view(r), nil
}
