package registry

import (
	"context"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

// A RouteAuthorizer decides which agents may be route agents.
type RouteAuthorizer interface {
	// AuthorizeRoute checks that a call may use a certificate with the role
	// agent_route in a space: the one with the serial, that of its connection
	// if none is named. A refusal has the code 2004 to 2009.
	AuthorizeRoute(ctx context.Context, call *commands.Call, space protocol.SpaceID, serial protocol.Serial) (RouteGrant, error)
}

// A RouteGrant is a certificate that makes a route agent, and the skill that
// it is for.
type RouteGrant struct {
	Serial protocol.Serial
	Skill  protocol.SkillID
}

// authorizeRoute checks the certificate of an agent that wants to be a route
// agent. Others need none.
func (s *Service) authorizeRoute(ctx context.Context, call *commands.Call, space protocol.SpaceID, p RegisterAgentParams) (RouteGrant, error) {
	switch {
	case p.Type != RouteAgent && p.CertSN != "":
		return RouteGrant{}, protocol.InvalidParam("cert_sn", "is of use to route agents only")
	case p.Type != RouteAgent:
		return RouteGrant{}, nil
	case s.opts.Routes == nil:
		return RouteGrant{}, protocol.Errorf(protocol.CertificateRequired, "a route agent takes a certificate, and there is no authority to issue one")
	case p.CertSN == "":
		return s.opts.Routes.AuthorizeRoute(ctx, call, space, "")
	}
	serial, err := protocol.ParseSerial(p.CertSN)
	if err != nil {
		return RouteGrant{}, err
	}
	return s.opts.Routes.AuthorizeRoute(ctx, call, space, serial)
}

// authorized reports whether an agent is a route agent by a certificate. One
// whose certificate has ended is offline, which is looked at elsewhere.
func (a *Agent) authorized() bool { return a.Type == RouteAgent && a.Routes != "" }

// routes reports whether a skill is provided by a route agent that is online
// and authorised for this very skill.
func (s *Service) routes(r *SkillRecord) bool {
	for _, p := range r.Providers {
		a, _, ok := s.opts.Agents.Get(tableKey(r.Space, p.AgentID))
		if ok && a.authorized() && a.Routes == r.ID && s.board.isOnline(a.Key()) {
			return true
		}
	}
	return false
}

// RouteAgentOnline reports whether an agent is alive that serves a skill and was
// registered by a party, or is a route agent authorised for the skill. It need not
// be callable, as a leader of a scene calls others.
func (s *Service) RouteAgentOnline(who protocol.Party, space protocol.SpaceID, skill protocol.SkillID) bool {
	r, _, ok := s.opts.Skills.Get(tableKey(space, skill))
	if !ok {
		return false
	}
	for _, p := range r.Providers {
		a, _, ok := s.opts.Agents.Get(tableKey(space, p.AgentID))
		if ok && ((a.Owner.Includes(who) || who.Includes(a.Owner)) || a.authorized() && a.Routes == skill) && s.board.isAlive(a.Key()) {
			return true
		}
	}
	return false
}
