package ask

import (
	"encoding/json"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

// A Directory holds the agents and the skills. Its methods do not block, and do not
// call the [Service].
type Directory interface {
	// Agent finds a registered agent.
	Agent(key AgentKey) (a Agent, ok bool)
	// Way is the way of requests to an agent now; ok is whether there is a way.
	Way(key AgentKey) (w Way, ok bool)
	// WayHere is the way of requests to an agent that is connected to this bridge.
	WayHere(key AgentKey) (w Way, ok bool)
	// AskedOver lists the agents that may have requests over a line.
	AskedOver(line commands.Line) []AgentKey
	// Answers reports whether an agent is served over a line.
	Answers(line commands.Line, key AgentKey) bool
	// Endpoints lists the http(s) endpoints of a skill. idempotent is whether
	// running the capability twice is as good as once, ok is whether there is
	// such a skill.
	Endpoints(c CapabilityKey) (urls []string, idempotent, ok bool)
	// CheckResult returns the fault of the result of a capability, best as an
	// [InvalidResult]. Results of a capability that is gone are not checked.
	CheckResult(c CapabilityKey, result json.RawMessage) error
	// Complain records a mistake of an agent, with a text of the reason.
	Complain(from Sender, what Mistake, reason string)
}

// An AgentKey names an agent: ids are unique in their space only.
type AgentKey struct {
	Space protocol.SpaceID
	ID    protocol.AgentID
}

// A CapabilityKey names a capability of a skill.
type CapabilityKey struct {
	Space      protocol.SpaceID
	Skill      protocol.SkillID
	Capability protocol.CapabilityID
}

// An Agent can be asked. It is immutable.
type Agent interface {
	Key() AgentKey
	// BelongsTo reports whether who is the principal of the agent's connections.
	BelongsTo(who *protocol.Principal) bool
	// IsOf is BelongsTo for a party.
	IsOf(party protocol.Party) bool
	// Recipients are the clients that receive messages to the agent over MQTT.
	Recipients() protocol.Recipients
}

// A Peer is a receiver of requests: an agent, or a skill that is called without one.
type Peer struct {
	Agent     Agent    // nil for a skill
	Endpoints []string // of the skill
}

// A Way is the route of requests to an agent: the first of its fields that is set.
type Way struct {
	Bridge    Bridge        // that it is connected to, zero for this one
	Topics    Topics        // MQTT, zero without a client that listens
	Line      commands.Line // its WebSocket connection, nil without one
	Endpoints []string      // to call, empty if there are none
}

// A Bridge is a process of a bridge of the cluster. The zero Bridge is this one.
type Bridge struct {
	ID    string
	Epoch uint64
}

// Topics are the MQTT topics between the bridge and an agent.
type Topics struct{ Request, Response string }

// TopicsOf are the topics of an agent.
func TopicsOf(topics protocol.Topics, id protocol.AgentID) Topics {
	return Topics{topics.AgentRequest(id), topics.AgentResponse(id)}
}

// A Sender is the origin of a message: the agent itself if it is known, else its topic,
// publisher or line.
type Sender struct {
	Agent Agent // nil if it is not known which

	ID  protocol.AgentID    // agent of the topic, "" over a line
	Who *protocol.Principal // publisher

	Line commands.Line // it came over, nil over MQTT
}

// A Mistake is a fault of an agent in handling a request.
type Mistake string

// The mistakes.
const (
	Unreadable   Mistake = "unreadable" // a message of it is no envelope, or one that breaks the rules of envelopes
	Unasked      Mistake = "unasked"    // it answers under an id that was never that of a request, or an earlier process's
	Late         Mistake = "late"       // an answer after the end of its request
	Foreign      Mistake = "foreign"    // an answer to a request to another agent
	Unfit        Mistake = "unfit"      // its result does not fit the schema of the capability
	UnknownEvent Mistake = "event"      // it sends an event that is none of the protocol's
	Silent       Mistake = "silent"     // it does not answer before the deadline
)

// An InvalidResult is a fault in the result of a capability.
type InvalidResult struct {
	At     string // path from "result" down
	Reason string
}

// Error is the path with the reason.
func (e *InvalidResult) Error() string { return e.At + ": " + e.Reason }
