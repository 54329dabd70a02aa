package ask

import (
	"encoding/json"

	"github.com/aibridge/aibridge/protocol"
)

// InvokeCommand is the command that an agent gets for an invocation of its
// skill.
const InvokeCommand = "skill.invoke"

// InvokeParams are the params that the agent gets with it: the caller's, without
// what only the bridge is to know.
func InvokeParams(skill protocol.SkillID, capability protocol.CapabilityID, params json.RawMessage) json.RawMessage {
	b := make([]byte, 0, 64+len(skill)+len(capability)+len(params))
	b = protocol.AppendString(append(b, `{"skill_id":`...), string(skill))
	b = protocol.AppendString(append(b, `,"capability_id":`...), string(capability))
	b = append(append(b, `,"params":`...), params...)
	return append(b, '}')
}
