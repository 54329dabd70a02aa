package registry

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// An invocation is one skill.invoke on its way: to one of the skill's agents,
// to another if that failed and may be repeated, or to an HTTP endpoint.
// DESIGN.md has the table of what may be tried again.
//
// Nobody waits for it. Whoever brings the end of an exchange with an agent
// moves it on: the reader of the agent's connection mostly.
type invocation struct {
	request
	service    *Service
	ctx        context.Context
	skill      *SkillRecord
	capability *Capability
	began      time.Time
	tried      []protocol.AgentID
	last       *failure
	done       func(InvokeSkillResult, error)
	first      asking // the room for it
}

// advance asks an agent that was not tried yet.
func (v *invocation) advance() {
	var few [4]*Agent
	agents := v.service.reachable(few[:0], v.skill, v.tried)
	if len(agents) == 0 {
		v.exhausted()
		return
	}
	a := &v.first
	if v.last != nil {
		v.service.metrics.retries.Inc()
		a = new(asking)
	}
	v.service.ask(v.ctx, a, agents, v.request, v)
}

// answered takes what became of the request to an agent.
func (v *invocation) answered(response *protocol.Response, agent *Agent, f *failure) {
	if f == nil {
		f = v.service.checkResult(agent.target(), v.capability, response.Result)
	}
	switch {
	case f == nil:
		v.succeed(reply{agent.ID, response.Result})
	case f.mayRepeat(v.capability.repeatable()):
		v.tried, v.last = append(v.tried, agent.ID), f
		v.advance()
	default:
		v.fail(f.final(v.capability.repeatable()))
	}
}

// exhausted is what is done when there is no agent left to ask.
func (v *invocation) exhausted() {
	s := v.service
	if v.last != nil {
		v.fail(v.last.final(v.capability.repeatable()))
		return
	}
	endpoints := v.skill.overHTTP()
	if len(endpoints) == 0 || !s.onlyHTTP(v.skill) {
		v.fail(offline(v.skill))
		return
	}
	go func() { // HTTP is waited for
		defer func() {
			if p := recover(); p != nil {
				v.fail(fmt.Errorf("panic: %v\n%s", p, debug.Stack()))
			}
		}()
		r, err := s.callOverHTTP(v.ctx, v.capability, endpoints, v.request)
		if err != nil {
			v.fail(err)
			return
		}
		v.succeed(r)
	}()
}

func (v *invocation) fail(err error) { v.done(InvokeSkillResult{}, err) }

func (v *invocation) succeed(r reply) {
	v.done(InvokeSkillResult{
		SkillID:       v.skill.ID,
		CapabilityID:  v.capability.ID,
		AgentID:       r.agent,
		Data:          r.data,
		ExecutionTime: milliseconds(time.Since(v.began)),
	}, nil)
}
