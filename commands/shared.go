package commands

import (
	"encoding/json"

	"github.com/aibridge/aibridge/protocol"
)

// A settled outcome is the outcome of a request as other processes read it.
type settled struct {
	Result   json.RawMessage `json:"result,omitempty"`
	Code     protocol.Code   `json:"code,omitempty"`
	Message  string          `json:"message,omitempty"`
	Details  map[string]any  `json:"details,omitempty"`
	Warnings []string        `json:"warnings,omitempty"`
}

// settleClaim stores the outcome of a request that was claimed here for other
// processes, or gives the claim up.
func (r *Router) settleClaim(c *Call, out outcome, forgotten bool) {
	claim := c.claim()
	if forgotten {
		r.shared.Settle(claim, nil)
		return
	}
	r.shared.Settle(claim, r.sealed(claim, out))
}

// sealed is an outcome as other processes get it, empty if it cannot be passed on.
func (r *Router) sealed(claim Claim, out outcome) []byte {
	s := settled{Result: out.result, Warnings: out.warnings}
	if e := out.err; e != nil {
		s.Code, s.Message, s.Details = e.Code, e.Message, e.Details
	}
	answer, err := json.Marshal(s)
	if err == nil {
		answer, err = r.opts.Sealer.Seal(answer, claim.purpose())
	}
	if err != nil {
		r.opts.Log.Warn("the answer to a request cannot be told to other bridges, where a repeat will get 4012", "id", claim.RequestID, "error", err)
		return []byte{}
	}
	return answer
}

// purpose is the purpose that the answer to a claimed request is sealed for.
func (c *Claim) purpose() string { return "answer\x00" + c.Principal + "\x00" + c.RequestID }

// taken is the outcome of a claim that another process has settled.
func (r *Router) taken(claim Claim, t *Taken) outcome {
	var s settled
	answer, err := r.opts.Sealer.Open(t.Answer, claim.purpose())
	if err == nil {
		err = json.Unmarshal(answer, &s)
	}
	if err != nil {
		return refused(protocol.Wrap(protocol.OutcomeUnknown, err, "the answer of another bridge cannot be read"))
	}
	out := outcome{result: s.Result, warnings: s.Warnings, repeat: true}
	if s.Code != "" {
		out.err = &protocol.Error{Code: s.Code, Message: s.Message, Details: s.Details}
	}
	return out
}
