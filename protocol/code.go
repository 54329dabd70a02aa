package protocol

import (
	"maps"
	"net/http"
	"slices"
)

// A Code is a four-digit error code of the bridge dialect
// (docs/protocol.md#codes).
type Code string

// The codes of the bridge dialect. The set is closed.
const (
	MalformedEnvelope  Code = "1000"
	InvalidParameter   Code = "1001"
	UnknownCommand     Code = "1002"
	UnsupportedVersion Code = "1003"
	PayloadTooLarge    Code = "1004"
	IDReused           Code = "1005"
	RequestExpired     Code = "1006"
	BatchInvalid       Code = "1007"

	NotAuthenticated    Code = "2001"
	CredentialInvalid   Code = "2002"
	PermissionDenied    Code = "2003"
	CertificateRequired Code = "2004"
	CertificateUnknown  Code = "2005"
	CertificateExpired  Code = "2006"
	CertificateRevoked  Code = "2007"
	OutsideScope        Code = "2008"
	ProofFailed         Code = "2009"

	NotFound         Code = "3001"
	AlreadyExists    Code = "3002"
	RevisionConflict Code = "3003"
	LimitReached     Code = "3004"
	AgentOffline     Code = "3005"
	InvalidState     Code = "3006"

	VFSUnavailable    Code = "4001"
	SyncFailed        Code = "4002"
	FileNotFound      Code = "4003"
	VFSPermission     Code = "4004"
	NoSpace           Code = "4005"
	TargetUnavailable Code = "4006"
	TimedOut          Code = "4007"
	Busy              Code = "4008"
	RateLimited       Code = "4009"
	LLMUnavailable    Code = "4010"
	LLMRefused        Code = "4011"
	OutcomeUnknown    Code = "4012"
	Cancelled         Code = "4013"
	BudgetSpent       Code = "4014"

	Internal         Code = "5000"
	StoreUnavailable Code = "5001"
	ShuttingDown     Code = "5002"
)

// Retry says whether and how a client may repeat a request that failed with a
// code (docs/protocol.md#codes, the last column).
type Retry uint8

// The retry classes.
const (
	RetryNever   Retry = iota // the same request will fail the same way
	RetryAfter                // after details.retry_after_ms
	RetryBackoff              // with exponential backoff and the same id
)

// String names the class.
func (r Retry) String() string {
	switch r {
	case RetryAfter:
		return "after retry_after_ms"
	case RetryBackoff:
		return "with backoff"
	}
	return "never"
}

type codeInfo struct {
	summary string
	status  int // of an HTTP answer
	retry   Retry
}

// codes is never changed.
var codes = map[Code]codeInfo{
	MalformedEnvelope:  {"malformed envelope", http.StatusBadRequest, RetryNever},
	InvalidParameter:   {"invalid parameter", http.StatusBadRequest, RetryNever},
	UnknownCommand:     {"unknown command", http.StatusBadRequest, RetryNever},
	UnsupportedVersion: {"unsupported version", http.StatusBadRequest, RetryNever},
	PayloadTooLarge:    {"payload too large", http.StatusRequestEntityTooLarge, RetryNever},
	IDReused:           {"id reused with another body", http.StatusBadRequest, RetryNever},
	RequestExpired:     {"request expired", http.StatusBadRequest, RetryNever},
	BatchInvalid:       {"batch invalid", http.StatusBadRequest, RetryNever},

	NotAuthenticated:    {"not authenticated", http.StatusUnauthorized, RetryNever},
	CredentialInvalid:   {"credential expired or invalid", http.StatusUnauthorized, RetryNever},
	PermissionDenied:    {"permission denied", http.StatusForbidden, RetryNever},
	CertificateRequired: {"certificate required", http.StatusForbidden, RetryNever},
	CertificateUnknown:  {"certificate unknown or malformed serial", http.StatusForbidden, RetryNever},
	CertificateExpired:  {"certificate expired", http.StatusForbidden, RetryNever},
	CertificateRevoked:  {"certificate revoked", http.StatusForbidden, RetryNever},
	OutsideScope:        {"outside the certificate's scope", http.StatusForbidden, RetryNever},
	ProofFailed:         {"proof of possession failed", http.StatusForbidden, RetryNever},

	NotFound:         {"not found", http.StatusNotFound, RetryNever},
	AlreadyExists:    {"already exists", http.StatusConflict, RetryNever},
	RevisionConflict: {"revision conflict", http.StatusConflict, RetryNever},
	LimitReached:     {"limit reached", http.StatusConflict, RetryNever},
	AgentOffline:     {"agent offline", http.StatusConflict, RetryNever},
	InvalidState:     {"invalid state", http.StatusConflict, RetryNever},

	VFSUnavailable:    {"VFS unavailable", http.StatusServiceUnavailable, RetryBackoff},
	SyncFailed:        {"sync failed", http.StatusBadRequest, RetryNever},
	FileNotFound:      {"file not found", http.StatusNotFound, RetryNever},
	VFSPermission:     {"VFS permission denied", http.StatusForbidden, RetryNever},
	NoSpace:           {"no space", http.StatusInsufficientStorage, RetryNever},
	TargetUnavailable: {"target unavailable", http.StatusServiceUnavailable, RetryBackoff},
	TimedOut:          {"timed out", http.StatusGatewayTimeout, RetryNever},
	Busy:              {"busy", http.StatusServiceUnavailable, RetryAfter},
	RateLimited:       {"rate limited", http.StatusTooManyRequests, RetryAfter},
	LLMUnavailable:    {"LLM unavailable", http.StatusServiceUnavailable, RetryBackoff},
	LLMRefused:        {"LLM provider refused", http.StatusBadGateway, RetryNever},
	OutcomeUnknown:    {"outcome unknown", http.StatusGatewayTimeout, RetryNever},
	Cancelled:         {"cancelled", http.StatusConflict, RetryNever},
	BudgetSpent:       {"budget spent", http.StatusTooManyRequests, RetryNever},

	Internal:         {"internal error", http.StatusInternalServerError, RetryNever},
	StoreUnavailable: {"store unavailable", http.StatusInternalServerError, RetryBackoff},
	ShuttingDown:     {"shutting down", http.StatusInternalServerError, RetryBackoff},
}

// Codes lists all codes in order.
func Codes() []Code { return slices.Sorted(maps.Keys(codes)) }

// Known reports whether the code is one of the bridge dialect.
func (c Code) Known() bool { _, ok := codes[c]; return ok }

// String describes the code in a few words, "agent offline".
func (c Code) String() string {
	if info, ok := codes[c]; ok {
		return info.summary
	}
	return "unknown code " + string(c)
}

// HTTPStatus is the status an HTTP answer with this error carries.
func (c Code) HTTPStatus() int {
	if info, ok := codes[c]; ok {
		return info.status
	}
	return http.StatusInternalServerError
}

// Retry is the retry class of the code.
func (c Code) Retry() Retry { return codes[c].retry }
