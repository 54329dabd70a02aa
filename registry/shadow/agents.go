package shadow

import (
	"encoding/json"

	"github.com/aibridge/aibridge/protocol"
)

// Agents knows the registered agents.
type Agents interface {
	// Shadowed describes an agent as its state needs it. known is whether one of the id
	// is registered in the space.
	Shadowed(space protocol.SpaceID, id protocol.AgentID) (a Agent, known bool)
	// StateOf returns the state schemas of a skill; provided is whether the agent
	// provides it.
	StateOf(space protocol.SpaceID, id protocol.AgentID, skill protocol.SkillID) (s Skill, provided bool)
	// ServedBy lists the skills that an agent provides.
	ServedBy(space protocol.SpaceID, id protocol.AgentID) []protocol.SkillID
	// NotFound is the error for an agent that does not exist for a principal.
	NotFound(who *protocol.Principal, named protocol.SpaceID, id protocol.AgentID) error
}

// An Agent is a registered agent.
type Agent struct {
	Space protocol.SpaceID
	ID    protocol.AgentID
	Owner protocol.Party // the party that registered it
	Born  int64          // when, Unix milliseconds
	// BelongsTo reports whether the agent's connections are made by a principal.
	BelongsTo func(*protocol.Principal) bool
}

// A Skill is the declaration of a skill about its state.
type Skill struct {
	Schema json.RawMessage // JSON Schema, nil if it declares none
	// Check finds the fault of a document: the path of a member, from name down, and the
	// reason, "" if it is valid.
	Check func(name string, state json.RawMessage) (path, reason string)
}

// A ref names an agent.
type ref struct {
	space protocol.SpaceID
	agent protocol.AgentID
}

func (r *Record) ref() ref { return ref{r.Space, r.Agent} }

func (a *Agent) ref() ref { return ref{a.Space, a.ID} }
