package dispatch

import (
	"encoding/json"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/registry/ask"
)

// Skills tell what members can do and whether they can be asked.
type Skills interface {
	// Prepare says why a skill would not take an invocation, and whether
	// running it twice is as good as once. It is asked about skills that can
	// be reached.
	Prepare(space protocol.SpaceID, skill protocol.SkillID, capability protocol.CapabilityID, params json.RawMessage) (idempotent bool, err error)
	// Choose picks the agent that an invocation of a skill would go to now,
	// "" for one that is called without an agent. ok is whether it can be
	// reached.
	Choose(space protocol.SpaceID, skill protocol.SkillID) (agent protocol.AgentID, ok bool)
	// Reachable reports whether an agent can be asked now.
	Reachable(space protocol.SpaceID, agent protocol.AgentID) bool
}

// An Invoker invokes skills, see [ask.Service]. Its methods do not block.
type Invoker interface {
	AskDurably(*ask.Durable)
	Expect(*ask.Durable)
	Recall(*ask.Durable)
	Drop(id string)
	CancelDurable(d *ask.Durable, reason string)
}
