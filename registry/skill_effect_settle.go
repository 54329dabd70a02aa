package registry

import (
	"context"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/registry/effects"
)

var skillEffectSettle = commands.Spec{
	Name:    "skill.effect.settle",
	Summary: "Say whether an effect of unknown outcome was done, after somebody has looked.",
	Effect:  commands.Write,
	Action:  "skill:settle",
	Errors:  []protocol.Code{protocol.NotFound, protocol.PermissionDenied, protocol.InvalidState},
	Example: `{"effect_id":"5f0c2e7d9a414a0b8f0e6f1f5f2f4d11","outcome":"done","reason":"the door was found open"}`,
}

// SettleEffectParams are the params of skill.effect.settle.
type SettleEffectParams struct {
	EffectID string           `json:"effect_id" len:"1-64" doc:"the effect, as in skill.effect.list or in the details of a 4012"`
	Outcome  effects.State    `json:"outcome" enum:"done,not_done" doc:"done: a call of the same effect is answered by it while the window lasts; not_done: the next call is made"`
	Reason   string           `json:"reason" len:"1-512" text:"line" doc:"source of that knowledge, for others"`
	Space    protocol.SpaceID `json:"space_id,omitempty" doc:"the space, the caller's own by default"`
}

// Target implements [commands.Targeter].
func (p SettleEffectParams) Target() commands.Resource {
	return commands.Resource{Type: "skill", Space: p.Space}
}

// SettleEffect settles the outcome of a deed, for the owner of its skill or an
// operator.
func (s *Service) SettleEffect(ctx context.Context, call *commands.Call, p SettleEffectParams) (effects.View, error) {
	space, err := in(call, p.Space)
	if err != nil {
		return effects.View{}, err
	}
	unknown := protocol.Errorf(protocol.NotFound, "there is no effect %q", p.EffectID).With("effect_id", p.EffectID)
	if s.effects == nil {
		return effects.View{}, unknown
	}
	r, ok := s.effects.Get(space, p.EffectID)
	switch {
	case !ok, !s.maySettle(call, r) && !r.By.Is(call.Principal):
		return effects.View{}, unknown
	case !s.maySettle(call, r):
		return effects.View{}, protocol.Errorf(protocol.PermissionDenied, "the effect is settled by the owner of its skill or an operator, not by who made the call").
			With("effect_id", p.EffectID)
	}
	r, err = s.effects.Settle(ctx, space, p.EffectID, p.Outcome == effects.Done, call.Principal.ID, p.Reason)
	if err != nil {
		return effects.View{}, err
	}
	return r.View(), nil
}
