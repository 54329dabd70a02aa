package commands

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/aibridge/aibridge/protocol"
)

// Effect is the effect of a command on the world. It drives
// deduplication, caching, audit and hints to models.
type Effect uint8

// The effects, weakest first.
const (
	Read  Effect = iota // changes nothing
	Write               // changes the bridge's own state; safe to repeat after a crash
	Act                 // makes something happen outside; its claim is durable before dispatch
)

var effects = [...]string{Read: "read", Write: "write", Act: "act"}

// String is the effect in lower case, "read".
func (e Effect) String() string {
	if int(e) < len(effects) {
		return effects[e]
	}
	return fmt.Sprintf("Effect(%d)", e)
}

// MarshalText implements [encoding.TextMarshaler].
func (e Effect) MarshalText() ([]byte, error) { return []byte(e.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (e *Effect) UnmarshalText(text []byte) error {
	i := slices.Index(effects[:], string(text))
	if i < 0 {
		return errors.New("must be read, write or act")
	}
	*e = Effect(i)
	return nil
}

// JSONSchema describes the texts above.
func (Effect) JSONSchema() json.RawMessage {
	return json.RawMessage(`{"type":"string","enum":["read","write","act"]}`)
}

// A Spec declares a command, beside its handler and its parameter struct.
type Spec struct {
	Name    string   // family.verb
	Aliases []string // old names, answered with a deprecation warning (docs/protocol.md#old-forms)
	Summary string   // one sentence
	Effect  Effect
	Action  string          // the action that policy decides on, family:verb
	Async   bool            // takes params.async: answers at once with a task_id
	Streams bool            // takes params.stream: sends events as if metadata.events asked for them
	Traced  bool            // has others do work: a call without a trace_id gets one, which its answer and all that work have
	Routine bool            // repeated often without a lasting change: audited like a Read
	Errors  []protocol.Code // besides those any command may answer with
	Example string          // params as JSON, valid against the schema

	// Abandonable marks a command that is too costly to be finished without a
	// client: it ends when no client waits for the answer any more, and its repeat
	// is run anew unless the call has acted.
	Abandonable bool
}

// A Handler runs a command. Errors built with [protocol.Errorf] reach the
// caller as they are; any other reaches it as 5000 and the log with its cause.
// A result beside an error is answered as the part done before the failure,
// unless it is the zero value. Raw JSON in a result must be valid.
//
// An error whose code invites a repeat ([protocol.Code.Retry]) is not kept for
// one: the same request is then run again.
type Handler[P, R any] func(ctx context.Context, call *Call, params P) (R, error)

// A Resource is the object of a command, as policy sees it. The zero value is
// no particular one.
type Resource struct {
	Type  string // family, "skill"
	ID    string
	Space protocol.SpaceID
}

// A Targeter is a parameter struct that knows which resource it is about.
type Targeter interface{ Target() Resource }

// An Authorizer decides whether a principal may run a command and for whom it
// may speak. It is called for every message and must not block. A refusal is a
// *protocol.Error with a 2xxx code.
type Authorizer interface {
	Authorize(ctx context.Context, who *protocol.Principal, action string, on Resource) error
	ActFor(ctx context.Context, who *protocol.Principal, senderID string) error
}

// A CallAuthorizer is an [Authorizer] that decides with a view to how a call
// came in: its door, its address, its sender. The router asks it by
// AuthorizeCall.
type CallAuthorizer interface {
	Authorizer
	AuthorizeCall(call *Call, action string, on Resource) error
}
