package authz

import (
	"context"
	"slices"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/registry"
	"github.com/aibridge/aibridge/scene"
	"github.com/aibridge/aibridge/security"
	"github.com/aibridge/aibridge/security/pki"
)

// Parties are the parties that the bridge knows: by a registration, an API key or a
// certificate. The principals of tokens are unknown before they come.
type Parties struct {
	Agents       *registry.Service
	Keys         *security.KeyIndex
	Certificates func() *pki.Service // nil while there are none
}

var _ pki.Parties = Parties{}

// Owner implements [pki.Parties].
func (p Parties) Owner(of protocol.Party) (owner protocol.Party, known bool) {
	var facts registry.Facts
	switch of.Kind {
	case protocol.KindAgent:
		facts, known = p.Agents.AgentFacts(of.Space, protocol.AgentID(of.ID))
	case protocol.KindSkill:
		facts, known = p.Agents.SkillFacts(of.Space, protocol.SkillID(of.ID))
	}
	if known {
		return facts.Owner, true
	}
	return of, p.hasKey(of)
}

// Clash implements [pki.Parties].
func (p Parties) Clash(who protocol.Party) bool {
	if who.Kind != protocol.KindOperator {
		return p.knows(protocol.KindOperator, who)
	}
	_, agent := p.Agents.AgentFacts(who.Space, protocol.AgentID(who.ID))
	return agent || p.knows(protocol.KindAgent, who) || p.knows(protocol.KindSkill, who)
}

// knows reports whether a party of a kind, with the id and the space of who, has a
// credential.
func (p Parties) knows(kind protocol.Kind, who protocol.Party) bool {
	who.Kind = kind
	if p.hasKey(who) {
		return true
	}
	certificates := p.Certificates()
	return certificates != nil && certificates.HasHolder(who)
}

func (p Parties) hasKey(who protocol.Party) bool {
	return slices.ContainsFunc(p.Keys.Of(who), func(k *security.Key) bool { return k.Revoked.IsZero() })
}

// Principal is a party with the roles of its newest key.
func (p Parties) Principal(kind protocol.Kind, id string, space protocol.SpaceID) (*protocol.Principal, bool) {
	var newest *security.Key
	for _, k := range p.Keys.Of(protocol.Party{Kind: kind, Space: space, ID: id}) {
		if k.Revoked.IsZero() && (newest == nil || k.Created.After(newest.Created)) {
			newest = k
		}
	}
	if newest == nil {
		return nil, false
	}
	return &protocol.Principal{Kind: kind, ID: id, Space: space, Roles: newest.Roles, Scopes: newest.Scopes, Method: protocol.MethodAPIKey}, true
}

// Certificates judges certificates for scenes and route agents by the authorities
// of the bridge, which are opened when the tables are loaded, before the first
// check.
type Certificates struct {
	PKI func() *pki.Service
}

var (
	_ scene.Certificates       = Certificates{}
	_ registry.RouteAuthorizer = Certificates{}
)

// Authorize implements [scene.Certificates].
func (c Certificates) Authorize(ctx context.Context, call *commands.Call, need scene.Need) (scene.Grant, error) {
	granted, err := c.PKI().Authorize(ctx, call, pki.Need(need))
	if err != nil {
		return scene.Grant{}, err
	}
	return scene.Grant{Serial: granted.Serial}, nil
}

// Current implements [scene.Certificates].
func (c Certificates) Current(serial protocol.Serial) (protocol.Serial, error) {
	err := c.PKI().Valid(serial)
	if protocol.CodeOf(err) == protocol.CertificateExpired {
		if next := c.PKI().Successor(serial); next != "" {
			return next, nil
		}
	}
	return serial, err
}

// AuthorizeRoute implements [registry.RouteAuthorizer].
func (c Certificates) AuthorizeRoute(ctx context.Context, call *commands.Call, space protocol.SpaceID, serial protocol.Serial) (registry.RouteGrant, error) {
	granted, err := c.PKI().Authorize(ctx, call, pki.Need{Serial: serial, Role: scene.RouteRole, Space: space})
	if err != nil {
		return registry.RouteGrant{}, err
	}
	return registry.RouteGrant{Serial: granted.Serial, Skill: granted.Skill}, nil
}

// For reports whether a certificate is valid and is for a skill.
func (c Certificates) For(serial protocol.Serial, space protocol.SpaceID, skill protocol.SkillID) bool {
	authorities := c.PKI()
	return authorities != nil && authorities.Covers(serial, pki.Need{Skill: skill, Space: space}) == nil
}
