package pki

import (
	"slices"

	"github.com/aibridge/aibridge/protocol"
)

// Parties knows the parties besides the holders of certificates.
type Parties interface {
	// Owner returns the owner of an agent's or skill's name: its registrant, or
	// itself if it has a credential. known is whether there is such a one.
	Owner(of protocol.Party) (owner protocol.Party, known bool)
	// Clash reports whether another kind of party has the id: a
	// device, if it is a person's or a program's, or the other way round.
	Clash(who protocol.Party) bool
}

// nobodyElse knows of no one.
type nobodyElse struct{}

func (nobodyElse) Owner(protocol.Party) (protocol.Party, bool) { return protocol.Party{}, false }
func (nobodyElse) Clash(protocol.Party) bool                   { return false }

// holder returns the holder of certificates of the scope.
func (s *Scope) holder() protocol.Party {
	return protocol.Party{Kind: s.Kind, Space: s.Space, ID: s.ID}
}

// named are the agent and the skill that certificates of the scope speak for.
func (s *Scope) named() []protocol.Party {
	named := []protocol.Party{s.holder()}
	if skill := (protocol.Party{Kind: protocol.KindSkill, Space: s.Space, ID: string(s.Skill)}); s.Skill != "" && skill != named[0] {
		named = append(named, skill)
	}
	return named
}

// mayName refuses a certificate for an agent or a skill of another owner. An officer may
// grant one to the agent or skill itself, to its owner, to one whose owner has a
// certificate of the same authority, and to a new one.
func (s *Service) mayName(decides *protocol.Principal, a Authority, scope *Scope, asks protocol.Party) error {
	if everything(decides) {
		return nil
	}
	return s.unowned(a, scope, asks)
}

func (s *Service) unowned(a Authority, scope *Scope, asks protocol.Party) error {
	for _, name := range scope.named() {
		owner, known := s.opts.Parties.Owner(name)
		if !known || asks == name || owner.ID != "" && owner.Includes(asks) || s.grantedTo(a, owner) {
			continue
		}
		param := string(name.Kind) + "_id"
		return protocol.Errorf(protocol.PermissionDenied, "%s %q is somebody else's: its owner may ask for the certificate, or an administrator issue it", name.Kind, name.ID).
			With("param_name", param).With("reason", "is somebody else's").With(param, name.ID)
	}
	return nil
}

// grantedTo reports whether an authority has granted a certificate to a party.
func (s *Service) grantedTo(a Authority, who protocol.Party) bool {
	return slices.ContainsFunc(s.index.all(), func(e *entry) bool { return e.Authority == a && who.Includes(e.scope.holder()) })
}

// HasHolder reports whether a party holds, or held, a certificate.
func (s *Service) HasHolder(who protocol.Party) bool {
	return slices.ContainsFunc(s.index.all(), func(e *entry) bool { return e.scope.holder() == who })
}
