package registry

import (
	"bytes"
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/registry/effects"
)

// startOnce is [Service.startInvoke] of a capability with an effect key. Storing the
// effect takes its time, so the call has a goroutine.
func (s *Service) startOnce(ctx context.Context, v *invocation) {
	deed, err := v.deed()
	if err == nil && s.effects == nil {
		err = protocol.Errorf(protocol.Internal, "this bridge keeps no effects")
	}
	if err != nil {
		v.done(InvokeSkillResult{}, err)
		return
	}
	done := v.done
	go func() {
		defer func() {
			if p := recover(); p != nil {
				cause := fmt.Errorf("panic: %v\n%s", p, debug.Stack())
				done(InvokeSkillResult{}, protocol.Wrap(protocol.Internal, cause, protocol.Internal.String()))
			}
		}()
		done(s.once(ctx, v, deed))
	}()
}

// once makes a call unless another one is the same deed; then it waits for that
// one and has its answer.
func (s *Service) once(ctx context.Context, v *invocation, deed *effects.Record) (InvokeSkillResult, error) {
	for {
		r, mine, err := s.effects.Begin(ctx, deed)
		switch {
		case err != nil:
			return InvokeSkillResult{}, err
		case mine:
			return s.make(ctx, v, r)
		case r.State == effects.Done:
			return v.answeredBy(r), nil
		case r.State == effects.Unknown && r.Question == nil:
			return InvokeSkillResult{}, barred(r)
		case r.State == effects.Unknown:
			s.stirDoubts()
		}
		if _, err := s.effects.Await(ctx, r); err != nil {
			if r.State == effects.Unknown {
				return InvokeSkillResult{}, barred(r)
			}
			return InvokeSkillResult{}, err
		}
	}
}

// make makes the call of a deed, and notes the outcome before the caller gets it.
func (s *Service) make(ctx context.Context, v *invocation, r *effects.Record) (InvokeSkillResult, error) {
	result, err := s.askOnce(ctx, v)
	storing, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeEnd)
	defer cancel()
	var unstored error
	doubtful := err != nil && v.open && !v.capability.repeatable()
	switch {
	case err == nil:
		unstored = s.effects.Done(storing, r, result.AgentID, result.Data)
	case doubtful:
		agent, _ := protocol.AsError(err).Details["agent_id"].(string)
		unstored = s.effects.Doubt(storing, r, protocol.AgentID(agent), protocol.AsError(err).Message)
	default:
		unstored = s.effects.Forget(storing, r)
	}
	if unstored != nil { // the record goes on saying that it runs, and is doubted
		s.log.Error("the end of an effect is not stored", "skill", v.skill.ID, "capability", v.capability.ID, "error", unstored)
	}
	if doubtful {
		return s.resolve(ctx, v, r, protocol.AsError(err).With("effect_id", r.ID))
	}
	return result, err
}

// storeEnd is the time that the end of a call is tried to be stored.
const storeEnd = 10 * time.Second

// askOnce asks an agent and waits for the answer.
func (s *Service) askOnce(ctx context.Context, v *invocation) (result InvokeSkillResult, err error) {
	peers := s.peers(nil, v.skill, nil)
	if len(peers) == 0 {
		return InvokeSkillResult{}, offline(v.skill)
	}
	ended := make(chan struct{})
	v.done = func(r InvokeSkillResult, e error) {
		r.Data = bytes.Clone(r.Data)
		result, err = r, e
		close(ended)
	}
	s.asking.Ask(ctx, &v.Request, peers)
	<-ended
	return result, err
}

// resolve waits, as long as the caller does, until the outcome of its call is
// known after all.
func (s *Service) resolve(ctx context.Context, v *invocation, r *effects.Record, unknown *protocol.Error) (InvokeSkillResult, error) {
	doubted, ok := s.effects.Get(r.Space, r.ID)
	if !ok || doubted.Token != r.Token || doubted.Question == nil || ctx.Err() != nil {
		return InvokeSkillResult{}, unknown
	}
	s.stirDoubts()
	if doubted.State == effects.Unknown {
		var err error
		if doubted, err = s.effects.Await(ctx, doubted); err != nil {
			return InvokeSkillResult{}, unknown
		}
	}
	if doubted != nil && doubted.Token == r.Token && doubted.State == effects.Done {
		return v.answeredBy(doubted), nil
	}
	return InvokeSkillResult{}, protocol.Errorf(protocol.TargetUnavailable, "it was not done, as was found out since: %s", unknown.Message).With("effect_id", r.ID)
}

// answeredBy is the answer to an earlier call of the same effect, or the state of that
// call. The result of another principal's call is left out.
func (v *invocation) answeredBy(r *effects.Record) InvokeSkillResult {
	view := r.View()
	result := InvokeSkillResult{
		SkillID: v.skill.ID, CapabilityID: v.capability.ID, AgentID: r.Agent, Data: []byte("null"),
		ExecutionTime: milliseconds(time.Since(v.began)), Effect: &view,
	}
	if !r.By.Is(v.Call.Principal) {
		result.Effect = withoutCaller(view)
	} else if r.Data != nil {
		result.Data = r.Data
	}
	v.Call.Warn("the call was not made: an earlier one did the same %s ago", time.Since(time.UnixMilli(r.Began)).Truncate(time.Millisecond))
	return result
}

// withoutCaller is a deed as seen by principals that may know of it, but not its
// caller.
func withoutCaller(v effects.View) *effects.View {
	v.By, v.Why, v.SettledBy = "", "", ""
	return &v
}

// barred is the error for a call that may be done already.
func barred(r *effects.Record) error {
	return protocol.Errorf(protocol.OutcomeUnknown, "an earlier call of the same effect may have done it; look before it is settled by skill.effect.settle").
		With("effect_id", r.ID).With("since", r.Began)
}
