package commands

import (
	"encoding/json"

	"github.com/aibridge/aibridge/protocol"
)

// A settled outcome is what became of a request, for other processes.
type settled struct {
	Result   json.RawMessage `json:"result,omitempty"`
	Code     protocol.Code   `json:"code,omitempty"`
	Message  string          `json:"message,omitempty"`
	Details  map[string]any  `json:"details,omitempty"`
	Warnings []string        `json:"warnings,omitempty"`
}

// settleClaim tells other processes what became of a request that was claimed
// here, or that it may be claimed again.
func (r *Router) settleClaim(c *Call, out outcome, forgotten bool) {
	if forgotten {
		r.shared.Settle(c.claim(), nil)
		return
	}
	s := settled{Result: out.result, Warnings: out.warnings}
	if e := out.err; e != nil {
		s.Code, s.Message, s.Details = e.Code, e.Message, e.Details
	}
	answer, err := json.Marshal(s)
	if err != nil { // a result that is no JSON, which no caller can read either
		answer = []byte(`{}`)
	}
	r.shared.Settle(c.claim(), answer)
}

// outcome is what the other process has settled.
func (t *Taken) outcome() outcome {
	var s settled
	if err := json.Unmarshal(t.Answer, &s); err != nil {
		return refused(protocol.Wrap(protocol.OutcomeUnknown, err, "the answer of another bridge cannot be read"))
	}
	out := outcome{result: s.Result, warnings: s.Warnings, repeat: true}
	if s.Code != "" {
		out.err = &protocol.Error{Code: s.Code, Message: s.Message, Details: s.Details}
	}
	return out
}
