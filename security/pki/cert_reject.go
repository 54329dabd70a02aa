package pki

import (
	"context"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

var certReject = commands.Spec{
	Name:    "cert.reject",
	Summary: "Reject a pending request, as an officer of its authority.",
	Effect:  commands.Write,
	Action:  "cert:approve",
	Errors:  []protocol.Code{protocol.PermissionDenied, protocol.NotFound, protocol.InvalidState, protocol.RevisionConflict},
	Example: `{"request_id":"6e0f0a5e-58a1-4b7b-9c7c-1f2d3c4b5a69","reason":"the skill is not in the store"}`,
}

// Reject ends a request without a certificate.
func (s *Service) Reject(ctx context.Context, call *commands.Call, p DecisionParams) (Result, error) {
	return s.decide(ctx, call, p, Rejected)
}
