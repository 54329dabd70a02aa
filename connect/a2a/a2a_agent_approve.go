package a2a

import (
	"context"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

var agentApprove = commands.Spec{
	Name:    "a2a.agent.approve",
	Summary: "Approve the card of an agent elsewhere as it is now, so that the agent can be used.",
	Effect:  commands.Write,
	Action:  "a2a:agent.approve",
	Errors:  []protocol.Code{protocol.NotFound, protocol.InvalidState, protocol.RevisionConflict},
	Example: `{"agent_id":"travel","digest":"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"}`,
}

// ApproveParams are the params of a2a.agent.approve.
type ApproveParams struct {
	Named
	Digest string `json:"digest" len:"64" pattern:"^[0-9a-f]+$" doc:"of a2a.agent.get: the card that was looked at"`
}

// Approve approves a card, which must not have changed since the caller looked at
// it.
func (s *Service) Approve(ctx context.Context, call *commands.Call, p ApproveParams) (View, error) {
	if err := s.on(); err != nil {
		return View{}, err
	}
	a, err := s.find(call, p.Named)
	if err != nil {
		return View{}, err
	}
	a, err = s.change(ctx, a, func(a *Agent) error {
		if now := a.digest(); p.Digest != now {
			return protocol.Errorf(protocol.RevisionConflict, "the card has changed meanwhile: look at it again").With("digest", now)
		}
		if c := a.card(); c != nil { // an agent that cannot be called is not approved
			if _, _, err := s.way(a, c); err != nil {
				return protocol.Errorf(protocol.InvalidState, "%s", err.Message)
			}
		}
		a.Approved, a.By, a.ApprovedAt = p.Digest, call.Principal.ID, s.opts.Now().UnixMilli()
		return nil
	})
	if err != nil {
		return View{}, err
	}
	return a.view(), nil
}
