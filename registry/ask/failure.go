package ask

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/aibridge/aibridge/protocol"
)

// A failure is the error of an attempt, with the consequences for a repetition.
type failure struct {
	err   *protocol.Error
	kind  Kind // of the notice to a durable request: Failed, Rejected or Left
	again repeat
	// unread is true if there was an answer that could not be read.
	unread bool
	// open is true if the request may have been carried out: the target has not denied
	// it.
	open bool
}

// A repeat is the condition for sending a request to another agent.
type repeat uint8

const (
	never        repeat = iota // the answer is no, or no time is left
	ifIdempotent               // the request may have been carried out
	always                     // it never arrived
)

func (f *failure) mayRepeat(idempotent bool) bool {
	return f.again == always || f.again == ifIdempotent && idempotent
}

// final is the error for a caller without a further attempt. After an unreadable answer
// the outcome is open; if the request is idempotent, the caller may try again. If it is
// not, no error of a request with an open outcome may invite a repetition, as that of a
// stopping bridge would: the repetition could do the work twice.
func (f *failure) final(idempotent bool) *protocol.Error {
	err := f.err
	switch {
	case f.unread && idempotent:
		return &protocol.Error{Code: protocol.TargetUnavailable, Message: err.Message, Details: err.Details}
	case f.open && !idempotent && err.Code.Retry() != protocol.RetryNever:
		return &protocol.Error{Code: protocol.OutcomeUnknown, Message: "it may have been done: " + err.Message, Details: err.Details}
	}
	return err
}

// A target is the receiver of a request.
type target struct {
	what string // agent, endpoint
	id   string
}

// target is the thing that the request of an exchange went to.
func (e *exchange) target() target {
	if e.Agent != nil {
		return target{"agent", string(e.agentID())}
	}
	return target{"endpoint", e.endpoint}
}

// agentID is the agent that has the request, "" for an endpoint of a skill.
func (e *exchange) agentID() protocol.AgentID {
	if e.Agent == nil {
		return ""
	}
	return e.Agent.Key().ID
}

// fail builds a failure. The message is about the target: "is offline".
func (t target) fail(code protocol.Code, again repeat, format string, args ...any) *failure {
	message := fmt.Sprintf("%s %q ", t.what, t.id) + plain(fmt.Sprintf(format, args...))
	return &failure{err: t.mark(&protocol.Error{Code: code, Message: message}), again: again}
}

// mark notes in an error which target it is about.
func (t target) mark(err *protocol.Error) *protocol.Error {
	if t.what == "agent" {
		return err.With("agent_id", t.id)
	}
	return err.With(t.what, t.id)
}

// unreachable is the failure of a target that never got the request.
func (t target) unreachable() *failure {
	return t.fail(protocol.AgentOffline, always, "is offline")
}

// justLeft is the failure for an agent that went when it was asked: the request is in its
// session, and arrives before its cancellation if the agent comes back.
func (t target) justLeft() *failure {
	f := t.fail(protocol.OutcomeUnknown, ifIdempotent, "went away when it was asked, and may get the request when it comes back")
	f.open = true
	return f
}

// gone is the failure of a target that disconnected with the request.
func (t target) gone(reason string) *failure {
	f := t.fail(protocol.OutcomeUnknown, ifIdempotent, "went away before it answered: %s", reason)
	f.err, f.open = f.err.With("reason", reason), true
	return f
}

// banned is the failure of a request to a peer that may not be asked any more.
func (t target) banned(given *protocol.Error) *failure {
	err := &protocol.Error{Code: given.Code, Message: given.Message, Details: maps.Clone(given.Details)}
	return &failure{err: t.mark(err), again: ifIdempotent, open: true}
}

// nonsense is the failure for an invalid answer. The request may have been carried out,
// so the outcome is unknown.
func (t target) nonsense(at, reason string) *failure {
	what := reason
	if at != "" {
		what = at + ": " + reason
	}
	f := t.fail(protocol.OutcomeUnknown, ifIdempotent, "gave an answer that is not valid: %s", what)
	f.err, f.open = f.err.With("reason", reason), true
	if at != "" {
		f.err = f.err.With("param_name", at)
	}
	return f
}

