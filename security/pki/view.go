package pki

import (
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// A View is a certificate as callers see it.
type View struct {
	Serial    protocol.Serial      `json:"serial" doc:"serial number, 16 hexadecimal digits"`
	Status    Status               `json:"status" doc:"valid, expired, revoked or not yet valid"`
	Authority Authority            `json:"authority" doc:"authority that issued it: operator, appstore or enterprise"`
	Kind      protocol.Kind        `json:"kind" doc:"of the holder"`
	Principal string               `json:"principal" doc:"id of the holder"`
	Space     protocol.SpaceID     `json:"space_id" doc:"id of the space that the certificate is for"`
	Skill     protocol.SkillID     `json:"skill_id,omitempty" doc:"id of the skill that the certificate covers; absent if none"`
	Roles     []string             `json:"roles,omitempty" doc:"roles that the certificate covers; absent if none"`
	Scenes    []protocol.SceneType `json:"scene_types,omitempty" doc:"types of scenes that the certificate covers, * for all; absent if none"`
	Purpose   string               `json:"purpose,omitempty" doc:"purpose that the certificate states; absent if it states none"`
	IssuedAt  int64                `json:"issued_at" doc:"Unix milliseconds"`
	ExpiresAt int64                `json:"expires_at" doc:"Unix milliseconds"`
	IssuedBy  string               `json:"issued_by" doc:"id of the principal at whose word it was issued"`
	RequestID string               `json:"request_id,omitempty" doc:"id of the request it was issued for; absent if there was none"`
	Renews    protocol.Serial      `json:"renews,omitempty" doc:"the certificate before it"`
	RevokedAt int64                `json:"revoked_at,omitempty" doc:"Unix milliseconds"`
	RevokedBy string               `json:"revoked_by,omitempty" doc:"id of the principal that revoked it; absent if it is not revoked"`
	Reason    string               `json:"reason,omitempty" doc:"of the revocation"`
}

// A RequestView is a request as callers see it.
type RequestView struct {
	RequestID string               `json:"request_id" doc:"id of the request, for cert.get, cert.approve, cert.reject and cert.issue"`
	Status    RequestState         `json:"status" doc:"pending, approved, rejected or issued"`
	Authority Authority            `json:"authority" doc:"authority that is asked: operator, appstore or enterprise"`
	Kind      protocol.Kind        `json:"kind" doc:"of the holder to be"`
	Principal string               `json:"principal" doc:"id of the holder to be"`
	Space     protocol.SpaceID     `json:"space_id" doc:"id of the space that the certificate is to be for"`
	Skill     protocol.SkillID     `json:"skill_id,omitempty" doc:"id of the skill that the certificate is to cover; absent if none"`
	Roles     []string             `json:"roles,omitempty" doc:"roles that the certificate is to cover; absent if none"`
	Scenes    []protocol.SceneType `json:"scene_types,omitempty" doc:"types of scenes that the certificate is to cover, * for all; absent if none"`
	Purpose   string               `json:"purpose,omitempty" doc:"purpose as the certificate is to state it; absent if it is to state none"`
	By        string               `json:"requested_by" doc:"id of the principal that asked"`
	At        int64                `json:"requested_at" doc:"Unix milliseconds"`
	DecidedBy string               `json:"decided_by,omitempty" doc:"id of the principal that decided; absent while the request is pending"`
	DecidedAt int64                `json:"decided_at,omitempty" doc:"Unix milliseconds"`
	Reason    string               `json:"reason,omitempty" doc:"of the decision"`
	Serial    protocol.Serial      `json:"serial,omitempty" doc:"once issued"`
}

// A Status is the state of a certificate.
type Status string

// The statuses of a certificate.
const (
	StatusValid    Status = "valid"
	StatusExpired  Status = "expired"
	StatusRevoked  Status = "revoked"
	StatusNotValid Status = "not_yet_valid"
)

func (e *entry) status(now time.Time) Status {
	switch {
	case e.Revoked != nil:
		return StatusRevoked
	case now.After(e.notAfter):
		return StatusExpired
	case now.Before(e.notBefore):
		return StatusNotValid
	}
	return StatusValid
}

// lifetime is the time that a certificate lasts from its issue on.
func (e *entry) lifetime() time.Duration { return e.notAfter.Sub(e.notBefore) - backdate }

func (e *entry) view(now time.Time) View {
	v := View{
		Serial: e.Serial, Status: e.status(now), Authority: e.Authority, Kind: e.scope.Kind, Principal: e.scope.ID,
		Space: e.scope.Space, Skill: e.scope.Skill, Roles: e.scope.Roles, Scenes: e.scope.Scenes, Purpose: e.scope.Purpose,
		IssuedAt: e.Certificate.IssuedAt.UnixMilli(), ExpiresAt: e.notAfter.UnixMilli(), IssuedBy: e.IssuedBy, RequestID: e.Request, Renews: e.Renews,
	}
	if r := e.Revoked; r != nil {
		v.RevokedAt, v.RevokedBy, v.Reason = r.At.UnixMilli(), r.By, r.Reason
	}
	return v
}

func (r *Request) view() RequestView {
	v := RequestView{
		RequestID: r.ID, Status: r.State, Authority: r.Authority, Kind: r.Scope.Kind, Principal: r.Scope.ID,
		Space: r.Scope.Space, Skill: r.Scope.Skill, Roles: r.Scope.Roles, Scenes: r.Scope.Scenes, Purpose: r.Scope.Purpose,
		By: r.By.ID, At: r.At.UnixMilli(), DecidedBy: r.DecidedBy, Reason: r.Reason, Serial: r.Serial,
	}
	if !r.DecidedAt.IsZero() {
		v.DecidedAt = r.DecidedAt.UnixMilli()
	}
	return v
}
