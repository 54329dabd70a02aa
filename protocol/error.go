package protocol

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// An Error is a failure with a code of the protocol. It keeps its cause for
// logs; the cause never goes over the wire.
type Error struct {
	Code    Code
	Message string
	Details map[string]any

	cause error
}

// Errorf builds an Error. An operand of %w is kept as the cause and, unlike
// with fmt.Errorf, its text is part of the message only if the format says so.
func Errorf(code Code, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Code: code, Message: err.Error(), cause: errors.Unwrap(err)}
}

// Wrap builds an Error with a cause that is for logs only: it is not part of
// the message.
func Wrap(code Code, cause error, message string) *Error {
	return &Error{Code: code, Message: message, cause: cause}
}

// ErrUnconfirmed is a cause of the error of a change that was not confirmed: it may
// have been made, or will be.
var ErrUnconfirmed = errors.New("the change was not confirmed")

// InvalidParam builds the error for a parameter that breaks a rule:
// details.param_name is its path ("skill.capabilities[2]"), details.reason
// what is wrong with it.
func InvalidParam(path, reason string) *Error {
	return &Error{
		Code:    InvalidParameter,
		Message: path + ": " + reason,
		Details: map[string]any{"param_name": path, "reason": reason},
	}
}

// BusyFor builds a 4008 that asks the caller to come back after a while.
func BusyFor(wait time.Duration, message string) *Error {
	return &Error{Code: Busy, Message: message, Details: map[string]any{retryAfter: milliseconds(wait)}}
}

// RetryAfter is the time that the error asks the caller to wait, 0 if it does not.
func (e *Error) RetryAfter() time.Duration {
	var ms int64
	switch v := e.Details[retryAfter].(type) {
	case int64:
		ms = v
	case int:
		ms = int64(v)
	case float64:
		ms = int64(min(max(v, 0), maxRetryAfter))
	}
	return time.Duration(min(max(ms, 0), maxRetryAfter)) * time.Millisecond
}

const (
	retryAfter    = "retry_after_ms"
	maxRetryAfter = 24 * 60 * 60 * 1000 // no caller is told to wait longer than a day
)

// With adds a detail and returns the same error.
func (e *Error) With(key string, value any) *Error {
	if e.Details == nil {
		e.Details = make(map[string]any, 1)
	}
	e.Details[key] = value
	return e
}

// Error is the code and the message, "3005: agent offline".
func (e *Error) Error() string { return string(e.Code) + ": " + e.Message }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.cause }

// Is reports whether target is an *Error with the same code, so that
// errors.Is(err, &Error{Code: NotFound}) asks for the code.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code
}

// CodeOf is the code an error has on the wire: its own if it is an [Error],
// 4007 for an expired deadline, 4013 for a cancelled context, 5000 otherwise.
// It is "" for nil.
func CodeOf(err error) Code {
	var e *Error
	switch {
	case err == nil:
		return ""
	case errors.As(err, &e):
		return e.Code
	case errors.Is(err, context.DeadlineExceeded):
		return TimedOut
	case errors.Is(err, context.Canceled):
		return Cancelled
	}
	return Internal
}

// AsError is the error as callers may see it. Any error that is not an [Error]
// becomes one without its text, which may name things that are not the
// caller's.
func AsError(err error) *Error {
	var e *Error
	if err == nil || errors.As(err, &e) {
		return e
	}
	code := CodeOf(err)
	return &Error{Code: code, Message: code.String(), cause: err}
}

// UnmarshalJSON implements [json.Unmarshaler] and is as lenient as
// [DecodeResponse].
func (e *Error) UnmarshalJSON(data []byte) error {
	v := envelope{scanner: scanner{data: data, room: DefaultMaxDepth, depth: DefaultMaxDepth}}
	whole, ok := v.document(errorScope)
	if !ok {
		return v.fault.error()
	}
	if whole.kind == kindNull {
		return nil
	}
	v.fields[fError] = whole
	*e = *v.error()
	return nil
}
