package registry

import (
	"context"
	"encoding/json"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// An invocation is one skill.invoke on its way: to one of the skill's agents,
// to another if that failed and may be repeated, or to an endpoint of its own.
// DESIGN.md has the table of what may be tried again.
//
// Nobody waits for it. Whoever brings the end of an exchange moves it on: the
// reader of the agent's connection mostly.
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

// advance asks somebody who was not tried yet.
func (v *invocation) advance() {
	var few [4]peer
	peers := v.service.peers(few[:0], v.skill, v.tried)
	if len(peers) == 0 {
		v.exhausted()
		return
	}
	a := &v.first
	if v.last != nil {
		v.service.metrics.retries.Inc()
		a = new(asking)
	}
	v.service.ask(v.ctx, a, peers, v.request, v)
}

// answered takes what became of the request to a peer.
func (v *invocation) answered(response *protocol.Response, e *exchange, f *failure) {
	if f == nil {
		f = v.service.checkResult(e.target(), v.capability, response.Result)
	}
	switch {
	case f == nil:
		v.succeed(e.agent, response.Result)
	case e.agent != nil && f.mayRepeat(v.again):
		v.tried, v.last = append(v.tried, e.agent.ID), f
		v.advance()
	default:
		v.fail(f.final(v.again))
	}
}

// exhausted is what is done when there is nobody left to ask.
func (v *invocation) exhausted() {
	if v.last != nil {
		v.fail(v.last.final(v.again))
		return
	}
	v.fail(offline(v.skill))
}

func (v *invocation) fail(err error) { v.done(InvokeSkillResult{}, err) }

func (v *invocation) succeed(agent *Agent, data json.RawMessage) {
	result := InvokeSkillResult{
		SkillID:       v.skill.ID,
		CapabilityID:  v.capability.ID,
		Data:          data,
		ExecutionTime: milliseconds(time.Since(v.began)),
	}
	if agent != nil {
		result.AgentID = agent.ID
	}
	v.done(result, nil)
}
