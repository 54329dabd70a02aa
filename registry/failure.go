package registry

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/aibridge/aibridge/protocol"
)

// A failure is why an attempt gave no answer, and what that says about trying
// again.
type failure struct {
	err   *protocol.Error
	again repeat
}

// A repeat says whether a request may be sent to another agent.
type repeat uint8

const (
	never        repeat = iota // the answer is no, or no time is left
	ifIdempotent               // it may have been done
	always                     // it never arrived
)

func (f *failure) mayRepeat(idempotent bool) bool {
	return f.again == always || f.again == ifIdempotent && idempotent
}

// A target is what a request is sent to.
type target struct {
	what string // agent, endpoint
	id   string
}

func (a *Agent) target() target { return target{"agent", string(a.ID)} }

// fail builds a failure. The message is about the target: "is offline".
func (t target) fail(code protocol.Code, again repeat, format string, args ...any) *failure {
	message := fmt.Sprintf("%s %q ", t.what, t.id) + fmt.Sprintf(format, args...)
	return &failure{t.mark(&protocol.Error{Code: code, Message: message}), again}
}

// mark notes in an error which target it is about.
func (t target) mark(err *protocol.Error) *protocol.Error {
	if t.what == "agent" {
		return err.With("agent_id", t.id)
	}
	return err.With(t.what, t.id)
}

// unreachable is the failure for what never got the request.
func (t target) unreachable() *failure {
	return t.fail(protocol.AgentOffline, always, "is offline")
}

// gone is the failure for what went away with the request.
func (t target) gone(reason string) *failure {
	f := t.fail(protocol.OutcomeUnknown, ifIdempotent, "went away before it answered: %s", reason)
	f.err = f.err.With("reason", reason)
	return f
}

// banned is the failure for what was made to go with the request.
func (t target) banned(given *protocol.Error) *failure {
	err := &protocol.Error{Code: given.Code, Message: given.Message, Details: maps.Clone(given.Details)}
	return &failure{t.mark(err), ifIdempotent}
}

// nonsense is the failure for an answer that is none. What was asked may have
// been done, so the outcome is unknown.
func (t target) nonsense(at, reason string) *failure {
	what := reason
	if at != "" {
		what = at + ": " + reason
	}
	f := t.fail(protocol.OutcomeUnknown, ifIdempotent, "gave an answer that is not valid: %s", what)
	f.err = f.err.With("reason", reason)
	if at != "" {
		f.err = f.err.With("param_name", at)
	}
	return f
}

// rejected is the failure for what refused before it began.
func (t target) rejected(reason string) *failure {
	f := t.fail(protocol.TargetUnavailable, ifIdempotent, "rejected the task: %s", reason)
	f.err = f.err.With("reason", reason)
	return f
}

// gaveUp is the failure for a wait that ended before the answer came.
func (t target) gaveUp(cause error) *failure {
	var known *protocol.Error
	switch {
	case errors.As(cause, &known):
		return &failure{err: known}
	case errors.Is(cause, context.DeadlineExceeded):
		return t.fail(protocol.TimedOut, never, "did not answer in time")
	case errors.Is(cause, context.Canceled):
		return t.fail(protocol.Cancelled, never, "was told to stop")
	}
	return &failure{err: protocol.AsError(cause)}
}

// refused is the failure a target answered with. A code of the protocol
// passes as it is. Any other becomes the plainest of its class, which its
// first digit tells (source §15.1), and stays readable in details.agent_code.
func (t target) refused(given *protocol.Error) *failure {
	err := &protocol.Error{Code: given.Code, Message: given.Message}
	for key, value := range given.Details {
		err = err.With(key, value)
	}
	if !given.Code.Known() {
		err.Code = classOf(given.Code)
		err = err.With("agent_code", string(given.Code))
	}
	if err.Message == "" {
		err.Message = err.Code.String()
	}
	f := &failure{err: t.mark(err)}
	if err.Code.Retry() != protocol.RetryNever {
		f.again = ifIdempotent
	}
	return f
}

func classOf(code protocol.Code) protocol.Code {
	if len(code) == 4 {
		switch code[0] {
		case '1':
			return protocol.InvalidParameter
		case '2':
			return protocol.PermissionDenied
		case '3':
			return protocol.InvalidState
		case '4':
			return protocol.TargetUnavailable
		}
	}
	return protocol.Internal
}
