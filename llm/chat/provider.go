package chat

import (
	"context"
	"fmt"
	"time"
)

// A Provider speaks to one service that runs models. It is safe for use by
// many goroutines.
type Provider interface {
	// Stream asks for one answer and emits its events. It returns nil after
	// the finish was emitted, an [*Error], or what emit or ctx said.
	Stream(ctx context.Context, r *Request, emit func(Event) error) error
	// Models lists the models. It is also how a provider is probed.
	Models(ctx context.Context) ([]Model, error)
}

// A Model is one that a provider offers.
type Model struct {
	ID      string
	Name    string
	Version string
}

// ErrorKind classes failures by what should be done about them.
type ErrorKind string

// The kinds of errors.
const (
	AuthFailed     ErrorKind = "auth"         // the key is wrong: no use in repeating
	RateLimited    ErrorKind = "rate_limited" // later, or elsewhere
	Overloaded     ErrorKind = "overloaded"   // the same, the provider's fault
	Unavailable    ErrorKind = "unavailable"  // 5xx
	Unreachable    ErrorKind = "network"      // the provider was not reached, or the connection failed
	TimedOut       ErrorKind = "timeout"
	BadRequest     ErrorKind = "bad_request"    // ours or the caller's fault
	ContextTooLong ErrorKind = "context_length" // more than the model can read
	UnknownModel   ErrorKind = "unknown_model"
	BadResponse    ErrorKind = "bad_response" // what came is not what the wire says
	CutOff         ErrorKind = "cut_off"      // the stream ended before its finish
)

// An Error is why a provider gave no whole answer. Message may be shown to
// callers: it holds no key and no URL.
type Error struct {
	Kind       ErrorKind
	Status     int           // HTTP, 0 if there was none
	RetryAfter time.Duration // what the provider asked for, 0 if nothing
	Message    string
	Param      string // the field of the request that it is about, "" if unknown
	Cause      error  // for the log
}

func (e *Error) Error() string {
	if e.Status != 0 {
		return fmt.Sprintf("%s (HTTP %d): %s", e.Kind, e.Status, e.Message)
	}
	return fmt.Sprintf("%s: %s", e.Kind, e.Message)
}

func (e *Error) Unwrap() error { return e.Cause }

// Errorf makes an [*Error].
func Errorf(kind ErrorKind, format string, args ...any) *Error {
	return &Error{Kind: kind, Message: fmt.Sprintf(format, args...)}
}