// invalid is the failure for a result that does not fit.
func (t target) invalid(err error) *failure {
	var wrong *InvalidResult
	if errors.As(err, &wrong) {
		return t.nonsense(wrong.At, wrong.Reason)
	}
	return &failure{err: protocol.AsError(err), open: true}
}

// garbled is the failure for an answer that cannot be read.
func (t target) garbled(reason string) *failure {
	f := t.nonsense("", plain(reason))
	f.unread = true
	return f
}

// rejected is the failure of a target that refused the request before it began.
func (t target) rejected(reason string) *failure {
	f := t.fail(protocol.TargetUnavailable, ifIdempotent, "rejected the task: %s", reason)
	f.err, f.kind = f.err.With("reason", plain(reason)), Rejected
	return f
}

// gaveUp is the failure for a wait that ended before the answer came.
func (t target) gaveUp(cause error) *failure {
	var known *protocol.Error
	f := &failure{err: protocol.AsError(cause)}
	switch {
	case errors.As(cause, &known):
		f.err = known
	case errors.Is(cause, context.DeadlineExceeded):
		f = t.fail(protocol.TimedOut, never, "did not answer in time")
	case errors.Is(cause, context.Canceled):
		f = t.fail(protocol.Cancelled, never, "was told to stop")
	}
	f.open = true
	return f
}

// refused is the failure with which a target answered. A code of the protocol passes
// unchanged, unless it is about the bridge's own checks: see [bridgesOwn]. Any other
// becomes the general code of its class, which is its first digit
// (docs/protocol.md#codes-of-agents). A replaced code stays readable in
// details.agent_code.
func (t target) refused(given *protocol.Error) *failure {
	err := &protocol.Error{Code: given.Code, Message: plain(given.Message)}
	for key, value := range given.Details {
		if key != agentCode {
			err = err.With(plain(key), plainValue(value))
		}
	}
	own := bridgesOwn(given.Code)
	switch {
	case own:
		err.Code = protocol.TargetUnavailable
	case !given.Code.Known():
		err.Code = classOf(given.Code)
	}
	if err.Code != given.Code {
		err = err.With(agentCode, plain(string(given.Code)))
	}
	if err.Message == "" {
		err.Message = err.Code.String()
	}
	if own {
		err.Message = fmt.Sprintf("%s %q refused: %s", t.what, t.id, err.Message)
	}
	f := &failure{err: t.mark(err), open: leavesOpen(given.Code)}
	if err.Code.Retry() != protocol.RetryNever && !own {
		f.again = ifIdempotent
	}
	return f
}

// leavesOpen reports whether a target that answers with a code leaves the outcome open.
func leavesOpen(code protocol.Code) bool {
	return code == protocol.OutcomeUnknown || code == protocol.TimedOut || code == protocol.Cancelled
}

// agentCode is the detail with the code of a target's that did not pass.
const agentCode = "agent_code"

// bridgesOwn reports whether a code is about the caller's envelope, credential or
// certificate, which a target never sees: such an answer would make the caller change
// its request, or drop its credential. A target may answer 2003, permission denied,
// and, about sealed calls, 2009, 1005 and 1006: wrong proof, id or age of the content.
func bridgesOwn(code protocol.Code) bool {
	switch code {
	case protocol.PermissionDenied, protocol.ProofFailed:
		return false
	case protocol.MalformedEnvelope, protocol.UnknownCommand, protocol.UnsupportedVersion, protocol.BatchInvalid:
		return true
	}
	return len(code) == 4 && code[0] == '2'
}

func classOf(code protocol.Code) protocol.Code {
	if len(code) == 4 {
		switch code[0] {
		case '1':
			return protocol.InvalidParameter
		case '3':
			return protocol.InvalidState
		case '4':
			return protocol.TargetUnavailable
		}
	}
	return protocol.Internal
}
