package ask

import (
	"bytes"
	"encoding/json"

	"github.com/aibridge/aibridge/protocol"
)

// InvokeCommand is the command that an agent gets for an invocation of its
// skill.
const InvokeCommand = "skill.invoke"

// InvokeParams are the params of an invocation for the agent: skill, capability and the
// caller's params, without the fields for the bridge alone.
func InvokeParams(skill protocol.SkillID, capability protocol.CapabilityID, params json.RawMessage) json.RawMessage {
	return InvokeHeadOf(skill, capability).With(params)
}

// An InvokeHead is the part of those params before the caller's.
type InvokeHead []byte

// InvokeHeadOf is the head for a capability.
func InvokeHeadOf(skill protocol.SkillID, capability protocol.CapabilityID) InvokeHead {
	head := protocol.AppendString([]byte(`{"skill_id":`), string(skill))
	head = protocol.AppendString(append(head, `,"capability_id":`...), string(capability))
	return append(head, `,"params":`...)
}

// With is the params of an invocation with those of a caller.
func (h InvokeHead) With(params json.RawMessage) json.RawMessage {
	b := make([]byte, 0, len(h)+len(params)+1)
	return append(append(append(b, h...), params...), '}')
}

// Of is [InvokeHead.With] for the params of a request of which those of the
// capability are a part: the request's own, if these are the same bytes.
func (h InvokeHead) Of(request, params json.RawMessage) json.RawMessage {
	if len(request) == len(h)+len(params)+1 && bytes.HasPrefix(request, h) {
		return request
	}
	return h.With(params)
}
