package commands

import (
	"context"
	"encoding/json"
	"time"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/protocol/grant"
)

// A Claim records that a request was taken up. It outlives the process, so that the
// request is never run a second time.
type Claim struct {
	Principal string // its party, see [protocol.Party.String]
	RequestID string
	Hash      [32]byte // of command and params; equal hashes under one key mean equal requests
	Expires   time.Time
}

// Claims keeps the claims of requests.
type Claims interface {
	// Claim returns when the claim is durable. A second claim of the same
	// request is no error.
	Claim(ctx context.Context, c Claim) error
	// Pending yields the claims that an earlier process left behind.
	Pending(yield func(Claim) bool)
}

// SharedClaims are [Claims] that several processes make at the same time: of the
// claims of one request the first counts. They are made for [Act] and [Write]
// commands.
type SharedClaims interface {
	Claims
	// Settle stores the answer to a request whose claim was the first, for a repeat
	// elsewhere. An empty answer means that the request was run with an unknown
	// outcome; nil gives the claim up, since the request was not run.
	Settle(c Claim, answer []byte)
}

// A Sealer encrypts data for other processes, for a purpose that must be named to
// open it.
type Sealer interface {
	Seal(plain []byte, purpose string) ([]byte, error)
	Open(sealed []byte, purpose string) ([]byte, error)
}

// Taken is the error of a claim that came after another process's, with the outcome
// that that one has settled.
type Taken struct{ Answer []byte }

func (*Taken) Error() string { return "another process has run the request" }

// Credentials checks whether the credentials of callers are still valid. It is
// called for every call and every part of a call, and must be fast.
type Credentials interface {
	// Check fails if a principal may not go on: 2002, 2006, 2007.
	Check(who *protocol.Principal) error
	// The authority judges calls that outlive their request.
	grant.Authority
}

// everlasting are the credentials of a router that was given none.
type everlasting struct{ grant.Unlimited }

func (everlasting) Check(*protocol.Principal) error { return nil }

// A Limiter bounds the commands of callers, those of batches one by one. It is
// called for every request, wrong ones included, and must be fast.
type Limiter interface {
	// Admit takes a request of a size in bytes into account, or refuses it:
	// 4009 with retry_after_ms.
	Admit(who *protocol.Principal, size int) *protocol.Error
}

// Tasks runs calls that asked for params.async.
type Tasks interface {
	// Start takes over a call: it runs run in the background, with a context
	// that ends when the task is cancelled, and returns the task's id at
	// once. The call is the task's own, with the deadline of the request;
	// where its events go is up to the task (Call.SendEventsTo).
	Start(ctx context.Context, call *Call, run func(context.Context) (json.RawMessage, error)) (protocol.TaskID, error)
}

// A Forwarder sends commands to the agents that registered them with
// command.register. Params were checked against the command's schema.
type Forwarder interface {
	Forward(ctx context.Context, call *Call, agent protocol.AgentID, command string, params json.RawMessage) (json.RawMessage, error)
}

// A SchemaCompiler makes a check out of a JSON Schema that an agent registered.
// Its error is a fault of the schema; the error of the check, a 1001, is a
// fault of a value. Both must take bounded time.
type SchemaCompiler func(schema json.RawMessage) (check func(value json.RawMessage) error, err error)

// AllowAll is the [Authorizer] that refuses nothing, for development on
// loopback and for tests.
type AllowAll struct{}

// Authorize allows everything.
func (AllowAll) Authorize(context.Context, *protocol.Principal, string, Resource) error { return nil }

// ActFor allows everyone to speak for anyone.
func (AllowAll) ActFor(context.Context, *protocol.Principal, string) error { return nil }

// denyAll is the authorizer of a router that was given none.
type denyAll struct{}

func (denyAll) Authorize(context.Context, *protocol.Principal, string, Resource) error {
	return protocol.Errorf(protocol.PermissionDenied, "nobody may run commands here")
}

func (denyAll) ActFor(context.Context, *protocol.Principal, string) error {
	return protocol.Errorf(protocol.PermissionDenied, "nobody may act for others here")
}
