package app

import (
	"github.com/aibridge/aibridge/internal/store"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/registry"
	"github.com/aibridge/aibridge/security"
	"github.com/aibridge/aibridge/security/pki"
)

// parties are those that the bridge knows: by a registration, an API key or a
// certificate. Whom tokens name it does not know before they come.
type parties struct {
	registry     *registry.Service
	keys         *store.Table[security.Key]
	certificates interface{ HasHolder(protocol.Party) bool } // nil while there are none
}

var _ pki.Parties = (*parties)(nil)

// Owner implements [pki.Parties].
func (p *parties) Owner(of protocol.Party) (owner protocol.Party, known bool) {
	var facts registry.Facts
	switch of.Kind {
	case protocol.KindAgent:
		facts, known = p.registry.AgentFacts(of.Space, protocol.AgentID(of.ID))
	case protocol.KindSkill:
		facts, known = p.registry.SkillFacts(of.Space, protocol.SkillID(of.ID))
	}
	if known {
		return facts.Owner, true
	}
	return of, p.hasKey(of)
}

// Clash implements [pki.Parties].
func (p *parties) Clash(who protocol.Party) bool {
	if who.Kind != protocol.KindOperator {
		return p.knows(protocol.KindOperator, who)
	}
	_, agent := p.registry.AgentFacts(who.Space, protocol.AgentID(who.ID))
	return agent || p.knows(protocol.KindAgent, who) || p.knows(protocol.KindSkill, who)
}

// knows reports whether somebody of a kind, with the id and in the space of
// who, has a credential that is kept.
func (p *parties) knows(kind protocol.Kind, who protocol.Party) bool {
	who.Kind = kind
	return p.hasKey(who) || p.certificates != nil && p.certificates.HasHolder(who)
}

// certifiedFor reports whether a certificate counts and is for a skill.
func (a *App) certifiedFor(serial protocol.Serial, space protocol.SpaceID, skill protocol.SkillID) bool {
	return a.pki != nil && a.pki.Covers(serial, pki.Need{Skill: skill, Space: space}) == nil
}

func (p *parties) hasKey(who protocol.Party) bool {
	for _, k := range p.keys.All() {
		if k.Party() == who && k.Revoked.IsZero() {
			return true
		}
	}
	return false
}
