package scene

import (
	"context"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

// Certificates knows certificates and their use.
type Certificates interface {
	// Authorize checks that a call may use a certificate for a need
	// (docs/protocol.md#certificates): its issuer, its scope, its validity, and
	// that the caller holds its key. A refusal has the code 2004 to 2009.
	Authorize(ctx context.Context, call *commands.Call, need Need) (Grant, error)
	// Current returns the valid certificate in the place of an authorized one:
	// itself, or its renewal once it has expired. Without any the error is 2005,
	// 2006 or 2007.
	Current(serial protocol.Serial) (protocol.Serial, error)
}

// A Need is a right that a certificate must give.
type Need struct {
	Serial    protocol.Serial // the one that is named, "" for the connection's own
	Skill     protocol.SkillID
	Role      string
	SceneType protocol.SceneType
	Space     protocol.SpaceID
}

// A Grant is a certificate that allows it.
type Grant struct{ Serial protocol.Serial }

// A declaration is the content of a declaration about a skill.
type declaration struct {
	id
	skill protocol.SkillID
	role  string
	owner bool   // it claims to own the scene
	named string // serial of a certificate, "" for none
}

// certify checks the certificate of a claim, if one is shown or needed, and
// returns its serial. The holder of the key of a skill's certificate speaks for the
// skill; any other principal needs the right to.
func (s *Service) certify(ctx context.Context, call *commands.Call, c declaration) (protocol.Serial, error) {
	space := call.Principal.Home()
	needed := c.role == RouteRole || c.owner || s.opts.Strict
	if c.named == "" && !needed {
		if !s.speaksFor(call.Principal, space, c.skill) {
			return "", notYours(c.skill)
		}
		return "", nil
	}
	need := Need{Skill: c.skill, Role: c.role, SceneType: c.scene, Space: space}
	if c.named != "" {
		serial, err := protocol.ParseSerial(c.named)
		if err != nil {
			return "", err
		}
		need.Serial = serial
	}
	grant, err := s.opts.Certificates.Authorize(ctx, call, need)
	if err != nil {
		return "", err
	}
	return grant.Serial, nil
}
