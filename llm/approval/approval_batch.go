package approval

import (
	"context"
	"fmt"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

var approvalBatch = commands.Spec{
	Name:    "approval.batch",
	Summary: "Approve or deny several equal calls that wait: the same tool, arguments and roster. Each is decided by itself, as by approval.decide.",
	Effect:  commands.Write,
	Action:  "approval:decide",
	Errors:  []protocol.Code{protocol.NotFound, protocol.InvalidState, protocol.PermissionDenied},
	Example: `{"approvals":[{"approval_id":"01980a3e-9f6b-7c54-8b1e-3f2d6a7c9e10","nonce":"Zm9vYmFyYmF6cXV4Zm9vYmFy"}],"decision":"approve"}`,
}

// BatchParams are the params of approval.batch.
type BatchParams struct {
	Approvals []Shown `json:"approvals" len:"1-100" audit:"yes" doc:"approvals to decide, with their nonces"`
	Decision  string  `json:"decision" enum:"approve,deny" audit:"yes" doc:"action"`
	Reason    string  `json:"reason,omitempty" len:"0-500" text:"lines" audit:"yes" doc:"reason; the models read it when the calls are denied"`
}

// A Shown is the reference to an approval that its decider has seen.
type Shown struct {
	ID    string `json:"approval_id" len:"1-64" doc:"id of the approval"`
	Nonce string `json:"nonce" len:"1-64" doc:"nonce of the approval, as shown"`
}

// BatchResult is the result of approval.batch.
type BatchResult struct {
	Decided []Decided `json:"decided" doc:"outcome of each, in the order of the params"`
	Failed  int       `json:"failed" doc:"number that could not be decided"`
}

// A Decided is the outcome of one approval of a batch.
type Decided struct {
	ID      string        `json:"approval_id" doc:"id of the approval"`
	State   State         `json:"state,omitempty" doc:"approved or denied; pending if further approvals are required; absent if it could not be decided"`
	Code    protocol.Code `json:"code,omitempty" doc:"reason why it could not be decided"`
	Message string        `json:"message,omitempty" doc:"the same in words"`
}

// Batch decides several approvals of equal calls. If one is unknown or its call differs
// from the first, none is decided.
func (s *Service) Batch(ctx context.Context, call *commands.Call, p BatchParams) (BatchResult, error) {
	if err := s.equal(call.Principal, p.Approvals); err != nil {
		return BatchResult{}, err
	}
	result := BatchResult{Decided: make([]Decided, len(p.Approvals))}
	for i, shown := range p.Approvals {
		one, err := s.Decide(ctx, call, DecideParams{ID: shown.ID, Nonce: shown.Nonce, Decision: p.Decision, Reason: p.Reason})
		result.Decided[i] = Decided{ID: shown.ID, State: one.State}
		if e := protocol.AsError(err); e != nil {
			result.Decided[i].Code, result.Decided[i].Message = e.Code, e.Message
			result.Failed++
		}
	}
	return result, nil
}

// equal returns the error of approvals that are not about equal calls.
func (s *Service) equal(who *protocol.Principal, list []Shown) error {
	hash, seen := "", make(map[string]bool, len(list))
	for i, shown := range list {
		r, _, ok := s.opts.Approvals.Get(shown.ID)
		field := fmt.Sprintf("approvals[%d].approval_id", i)
		switch {
		case !ok || !s.visible(who, r):
			return unknown(shown.ID)
		case seen[shown.ID]:
			return protocol.InvalidParam(field, "is there twice")
		case i > 0 && r.Hash != hash:
			return protocol.InvalidParam(field, "is another call than the first: only the same tool with the same arguments and roster can be decided about at once")
		}
		hash, seen[shown.ID] = r.Hash, true
	}
	return nil
}
