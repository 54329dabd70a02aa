package commands

import (
	"context"
	"encoding/json"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// A Claim says that a request of an [Act] command was taken up. It outlives
// the process, so that the request is never run a second time.
type Claim struct {
	Principal string
	RequestID string
	Hash      [32]byte // of command and params
	Expires   time.Time
}

// Claims keeps the claims of [Act] commands.
type Claims interface {
	// Claim returns when the claim is durable. Claiming again what was
	// claimed is not an error.
	Claim(ctx context.Context, c Claim) error
	// Pending yields the claims that an earlier process left behind.
	Pending(yield func(Claim) bool)
}

// Tasks runs calls that asked for params.async.
type Tasks interface {
	// Start takes over a call: it runs run in the background, with a context
	// that ends when the task is cancelled, and returns the task's id at
	// once. Where the events of the call go is up to it (Call.SendEventsTo).
	Start(ctx context.Context, call *Call, run func(context.Context) (json.RawMessage, error)) (protocol.TaskID, error)
}

// A Forwarder sends commands to the agents that registered them with
// command.register.
type Forwarder interface {
	Forward(ctx context.Context, call *Call, agent protocol.AgentID, command string, params json.RawMessage) (json.RawMessage, error)
}

// AllowAll is the [Authorizer] that refuses nothing, for development on
// loopback and for tests.
type AllowAll struct{}

// Authorize allows everything.
func (AllowAll) Authorize(context.Context, *protocol.Principal, string, Resource) error { return nil }

// ActFor allows everyone to speak for anyone.
func (AllowAll) ActFor(context.Context, *protocol.Principal, string) error { return nil }
