package commands

import (
	"context"
	"encoding/json"

	"github.com/aibridge/aibridge/protocol"
)

// Extensions are the extension points of the protocol
// (docs/protocol.md#extensions). All are optional. Extensions in other
// processes register with command.register.
type Extensions struct {
	Parsers      []Parser
	Permissions  []PermissionCheck
	Processors   []MessageProcessor // the first is the outermost
	ErrorHandler ErrorHandler
}

// A Parser understands request bodies that are not envelopes of the bridge
// dialect, or rewrites those that are. It is called for every message and must not
// block.
type Parser interface {
	// Parse returns the request in a body, nil if the body is not of this
	// extension. The body must not be kept. On an error the request, if any, names
	// the recipient of the answer.
	Parse(body []byte, door string) (*protocol.Request, error)
}

// A PermissionCheck is asked after the [Authorizer] has agreed, on the message
// path too: it must not block. Its refusal is a *protocol.Error with a 2xxx
// code.
type PermissionCheck interface {
	Check(ctx context.Context, call *Call, action string, on Resource) error
}

// A MessageProcessor wraps the handlers of all commands. It runs the rest of the
// call by next, at most once, or answers itself.
type MessageProcessor interface {
	Process(ctx context.Context, call *Call, params json.RawMessage, next Next) (json.RawMessage, error)
}

// Next runs the rest of a call.
type Next func(ctx context.Context) (result json.RawMessage, err error)

// An ErrorHandler sees every error before the caller does. It returns the
// error to answer with, which may be a changed copy, or nil to leave it as it
// is.
type ErrorHandler interface {
	HandleError(ctx context.Context, call *Call, err *protocol.Error) *protocol.Error
}
