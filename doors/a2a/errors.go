package a2a

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/aibridge/aibridge/protocol"
)

// A kind is a kind of errors, with its codes in both bindings.
type kind struct {
	reason string // of google.rpc.ErrorInfo, "" of those of JSON-RPC itself
	code   int    // of JSON-RPC
	http   int
	status string // of google.rpc.Status
}

// The kinds of errors of A2A, and of JSON-RPC.
var (
	taskNotFound            = &kind{"TASK_NOT_FOUND", -32001, http.StatusNotFound, "NOT_FOUND"}
	taskNotCancelable       = &kind{"TASK_NOT_CANCELABLE", -32002, http.StatusBadRequest, "FAILED_PRECONDITION"}
	pushNotSupported        = &kind{"PUSH_NOTIFICATION_NOT_SUPPORTED", -32003, http.StatusBadRequest, "FAILED_PRECONDITION"}
	unsupportedOperation    = &kind{"UNSUPPORTED_OPERATION", -32004, http.StatusBadRequest, "FAILED_PRECONDITION"}
	contentTypeNotSupported = &kind{"CONTENT_TYPE_NOT_SUPPORTED", -32005, http.StatusBadRequest, "INVALID_ARGUMENT"}
	versionNotSupported     = &kind{"VERSION_NOT_SUPPORTED", -32009, http.StatusBadRequest, "FAILED_PRECONDITION"}

	parseError     = &kind{"", -32700, http.StatusBadRequest, "INVALID_ARGUMENT"}
	invalidRequest = &kind{"", -32600, http.StatusBadRequest, "INVALID_ARGUMENT"}
	methodNotFound = &kind{"", -32601, http.StatusNotFound, "NOT_FOUND"}
	invalidParams  = &kind{"", -32602, http.StatusBadRequest, "INVALID_ARGUMENT"}
)

// The domains of reasons: of the protocol, and of the bridge.
const (
	domain       = "a2a-protocol.org"
	bridgeDomain = "aibridge"
)

// An Error is the refusal of a request.
type Error struct {
	kind       *kind
	Message    string
	metadata   map[string]string
	violations []violation
	challenge  string          // for a client without a good credential
	transport  string          // of an error of MQTT (A2A over MQTT 0.1, Mandatory Binding-Specific Error Mapping)
	cause      *protocol.Error // of the bridge, of one that is no error of A2A
}

// Error implements error.
func (e *Error) Error() string { return e.Message }

func refusal(k *kind, message string, metadata ...string) *Error {
	e := &Error{kind: k, Message: message}
	for i := 0; i+1 < len(metadata); i += 2 {
		if e.metadata == nil {
			e.metadata = make(map[string]string)
		}
		e.metadata[metadata[i]] = metadata[i+1]
	}
	return e
}

// asError converts an error for clients.
func asError(err error) *Error {
	if e, ok := err.(*Error); ok {
		return e
	}
	cause := protocol.AsError(err)
	e := &Error{cause: cause, Message: cause.Message}
	status := cause.Code.HTTPStatus()
	e.kind = &kind{strings.ToUpper(strings.ReplaceAll(strings.ReplaceAll(cause.Code.String(), " ", "_"), "-", "_")), -32000, status, statusName(status)}
	if status == http.StatusInternalServerError {
		e.kind.code = -32603
	}
	return e
}

// statusName is the name that google.rpc.Code has for a status of HTTP.
func statusName(status int) string {
	switch status {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType:
		return "INVALID_ARGUMENT"
	case http.StatusUnauthorized:
		return "UNAUTHENTICATED"
	case http.StatusForbidden:
		return "PERMISSION_DENIED"
	case http.StatusNotFound:
		return "NOT_FOUND"
	case http.StatusConflict:
		return "ABORTED"
	case http.StatusTooManyRequests:
		return "RESOURCE_EXHAUSTED"
	case http.StatusServiceUnavailable:
		return "UNAVAILABLE"
	case http.StatusGatewayTimeout:
		return "DEADLINE_EXCEEDED"
	case http.StatusNotImplemented:
		return "UNIMPLEMENTED"
	}
	return "INTERNAL"
}

// details are the words of both bindings besides code and message.
func (e *Error) details() []any {
	var list []any
	if len(e.violations) > 0 {
		list = append(list, map[string]any{"@type": "type.googleapis.com/google.rpc.BadRequest", "fieldViolations": e.violations})
	}
	if e.kind.reason == "" {
		return list
	}
	info := map[string]any{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": e.kind.reason, "domain": domain}
	metadata := e.metadata
	if e.cause != nil {
		info["domain"] = bridgeDomain
		metadata = map[string]string{"code": string(e.cause.Code)}
	}
	if len(metadata) > 0 {
		info["metadata"] = metadata
	}
	return append(list, info)
}

// An rpcError is an error of JSON-RPC.
type rpcError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Data    any    `json:"data,omitempty"` // an array of details, but for errors of MQTT
}

func (e *Error) rpc() *rpcError {
	told := &rpcError{Code: e.kind.code, Message: e.Message}
	if e.transport != "" {
		told.Data = map[string]string{"a2a_error": e.transport}
	} else if details := e.details(); len(details) > 0 {
		told.Data = details
	}
	return told
}

// rest is the error as REST has it.
func (e *Error) rest() json.RawMessage {
	body, err := json.Marshal(map[string]any{"error": struct {
		Code    int    `json:"code"`
		Status  string `json:"status"`
		Message string `json:"message"`
		Details []any  `json:"details,omitempty"`
	}{e.kind.http, e.kind.status, e.Message, e.details()}})
	if err != nil {
		return json.RawMessage(`{"error":{"code":500,"status":"INTERNAL","message":"internal error"}}`)
	}
	return body
}
