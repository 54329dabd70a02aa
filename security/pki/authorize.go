package pki

import (
	"cmp"
	"context"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

// A Need describes the act for which a caller uses a certificate. Empty fields
// ask for nothing.
type Need struct {
	Serial    protocol.Serial // the certificate it names; empty for its connection's
	Skill     protocol.SkillID
	Role      string
	SceneType protocol.SceneType
	Space     protocol.SpaceID // "" is the caller's own
}

// A Grant is the certificate that covers a [Need].
type Grant struct {
	Serial    protocol.Serial
	Authority Authority
	Principal string // id of the holder
	Kind      protocol.Kind
	Space     protocol.SpaceID
	Skill     protocol.SkillID
	Roles     []string
	Scenes    []protocol.SceneType
	Expires   time.Time
}

// Authorize checks that a certificate of one of the authorities names the
// skill, counts, covers role and scene type, and that the caller holds its key
// (docs/protocol.md#certificates): because its connection or token proves it,
// or because the request carries extension.proof. It fails with 2004 if there
// is no certificate, 2005 if it is unknown, 2006 and 2007 if it has ended, 2008
// if it does not cover the need and 2009 if the key was not proved.
func (s *Service) Authorize(_ context.Context, call *commands.Call, need Need) (Grant, error) {
	serial := need.Serial
	if serial == "" {
		serial = call.Principal.CertSerial
	}
	if serial == "" {
		return Grant{}, protocol.Errorf(protocol.CertificateRequired, "a certificate is required: name it in cert_sn and prove its key").
			With("param_name", "cert_sn")
	}
	e, err := s.named(serial)
	if err != nil {
		return Grant{}, err
	}
	if err := e.covers(need, call.Principal.Home()); err != nil {
		return Grant{}, err
	}
	if err := s.possession(call, e, string(need.Skill)); err != nil {
		return Grant{}, err
	}
	return Grant{
		Serial: e.Serial, Authority: e.Authority, Principal: e.scope.ID, Kind: e.scope.Kind, Space: e.scope.Space,
		Skill: e.scope.Skill, Roles: e.scope.Roles, Scenes: e.scope.Scenes, Expires: e.notAfter,
	}, nil
}

// Covers fails unless a certificate is valid and gives the needed rights. It checks
// no caller: it is for checking an earlier authorization again.
func (s *Service) Covers(serial protocol.Serial, need Need) error {
	e, err := s.named(serial)
	if err != nil {
		return err
	}
	return e.covers(need, e.scope.Space)
}

// named finds a valid certificate by a serial in any case.
func (s *Service) named(serial protocol.Serial) (*entry, error) {
	serial, err := protocol.ParseSerial(string(serial))
	if err != nil {
		return nil, err
	}
	e := s.index.find(serial)
	if e == nil {
		return nil, unknown()
	}
	return e, e.valid(s.opts.Now())
}

// covers fails if a certificate lacks something for the need of a caller in a space.
func (e *entry) covers(need Need, home protocol.SpaceID) error {
	lacks := func(what, wanted string) error {
		return protocol.Errorf(protocol.OutsideScope, "certificate %s is not for %s %q", e.Serial, what, wanted).
			With("serial", string(e.Serial)).With("reason", what)
	}
	switch {
	case e.scope.Space != cmp.Or(need.Space, home):
		return unknown() // things in another space do not exist
	case need.Skill != "" && e.scope.Skill != need.Skill:
		return lacks("skill", string(need.Skill))
	case !e.scope.coversRole(need.Role):
		return lacks("role", need.Role)
	case !e.scope.coversScene(need.SceneType):
		return lacks("scene type", string(need.SceneType))
	}
	return nil
}

// possession checks that the caller holds a certificate's key. subject is the
// text that a proof has to be about, the holder by default.
func (s *Service) possession(call *commands.Call, e *entry, subject string) error {
	if call.Principal.CertSerial == e.Serial {
		return nil
	}
	return s.checkProof(call, e, cmp.Or(subject, string(e.scope.Skill), e.scope.ID))
}
