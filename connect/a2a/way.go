package a2a

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/aibridge/aibridge/protocol"
)

// Version is the version of the protocol that is spoken here.
const Version = "1.0"

// A way reaches an agent by one of the bindings.
type way interface {
	// call has an operation done, and returns its result.
	call(ctx context.Context, operation string, params any) (json.RawMessage, error)
	// stream has an operation done that answers with a stream, and hands every event
	// to take. It returns when the stream has ended, and when take returns false.
	stream(ctx context.Context, operation string, params any, take func(json.RawMessage) bool) error
}

// A lost is the error of a request without an answer, or with one that makes no sense.
type lost struct {
	sent bool // the agent may have it
	why  string
}

// Error implements error.
func (l *lost) Error() string { return l.why }

// told is an error as the caller gets it.
func told(err error) *protocol.Error {
	var gone *lost
	var refused *refusal
	switch {
	case errors.As(err, &gone) && gone.sent:
		return protocol.Errorf(protocol.OutcomeUnknown, "the message was sent to the agent, and %s: it may have acted", gone.why)
	case errors.As(err, &gone):
		return protocol.Errorf(protocol.TargetUnavailable, "the agent cannot be reached: %s", gone.why)
	case errors.As(err, &refused):
		return refused.told()
	}
	return protocol.AsError(err)
}

// A refusal is an error that the agent answered with.
type refusal struct {
	code    int // of JSON-RPC; 0 if it is known by the status alone
	status  int // of HTTP, 0 without it
	message string
	after   int64  // milliseconds until it may be tried again, 0 if it is not said
	kind    string // of the errors of A2A over MQTT
}

// Error implements error.
func (r *refusal) Error() string { return r.message }

// Codes of errors of A2A, and of JSON-RPC.
const (
	codeTaskNotFound     = -32001
	codeNotCancelable    = -32002
	codeUnsupported      = -32004
	codeContentType      = -32005
	codeVersion          = -32009
	codeInvalidRequest   = -32600
	codeMethodNotFound   = -32601
	codeInvalidParams    = -32602
	codeInternal         = -32603
	codeParse            = -32700
	reasonsOfA2A         = "a2a-protocol.org"
	expiredRequest       = "request_expired"
	unavailableResponder = "responder_unavailable"
	wrongTransport       = "transport_protocol_error"
)

// codesByReason are the codes of JSON-RPC by the reasons that REST tells instead.
var codesByReason = map[string]int{
	"TASK_NOT_FOUND": codeTaskNotFound, "TASK_NOT_CANCELABLE": codeNotCancelable, "UNSUPPORTED_OPERATION": codeUnsupported,
	"CONTENT_TYPE_NOT_SUPPORTED": codeContentType, "VERSION_NOT_SUPPORTED": codeVersion,
}

// told is the error as the caller gets it.
func (r *refusal) told() *protocol.Error {
	code := r.meaning()
	said := fmt.Sprintf("the agent refuses: %q", line(r.message, maxSaid))
	err := protocol.Errorf(code, "%s", said)
	switch code {
	case protocol.InvalidParameter:
		err = protocol.Errorf(code, "%s", said).With("param_name", "params").With("reason", said)
	case protocol.RateLimited, protocol.Busy:
		err = err.With("retry_after_ms", max(r.after, 1000))
	}
	if r.code != 0 {
		err = err.With("a2a_code", r.code)
	}
	return err
}

// meaning is the bridge's code closest to the agent's refusal.
func (r *refusal) meaning() protocol.Code {
	switch r.kind {
	case expiredRequest, unavailableResponder:
		return protocol.TargetUnavailable
	case wrongTransport:
		return protocol.Internal
	}
	switch r.code {
	case codeTaskNotFound:
		return protocol.NotFound
	case codeNotCancelable, codeUnsupported:
		return protocol.InvalidState
	case codeInvalidParams, codeContentType:
		return protocol.InvalidParameter
	case codeVersion, codeMethodNotFound, codeInvalidRequest, codeParse:
		return protocol.TargetUnavailable
	case codeInternal:
		return protocol.Internal
	}
	switch {
	case r.status == 429:
		return protocol.RateLimited
	case r.status == 503:
		return protocol.Busy
	case r.status == 400 || r.status == 413 || r.status == 415 || r.status == 422:
		return protocol.InvalidParameter
	case r.status == 404 || r.status == 401 || r.status == 403 || r.status == 405:
		return protocol.TargetUnavailable
	}
	return protocol.Internal
}

// A fault is an error object of JSON-RPC.
type fault struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data"`
}

func (f *fault) refusal(status int) *refusal {
	var data struct {
		Kind string `json:"a2a_error"`
	}
	_ = json.Unmarshal(f.Data, &data) // an array, except over MQTT
	return &refusal{code: f.Code, status: status, message: f.Message, kind: data.Kind}
}
