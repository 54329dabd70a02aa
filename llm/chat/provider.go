package chat

import (
	"context"
	"fmt"
	"time"
)

// A Provider is a client of one service that runs models. It is safe for use by many
// goroutines.
type Provider interface {
	// Stream requests one answer and emits its events. It returns nil after the finish,
	// an [*Error], or the error of emit or ctx.
	Stream(ctx context.Context, r *Request, emit func(Event) error) error
	// Models lists the models. It also serves as the probe of a provider.
	Models(ctx context.Context) ([]Model, error)
}

// A Model is one that a provider offers.
type Model struct {
	ID      string
	Name    string
	Version string
}

// ErrorKind is the class of a failure. It decides whether the request is repeated, and
// where.
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
	BadResponse    ErrorKind = "bad_response" // the response does not fit the wire format
	CutOff         ErrorKind = "cut_off"      // the stream ended before its finish
)

// An Error is a provider's failure to give a whole answer. Message may be shown to
// callers: it holds no key and no URL.
type Error struct {
	Kind       ErrorKind
	Status     int           // HTTP, 0 if there was none
	RetryAfter time.Duration // delay that the provider asked for, 0 for none
	Message    string
	Param      string // field of the request at fault, "" if unknown
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
