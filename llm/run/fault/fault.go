// Package fault holds the errors of workflows: the codes for models and audits, and
// their codes in the protocol of the bridge.
package fault

import (
	"errors"
	"fmt"
	"strings"

	"github.com/aibridge/aibridge/protocol"
)

// A Code is the code of an error. The set is closed.
type Code string

// The codes of the file tools, in the results of tools.
const (
	NotFound           Code = "ENOENT"
	Sandbox            Code = "E_SANDBOX_VIOLATION" // no such mount, outside of it, or not writable
	ReadLimit          Code = "E_READ_LIMIT"        // too much to read, and no part of it can be shown
	WriteLimit         Code = "E_WRITE_LIMIT"
	InvalidFrontmatter Code = "E_INVALID_FRONTMATTER"
	SchemaValidation   Code = "E_SCHEMA_VALIDATION"
	InvalidTransition  Code = "E_INVALID_TRANSITION"
	PreconditionFailed Code = "E_PRECONDITION_FAILED"
	Internal           Code = "E_INTERNAL"
)

// The codes of calls that fail outside of their tool.
const (
	ArgsInvalidJSON Code = "TOOL_ARGS_INVALID_JSON"
	NotAvailable    Code = "TOOL_NOT_AVAILABLE" // there is no such tool, or the policy forbids it
	ToolFailed      Code = "TOOL_EXEC_FAILED"
	OutcomeUnknown  Code = "TOOL_OUTCOME_UNKNOWN" // begun before a crash, with an unknown outcome
)

// The codes of the engine and of its models.
const (
	MaxTurns     Code = "ENGINE_MAX_TURNS_EXCEEDED"
	LoopDetected Code = "ENGINE_LOOP_DETECTED"
	Aborted      Code = "ENGINE_ABORTED"
	Interrupted  Code = "ENGINE_INTERRUPTED" // the run may not continue without its user

	LLMAuthFailed  Code = "LLM_AUTH_FAILED"
	LLMTimeout     Code = "LLM_TIMEOUT"
	LLMRateLimited Code = "LLM_RATE_LIMITED"
	LLMHTTPError   Code = "LLM_HTTP_ERROR"
	LLMBadResponse Code = "LLM_BAD_RESPONSE"
)

// The codes of packages.
const (
	PackageInvalid Code = "PACKAGE_INVALID"
	PackageLimit   Code = "PACKAGE_LIMIT_EXCEEDED"
	ClassicPackage Code = "NotSupportedClassicWorkflow" // the older form, with YAML workflows
)

// An Error is a failure in the result of a tool. It holds nothing that a model must not
// see: no path of the host, no name of another tenant.
type Error struct {
	Code    Code           `json:"code"`
	Message string         `json:"message"`
	Details map[string]any `json:"details,omitempty"`

	cause error
}

// Errorf builds an Error. Operands of %w are kept as the cause, for logs.
func Errorf(code Code, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Code: code, Message: err.Error(), cause: errors.Unwrap(err)}
}

// Wrap builds an Error whose cause is for logs only.
func Wrap(code Code, cause error, message string) *Error {
	return &Error{Code: code, Message: message, cause: cause}
}

// With adds a detail and returns the same error.
func (e *Error) With(key string, value any) *Error {
	if e.Details == nil {
		e.Details = make(map[string]any, 1)
	}
	e.Details[key] = value
	return e
}

// Error is the code and the message.
func (e *Error) Error() string { return string(e.Code) + ": " + e.Message }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.cause }

// As is err as an Error. Errors of the protocol keep their message; any other becomes an
// [Internal] one without its text, which may name internals of the bridge.
func As(err error) *Error {
	var e *Error
	if err == nil || errors.As(err, &e) {
		return e
	}
	var p *protocol.Error
	if errors.As(err, &p) {
		return &Error{Code: fromProtocol(p.Code), Message: p.Message, Details: p.Details, cause: err}
	}
	return &Error{Code: Internal, Message: "internal error", cause: err}
}

// CodeOf is the code of As, "" for nil.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	return As(err).Code
}

func fromProtocol(code protocol.Code) Code {
	switch code {
	case protocol.FileNotFound, protocol.NotFound:
		return NotFound
	case protocol.VFSPermission, protocol.PermissionDenied:
		return Sandbox
	case protocol.NoSpace, protocol.PayloadTooLarge:
		return WriteLimit
	case protocol.RevisionConflict:
		return PreconditionFailed
	}
	return Internal
}

// wire maps the codes to those of the protocol. It is never changed.
var wire = map[Code]protocol.Code{
	NotFound:           protocol.FileNotFound,
	Sandbox:            protocol.VFSPermission,
	ReadLimit:          protocol.PayloadTooLarge,
	WriteLimit:         protocol.PayloadTooLarge,
	InvalidFrontmatter: protocol.InvalidParameter,
	SchemaValidation:   protocol.InvalidParameter,
	InvalidTransition:  protocol.InvalidState,
	PreconditionFailed: protocol.RevisionConflict,
	Internal:           protocol.Internal,

	ArgsInvalidJSON: protocol.InvalidParameter,
	NotAvailable:    protocol.PermissionDenied,
	ToolFailed:      protocol.TargetUnavailable,
	OutcomeUnknown:  protocol.OutcomeUnknown,

	MaxTurns:       protocol.LimitReached,
	LoopDetected:   protocol.InvalidState,
	Aborted:        protocol.Cancelled,
	Interrupted:    protocol.InvalidState,
	LLMAuthFailed:  protocol.LLMRefused,
	LLMTimeout:     protocol.TimedOut,
	LLMRateLimited: protocol.RateLimited,
	LLMHTTPError:   protocol.LLMUnavailable,
	LLMBadResponse: protocol.LLMRefused,

	PackageInvalid: protocol.InvalidParameter,
	PackageLimit:   protocol.PayloadTooLarge,
	ClassicPackage: protocol.InvalidParameter,
}

// Codes returns all codes with their codes in the protocol.
func Codes() map[Code]protocol.Code {
	all := make(map[Code]protocol.Code, len(wire))
	for c, p := range wire {
		all[c] = p
	}
	return all
}

// Protocol converts the error for callers of commands: its message begins with the
// code, details.code is the code, and the other details are kept. A 1001 has its
// details.reason, but no name of the parameter, which only the command knows.
func (e *Error) Protocol() *protocol.Error {
	code, ok := wire[e.Code]
	if !ok {
		code = protocol.Internal
	}
	p := protocol.Wrap(code, e, strings.TrimSuffix(string(e.Code)+": "+e.Message, ": ")).With("code", string(e.Code))
	if code == protocol.InvalidParameter {
		p = p.With("reason", e.Message)
	}
	for k, v := range e.Details {
		if k != "code" {
			p = p.With(k, v)
		}
	}
	return p
}
