package audit

import (
	"context"
	"encoding/json"
	"net/netip"
	"time"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/protocol/grant"
)

// OK is the result of a success. Any other is an error code.
const OK = "ok"

// Events that are not commands. Parts of the bridge may name others, as
// subject.what-happened.
const (
	LoginFailed         = "login.failed"
	SessionDisconnected = "session.disconnected" // by the bridge, for a reason of security
	CertificateIssued   = "certificate.issued"
	CertificateRevoked  = "certificate.revoked"
	CertificateExpired  = "certificate.expired"
	KeyCreated          = "key.created"
	KeyRevoked          = "key.revoked"
	KeyRotated          = "key.rotated"
	TokenRevoked        = "token.revoked"
	PolicyChanged       = "policy.changed"
	SceneSuspended      = "scene.suspended"
	Repeated            = "audit.repeated" // refusals of more callers than are counted apart
	Closed              = "audit.closed"   // the chain of another bridge, which has ended
)

// Events of the trail itself: a bridge begins and ends to write.
const (
	started = "audit.started"
	stopped = "audit.stopped"
)

// An Entry is one thing that was decided or changed. Secrets and payloads
// have no place in it.
type Entry struct {
	Seq    uint64    `json:"seq" doc:"place in the chain of its bridge, from 1"`
	Bridge string    `json:"bridge_id,omitempty" doc:"bridge that recorded it"`
	Time   time.Time `json:"time" doc:"time at which it was recorded as done"`
	Event  string    `json:"event" doc:"event: a command's name, or such as login.failed"`
	Code   string    `json:"code" doc:"ok, or the error code"`

	// Security marks entries that are published to operators at once.
	Security bool `json:"security,omitempty" doc:"told to operators as an event of the family security"`

	Principal  string           `json:"principal,omitempty" doc:"principal who did it"`
	Kind       protocol.Kind    `json:"kind,omitempty" doc:"operator, agent, skill or bridge"`
	Space      protocol.SpaceID `json:"space_id,omitempty" doc:"of the principal"`
	Credential string           `json:"credential,omitempty" doc:"id of the credential that was shown"`
	Method     string           `json:"method,omitempty" doc:"way in which the principal authenticated"`
	CertSerial protocol.Serial  `json:"cert_sn,omitempty" doc:"certificate whose key the principal has proved to hold"`
	ActsFor    string           `json:"acts_for,omitempty" doc:"for whom, if not for itself"`

	Action   string          `json:"action,omitempty" doc:"subject of the decision by policy"`
	Resource string          `json:"resource,omitempty" doc:"on what, as type/id"`
	Params   json.RawMessage `json:"params,omitempty" doc:"parameters that may be shown"`
	Digest   string          `json:"params_digest,omitempty" doc:"keyed hash of all parameters"`
	Sealed   []byte          `json:"params_sealed,omitempty" doc:"parameters that are sealed and cannot be opened any more; those that can are shown as params"`

	Reason    string     `json:"reason,omitempty" doc:"reason, in words"`
	RequestID string     `json:"request_id,omitempty" doc:"id of the request"`
	TraceID   string     `json:"trace_id,omitempty" doc:"trace of the request"`
	Door      string     `json:"door,omitempty" doc:"by which it came in: mqtt, http, ws"`
	Address   netip.Addr `json:"address,omitzero" doc:"network address it came from"`

	Async bool `json:"async,omitempty" doc:"end of a task whose start was recorded before"`
	Late  bool `json:"late,omitempty" doc:"end of a call whose caller had been told that its time was over"`

	Details map[string]string `json:"details,omitempty" doc:"more, by name"`
}

// By names the principal that acted.
func (e Entry) By(who *protocol.Principal) Entry {
	if who == nil {
		return e
	}
	e.Principal, e.Kind, e.Space = who.ID, who.Kind, who.Space
	e.Credential, e.Method, e.CertSerial = who.Credential, who.Method, who.CertSerial
	return e
}

// ByGrant returns the entry about something done with a grant.
func (e Entry) ByGrant(g grant.Grant) Entry {
	e.Principal, e.Kind, e.Space = g.ID, g.Kind, g.Space
	e.Credential, e.Method, e.CertSerial = g.Credential, g.Method, g.CertSerial
	return e
}

// A Recorder takes entries. Record fills in the time if it is missing; it does
// not wait for the entry to be stored.
type Recorder interface {
	Record(ctx context.Context, e Entry)
}

// Discard is the [Recorder] that forgets everything, for tests and tools.
type Discard struct{}

// Record does nothing.
func (Discard) Record(context.Context, Entry) {}
