package dispatch

import (
	"encoding/json"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// An Asker invokes skills. Its methods do not block; the outcome goes to
// Question.Hear, which does not block either and never calls the Asker.
type Asker interface {
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
	// Send invokes the skill at the question's agent and listens for the
	// answer. An error means that it was delivered to no connected client.
	Send(q *Question) error
	// Expect listens for the answer to an invocation sent before.
	Expect(q *Question)
	// Recall asks the agent for the result of an invocation sent before. The
	// agent tells the result, or that it is at work, or that it knows nothing
	// of it (Forgotten); one that cannot be asked is Mute.
	Recall(q *Question) error
	// Drop stops listening.
	Drop(id string)
	// Cancel stops listening and tells the agent to stop working.
	Cancel(q *Question, reason string)
}

// A Question is one invocation of one member. Its id stays the same however
// often it is sent.
type Question struct {
	ID         string
	Space      protocol.SpaceID
	Skill      protocol.SkillID
	Agent      protocol.AgentID
	Capability protocol.CapabilityID
	Params     json.RawMessage // an object
	Extension  json.RawMessage // vendor data of the request, nil without any
	Caller     string          // who started the dispatch, as far as calls of different callers are told apart
	TraceID    string
	Priority   protocol.Priority
	Deadline   time.Time
	Hear       func(Hearing)
}

// A Hearing is something a member or its connection said.
type Hearing struct {
	Kind  Kind
	Data  json.RawMessage // of Answered and Progressed
	Err   *protocol.Error // of Refused and Declined
	Since time.Time       // of Forgotten: the agent has listened since then, zero if unknown
}

// A Kind is the kind of a [Hearing].
type Kind uint8

// The kinds. The first three end a question: nothing is heard of it later.
const (
	Answered   Kind = iota // with a result
	Refused                // with an error
	Declined               // by an agent that rejects the task
	Took                   // the agent has accepted the task
	Progressed             // the agent tells how it is getting on
	Left                   // the agent went offline
	Forgotten              // the agent knows nothing of the invocation
	Mute                   // the agent cannot be asked for results
)
