package dispatch

import (
	"encoding/json"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/registry/ask"
)

// Skills know the capabilities of members and whether those can be asked.
type Skills interface {
	// Prepare fails if a skill would not take an invocation, and reports whether it
	// is idempotent. It is called for skills that can be reached.
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
