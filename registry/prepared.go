package registry

import (
	"context"
	"encoding/json"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/registry/ask"
	"github.com/aibridge/aibridge/registry/schema"
)

// A preparedInvoke is skill.invoke of one capability, for many calls. Its state
// is made anew when a skill has changed.
type preparedInvoke struct {
	service    *Service
	skill      protocol.SkillID
	capability protocol.CapabilityID
	state      atomic.Pointer[invocable]
}

// An invocable is a capability as it is in a space while no skill changes.
type invocable struct {
	epoch      uint64
	space      protocol.SpaceID
	skill      *SkillRecord
	capability *Capability // nil if it is to be called the usual way
	params     *schema.Schema
	result     *schema.Schema
	head       ask.InvokeHead
	latest     atomic.Pointer[reached] // how it was reached last
}

// prepareInvoke implements [commands.Preparer]. A skill of another space is
// called the usual way.
func (s *Service) prepareInvoke(p InvokeSkillParams) (commands.Prepared, bool) {
	if p.Space != "" {
		return nil, false
	}
	return &preparedInvoke{service: s, skill: p.SkillID, capability: p.CapabilityID}, true
}

// Target implements [commands.Prepared].
func (p *preparedInvoke) Target() commands.Resource {
	return InvokeSkillParams{SkillID: p.skill}.Target()
}

// in is the capability in a space now.
func (p *preparedInvoke) in(space protocol.SpaceID) *invocable {
	epoch := p.service.skillsEpoch.Load() // before the skill is looked at
	if known := p.state.Load(); known != nil && known.epoch == epoch && known.space == space {
		return known
	}
	now := p.look(space)
	now.epoch, now.space = epoch, space
	p.state.Store(now)
	return now
}

// look finds the capability. Unusual ones are left to the errors and ways of
// [Service.startInvoke]: a missing one, one with sealed params, or one with an effect
// key.
func (p *preparedInvoke) look(space protocol.SpaceID) *invocable {
	skill, _, ok := p.service.opts.Skills.Get(tableKey(space, p.skill))
	if !ok {
		return new(invocable)
	}
	capability, ok := skill.capability(p.capability)
	if !ok || capability.Sealed != "" || capability.EffectKey != "" {
		return new(invocable)
	}
	params, err := p.service.schemas.Get(capability.ParamsSchema, capability.Format.formats())
	if err != nil {
		return new(invocable)
	}
	result, err := p.service.schemas.Get(capability.ResultSchema, capability.Format.formats())
	if err != nil {
		return new(invocable)
	}
	return &invocable{skill: skill, capability: capability, params: params, result: result, head: ask.InvokeHeadOf(p.skill, p.capability)}
}

// Begin implements [commands.Prepared].
func (p *preparedInvoke) Begin(ctx context.Context, call *commands.Call, params json.RawMessage, done func(json.RawMessage, error)) bool {
	now := p.in(call.Principal.Home())
	if now.capability == nil {
		return false
	}
	if wrong := now.params.Validate(params); wrong != nil {
		done(nil, protocol.InvalidParam(wrong.In("params"), wrong.Reason))
		return true
	}
	v, again := call.Room().(*preparedInvocation)
	if !again {
		v = new(preparedInvocation)
	}
	v.invocable, v.service, v.began, v.done = now, p.service, call.Now(), done
	r := &v.Request
	*r = ask.Request{} // and set in place: a literal with fields would be made elsewhere and copied
	r.Command, r.Params = ask.InvokeCommand, now.head.Of(call.RawParams(), params)
	r.Call, r.Callee, r.Listener = call, v, v
	r.Idempotent, r.Began = now.capability.repeatable(), v.began
	if v.reached = p.service.reach(now); v.reached != nil {
		p.service.asking.Ask(ctx, r, v.reached.peers[:])
		return true
	}
	var few [4]ask.Peer
	peers := p.service.peers(few[:0], now.skill, nil)
	if len(peers) == 0 {
		done(nil, offline(now.skill))
		return true
	}
	p.service.asking.Ask(ctx, r, peers)
	return true
}

// A preparedInvocation is one skill.invoke on its way, as [invocation]. It is the
// [commands.Room] of its call.
type preparedInvocation struct {
	ask.Request
	*invocable
	service *Service
	reached *reached // how it is reached, nil if it was looked up
	began   time.Time
	done    func(json.RawMessage, error)
}

// Empty implements [commands.Room].
func (v *preparedInvocation) Empty() { *v = preparedInvocation{} }

// Way implements [ask.Guide].
func (v *preparedInvocation) Way() *ask.Way {
	if v.reached == nil || v.reached.epoch != v.service.board.mu.epoch.Load() {
		return nil
	}
	return &v.reached.way
}

// Others implements [ask.Callee].
func (v *preparedInvocation) Others(tried []protocol.AgentID) []ask.Peer {
	return v.service.peers(nil, v.skill, tried)
}

// CheckResult implements [ask.Callee].
func (v *preparedInvocation) CheckResult(result json.RawMessage) error {
	if wrong := v.result.Validate(result); wrong != nil {
		return &ask.InvalidResult{At: wrong.In("result"), Reason: wrong.Reason}
	}
	return nil
}

// Hear implements [ask.Listener].
func (v *preparedInvocation) Hear(n ask.Notice) {
	if n.Err != nil {
		v.done(nil, n.Err)
		return
	}
	buffer := resultBuffers.Get().(*[]byte)
	written := v.appendResult((*buffer)[:0], n, v.Call.Now().Sub(v.began))
	if v.Alone() {
		v.Call.Leave(v)
	}
	v.done(written, nil)
	if cap(written) <= maxResultBuffer {
		*buffer = written
		resultBuffers.Put(buffer)
	}
}

// appendResult writes an [InvokeSkillResult].
func (v *preparedInvocation) appendResult(dst []byte, n ask.Notice, took time.Duration) []byte {
	dst = protocol.AppendString(append(dst, `{"skill_id":`...), string(v.skill.ID))
	dst = protocol.AppendString(append(dst, `,"capability_id":`...), string(v.capability.ID))
	if n.Agent != "" {
		dst = protocol.AppendString(append(dst, `,"agent_id":`...), string(n.Agent))
	}
	dst = append(append(dst, `,"data":`...), n.Data...)
	dst = appendMilliseconds(append(dst, `,"execution_time":`...), took)
	return append(dst, '}')
}

var resultBuffers = sync.Pool{New: func() any { b := make([]byte, 0, 1024); return &b }}

// maxResultBuffer is the largest buffer that is kept for reuse, in bytes.
const maxResultBuffer = 64 << 10
