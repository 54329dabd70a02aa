package end

import (
	"context"
	"encoding/json"

	"github.com/aibridge/aibridge/agent/script"
	"github.com/aibridge/aibridge/protocol"
)

// A Bridge is what the runtime needs of the connection to one.
type Bridge interface {
	// Offer registers a skill, or replaces what was registered of it, and
	// from then on gives its invocations to the offer's Handle, also after
	// the connection was lost and came back.
	Offer(ctx context.Context, o Offer) error

	// Withdraw takes back what was offered.
	Withdraw(ctx context.Context, id protocol.SkillID) error
}

// An Offer is a skill as the bridge gets to know it.
type Offer struct {
	ID           protocol.SkillID
	Name         string
	Version      string
	Description  string
	Type         string
	Endpoints    []string
	Capabilities []Capability
	Handle       Handler
}

// A Capability is one thing an offered skill can do.
type Capability struct {
	ID                         protocol.CapabilityID
	Name, Description          string
	ParamsSchema, ResultSchema json.RawMessage // nil: anything
	Idempotent                 bool
	Risk                       string
}

// A Handler runs an invocation. ctx ends at its deadline and when it is
// cancelled.
type Handler func(ctx context.Context, in Invocation) (json.RawMessage, error)

// An Invocation is one call of a capability, as it reached the agent.
type Invocation struct {
	Skill      protocol.SkillID
	Capability protocol.CapabilityID
	Params     json.RawMessage
	CallID     string
	TraceID    string
	Progress   func(script.Progress) // never nil, does not block
}
