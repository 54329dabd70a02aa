package protocol

// A SouthboundCode is an error code of the southbound dialect. Its numbers are
// those of other things in the bridge dialect: never mix them.
type SouthboundCode string

// The codes of the southbound dialect (docs/llm.md#the-llm-protocol). The set
// is closed.
const (
	SouthboundParameter   SouthboundCode = "1000"
	SouthboundAuth        SouthboundCode = "1001"
	SouthboundPermission  SouthboundCode = "1002"
	SouthboundNotFound    SouthboundCode = "1003"
	SouthboundTimeout     SouthboundCode = "1004"
	SouthboundNetwork     SouthboundCode = "1005"
	SouthboundBusy        SouthboundCode = "1006"
	SouthboundInternal    SouthboundCode = "1007"
	SouthboundFormat      SouthboundCode = "1008"
	SouthboundUnavailable SouthboundCode = "1009"
)

// Retried reports whether what failed with the code is tried again, with
// exponential backoff; the others are told at once.
func (c SouthboundCode) Retried() bool {
	switch c {
	case SouthboundTimeout, SouthboundNetwork, SouthboundBusy, SouthboundInternal, SouthboundUnavailable:
		return true
	}
	return false
}

// SouthboundCodeOf names an error of the bridge in the southbound
// dialect.
func SouthboundCodeOf(e *Error) SouthboundCode {
	if e.Code == LLMRefused || e.Code == LLMUnavailable {
		reason, _ := e.Details["reason"].(string)
		if code, ok := southboundReasons[reason]; ok {
			return code
		}
	}
	if code, ok := southboundCodes[e.Code]; ok {
		return code
	}
	return SouthboundInternal
}

// southboundReasons are codes for why a model gave no answer, where
// details.reason tells more than the code of the bridge. It is never changed.
var southboundReasons = map[string]SouthboundCode{
	"bad_request":    SouthboundParameter, // the caller's doing
	"context_length": SouthboundParameter,
	"unknown_model":  SouthboundNotFound,
	"rate_limited":   SouthboundBusy,
	"overloaded":     SouthboundBusy,
	"network":        SouthboundNetwork,
	"cut_off":        SouthboundNetwork,
}

// southboundCodes is never changed.
var southboundCodes = map[Code]SouthboundCode{
	MalformedEnvelope:  SouthboundFormat,
	InvalidParameter:   SouthboundParameter,
	UnknownCommand:     SouthboundParameter,
	UnsupportedVersion: SouthboundFormat,
	PayloadTooLarge:    SouthboundFormat,
	IDReused:           SouthboundParameter,
	RequestExpired:     SouthboundParameter,
	BatchInvalid:       SouthboundParameter,

	NotAuthenticated:    SouthboundAuth,
	CredentialInvalid:   SouthboundAuth,
	PermissionDenied:    SouthboundPermission,
	CertificateRequired: SouthboundAuth,
	CertificateUnknown:  SouthboundAuth,
	CertificateExpired:  SouthboundAuth,
	CertificateRevoked:  SouthboundAuth,
	OutsideScope:        SouthboundPermission,
	ProofFailed:         SouthboundAuth,

	NotFound:         SouthboundNotFound,
	AlreadyExists:    SouthboundParameter,
	RevisionConflict: SouthboundParameter,
	LimitReached:     SouthboundPermission,
	AgentOffline:     SouthboundNetwork,
	InvalidState:     SouthboundParameter,

	VFSUnavailable:    SouthboundNetwork,
	SyncFailed:        SouthboundParameter,
	FileNotFound:      SouthboundNotFound,
	VFSPermission:     SouthboundPermission,
	NoSpace:           SouthboundPermission,
	TargetUnavailable: SouthboundNetwork,
	TimedOut:          SouthboundTimeout,
	Busy:              SouthboundBusy,
	RateLimited:       SouthboundBusy,
	LLMUnavailable:    SouthboundUnavailable,
	LLMRefused:        SouthboundUnavailable,
	OutcomeUnknown:    SouthboundInternal,
	Cancelled:         SouthboundInternal,
	BudgetSpent:       SouthboundPermission,

	Internal:         SouthboundInternal,
	StoreUnavailable: SouthboundInternal,
	ShuttingDown:     SouthboundUnavailable,
}
