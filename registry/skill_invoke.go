package registry

import (
	"bytes"
	"context"
	"encoding/json"
	"strconv"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/registry/ask"
	"github.com/aibridge/aibridge/registry/effects"
)

var skillInvoke = commands.Spec{
	Name:    "skill.invoke",
	Aliases: []string{"skill.call"},
	Summary: "Have a skill do something.",
	Effect:  commands.Act,
	Action:  "skill:invoke",
	Async:   true,
	Errors: []protocol.Code{
		protocol.NotFound, protocol.AgentOffline, protocol.TargetUnavailable,
		protocol.TimedOut, protocol.OutcomeUnknown, protocol.Cancelled,
	},
	Example: `{"skill_id":"heating","capability_id":"set","params":{"celsius":21.5}}`,
}

// InvokeSkillParams are the params of skill.invoke.
type InvokeSkillParams struct {
	SkillID      protocol.SkillID      `json:"skill_id" doc:"the skill"`
	CapabilityID protocol.CapabilityID `json:"capability_id" doc:"task"`
	Params       json.RawMessage       `json:"params,omitempty" type:"object" default:"{}" doc:"checked against the capability's params_schema"`
	Space        protocol.SpaceID      `json:"space_id,omitempty" doc:"the space it lives in, the caller's own by default"`
}

// Target implements [commands.Targeter].
func (p InvokeSkillParams) Target() commands.Resource {
	return commands.Resource{Type: "skill", ID: string(p.SkillID), Space: p.Space}
}

// InvokeSkillResult is the result of skill.invoke.
type InvokeSkillResult struct {
	SkillID       protocol.SkillID      `json:"skill_id" doc:"id of the skill, as in the request"`
	CapabilityID  protocol.CapabilityID `json:"capability_id" doc:"id of the capability, as in the request"`
	AgentID       protocol.AgentID      `json:"agent_id,omitempty" doc:"id of the agent that did it; absent if an HTTP endpoint did"`
	Data          json.RawMessage       `json:"data" doc:"result of the capability, any JSON that fits its result_schema; sealed if the caller sealed the params; null where effect says so"`
	ExecutionTime float64               `json:"execution_time" doc:"milliseconds from the check of the params to the answer, further attempts included"`
	Effect        *effects.View         `json:"effect,omitempty" doc:"only if this call was not made, as another one was the same deed: what is known of that; data is null then if the other call was somebody else's, or its answer is not kept"`
}

// startInvoke calls a capability of a skill and hands over the answer when
// there is one. Data in it is good only until done returns.
func (s *Service) startInvoke(ctx context.Context, call *commands.Call, p InvokeSkillParams, done func(InvokeSkillResult, error)) {
	v, err := s.invocation(call, &p)
	if err != nil {
		done(InvokeSkillResult{}, err)
		return
	}
	v.done = done
	if v.capability.EffectKey != "" {
		s.startOnce(ctx, v)
		return
	}
	var few [4]ask.Peer
	peers := s.peers(few[:0], v.skill, nil)
	if len(peers) == 0 {
		done(InvokeSkillResult{}, offline(v.skill))
		return
	}
	s.asking.Ask(ctx, &v.Request, peers)
}

// invocation checks the params and makes the invocation.
func (s *Service) invocation(call *commands.Call, p *InvokeSkillParams) (*invocation, error) {
	skill, err := s.skill(call, p.Space, p.SkillID)
	if err != nil {
		return nil, err
	}
	capability, ok := skill.capability(p.CapabilityID)
	if !ok {
		return nil, skill.noCapability(p.CapabilityID)
	}
	if len(p.Params) == 0 {
		p.Params = json.RawMessage("{}")
	}
	if err := s.checkParams(capability, p.Params); err != nil {
		return nil, err
	}
	v := &invocation{service: s, skill: skill, capability: capability, params: p.Params, began: time.Now()}
	v.Request = ask.Request{
		Command: ask.InvokeCommand, Params: ask.InvokeParams(p.SkillID, p.CapabilityID, p.Params), Call: call,
		Callee: v, Idempotent: capability.repeatable(), Listener: v,
	}
	return v, nil
}

// An invocation is one skill.invoke on its way.
type invocation struct {
	ask.Request
	service    *Service
	skill      *SkillRecord
	capability *Capability
	params     json.RawMessage // of the capability
	began      time.Time
	done       func(InvokeSkillResult, error)
	open       bool // it may have been done although there is an error
}

// Others implements [ask.Callee].
func (v *invocation) Others(tried []protocol.AgentID) []ask.Peer {
	return v.service.peers(nil, v.skill, tried)
}

// CheckResult implements [ask.Callee].
func (v *invocation) CheckResult(result json.RawMessage) error {
	return v.service.checkResult(v.capability, result)
}

// Hear implements [ask.Listener].
func (v *invocation) Hear(n ask.Notice) {
	if n.Err != nil {
		v.open = n.Open
		v.done(InvokeSkillResult{}, n.Err)
		return
	}
	v.done(InvokeSkillResult{
		SkillID: v.skill.ID, CapabilityID: v.capability.ID, AgentID: n.Agent, Data: n.Data,
		ExecutionTime: milliseconds(time.Since(v.began)),
	}, nil)
}

// milliseconds is a duration with three decimals, for people and graphs.
func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// appendMilliseconds appends what JSON has for milliseconds.
func appendMilliseconds(dst []byte, d time.Duration) []byte {
	us := d.Microseconds()
	if us < 0 {
		dst, us = append(dst, '-'), -us
	}
	dst = strconv.AppendInt(dst, us/1000, 10)
	if us %= 1000; us == 0 {
		return dst
	}
	dst = append(dst, '.', byte('0'+us/100), byte('0'+us/10%10), byte('0'+us%10))
	for dst[len(dst)-1] == '0' {
		dst = dst[:len(dst)-1]
	}
	return dst
}

// InvokeSkill is startInvoke for a caller that waits.
func (s *Service) InvokeSkill(ctx context.Context, call *commands.Call, p InvokeSkillParams) (result InvokeSkillResult, err error) {
	ended := make(chan struct{})
	s.startInvoke(ctx, call, p, func(r InvokeSkillResult, e error) {
		r.Data = bytes.Clone(r.Data)
		result, err = r, e
		close(ended)
	})
	<-ended
	return result, err
}
