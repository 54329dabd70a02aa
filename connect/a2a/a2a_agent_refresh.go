package a2a

import (
	"context"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

var agentRefresh = commands.Spec{
	Name:    "a2a.agent.refresh",
	Summary: "Read the card of an agent elsewhere now; one that has changed waits for approval.",
	Effect:  commands.Write,
	Action:  "a2a:agent.refresh",
	Errors:  []protocol.Code{protocol.NotFound, protocol.InvalidState, protocol.TargetUnavailable},
	Example: `{"agent_id":"travel"}`,
}

// Refresh reads the card of an agent.
func (s *Service) Refresh(ctx context.Context, call *commands.Call, p Named) (View, error) {
	if err := s.on(); err != nil {
		return View{}, err
	}
	a, err := s.find(call, p)
	if err != nil {
		return View{}, err
	}
	err = call.Park(ctx, func(ctx context.Context) error {
		a, err = s.read(ctx, a)
		return err
	})
	if err != nil {
		return View{}, err
	}
	return a.view(), nil
}

// read reads the card of an agent, and stores it if it is new.
func (s *Service) read(ctx context.Context, a *Agent) (*Agent, error) {
	card, publisher, err := s.fetch(ctx, a)
	problem := ""
	if err != nil {
		problem = line(protocol.AsError(err).Message, maxSaid)
	}
	now, failed := s.change(ctx, a, func(now *Agent) error {
		if now.URL != a.URL || now.AddedAt != a.AddedAt { // it was added anew meanwhile
			return noAgent(a.ID)
		}
		now.Problem = problem
		if err == nil && (string(now.Card) != string(card) || now.Publisher != publisher) {
			now.Card, now.Publisher, now.ReadAt = card, publisher, s.opts.Now().UnixMilli()
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return now, failed
}
