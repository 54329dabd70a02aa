package pki

import (
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// An Authority is one of those that grant certificates.
type Authority string

// The three authorities of the protocol (docs/protocol.md#certificates).
const (
	Operator   Authority = "operator"
	AppStore   Authority = "appstore"
	Enterprise Authority = "enterprise"
)

// Authorities lists them.
func Authorities() []Authority { return []Authority{Operator, AppStore, Enterprise} }

// A Certificate is the record of an issued certificate, also of a revoked or
// expired one, by its serial.
type Certificate struct {
	Serial    protocol.Serial `json:"serial"`
	Authority Authority       `json:"authority"`
	DER       []byte          `json:"der"`
	IssuedAt  time.Time       `json:"issued_at"`
	IssuedBy  string          `json:"issued_by"`         // id of the principal
	Request   string          `json:"request,omitempty"` // it was issued for
	Renews    protocol.Serial `json:"renews,omitempty"`  // the certificate before it
	Revoked   *Revocation     `json:"revoked,omitempty"`
}

// A Revocation is the time, the reason and the author of the revocation of a certificate.
type Revocation struct {
	At     time.Time `json:"at"`
	Code   int       `json:"code"` // reason code of RFC 5280, as in CRLs
	Reason string    `json:"reason"`
	By     string    `json:"by"` // id of the principal
}

// A Request is an application for a certificate.
type Request struct {
	ID        string         `json:"id"`
	Authority Authority      `json:"authority"`
	State     RequestState   `json:"state"`
	Scope     Scope          `json:"scope"`
	Validity  int            `json:"validity"` // seconds
	CSR       []byte         `json:"csr"`      // DER
	By        protocol.Party `json:"by"`       // the requester
	At        time.Time      `json:"at"`

	DecidedBy string          `json:"decided_by,omitempty"`
	DecidedAt time.Time       `json:"decided_at,omitzero"`
	Reason    string          `json:"reason,omitempty"`   // of the decision
	AnyName   bool            `json:"any_name,omitempty"` // an administrator approved it, whosever the names are
	Serial    protocol.Serial `json:"serial,omitempty"`   // once issued
}

func (r *Request) key() string { return requestKey(r.Scope.Space, r.ID) }

func requestKey(space protocol.SpaceID, id string) string { return string(space) + "/" + id }

// A RequestState is the state of a request.
type RequestState string

// The states of a request.
const (
	Pending  RequestState = "pending"
	Approved RequestState = "approved"
	Rejected RequestState = "rejected"
	Issued   RequestState = "issued"
)

// A Token lets a device without other credentials claim one certificate of a scope
// that was fixed beforehand. The record recognises the token, but cannot be used as
// one.
type Token struct {
	ID        string          `json:"id"`
	Hash      [32]byte        `json:"hash"` // SHA-256 of the secret, 256 random bits
	Authority Authority       `json:"authority"`
	Scope     Scope           `json:"scope"`
	Validity  int             `json:"validity"` // of the certificate, seconds
	Expires   time.Time       `json:"expires"`
	By        string          `json:"by"`
	AnyName   bool            `json:"any_name,omitempty"` // an administrator made it, whosever the names are
	Serial    protocol.Serial `json:"serial,omitempty"`   // once claimed
}

// An Entitlement is the ground for issuing one certificate: a request or a token,
// as it is after the issue. It must not have changed since Revision.
type Entitlement struct {
	Request  *Request
	Token    *Token
	Revision uint64
}

// A Hierarchy is the authorities' certificates and sealed keys, made together. The
// first, of the first start, has the root, too; the others are made when the
// authorities rotate, under the same root.
type Hierarchy struct {
	Created time.Time `json:"created"`
	Number  int       `json:"number,omitempty"` // 0 for the first
	Active  time.Time `json:"active,omitzero"`  // they issue from then on; the first since the first start
	Retired time.Time `json:"retired,omitzero"` // they are not trusted from then on, and have no keys
	CAs     []CA      `json:"cas"`
}

// Schema implements [records.Versioned]: earlier bridges know of no other authorities
// than the first.
func (h *Hierarchy) Schema() int {
	if h.Number > 0 || !h.Retired.IsZero() {
		return 3
	}
	return 1
}

// A CA is one authority. The root and the one for server certificates are
// among them.
type CA struct {
	Name string     `json:"name"`
	DER  []byte     `json:"der"`
	Key  *SealedKey `json:"key,omitempty"` // nil when it is held elsewhere
}
