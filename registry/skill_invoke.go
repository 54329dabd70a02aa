package registry

import (
	"bytes"
	"context"
	"encoding/json"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
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
	CapabilityID protocol.CapabilityID `json:"capability_id" doc:"what it is to do"`
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
	Data          json.RawMessage       `json:"data" doc:"result of the capability, any JSON that fits its result_schema; sealed if the caller sealed the params"`
	ExecutionTime float64               `json:"execution_time" doc:"milliseconds from the check of the params to the answer, further attempts included"`
}

// forwarded are the params that the agent gets: the caller's, without what
// only the bridge is to know.
func (p *InvokeSkillParams) forwarded() json.RawMessage {
	b := make([]byte, 0, 64+len(p.SkillID)+len(p.CapabilityID)+len(p.Params))
	b = protocol.AppendString(append(b, `{"skill_id":`...), string(p.SkillID))
	b = protocol.AppendString(append(b, `,"capability_id":`...), string(p.CapabilityID))
	b = append(append(b, `,"params":`...), p.Params...)
	return append(b, '}')
}

// startInvoke calls a capability of a skill and hands over the answer when
// there is one. Data in it is good only until done returns.
func (s *Service) startInvoke(ctx context.Context, call *commands.Call, p InvokeSkillParams, done func(InvokeSkillResult, error)) {
	v, err := s.invocation(call, &p)
	if err != nil {
		done(InvokeSkillResult{}, err)
		return
	}
	v.ctx, v.done = ctx, done
	v.advance()
}

// invocation checks what is asked for.
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
	return &invocation{
		request: request{command: skillInvoke.Name, params: p.forwarded(), call: call, again: capability.repeatable()},
		service: s, skill: skill, capability: capability, began: time.Now(),
	}, nil
}

// InvokeSkill is startInvoke for who waits.
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
