package registry

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

// routeCerts has two certificates for route agents, whose keys everybody has
// but mallet.
type routeCerts struct{}

func (routeCerts) AuthorizeRoute(_ context.Context, call *commands.Call, _ protocol.SpaceID, serial protocol.Serial) (RouteGrant, error) {
	if serial == "" {
		serial = call.Principal.CertSerial
	}
	skill, known := map[protocol.Serial]protocol.SkillID{"1111111111111111": "dispatch", "2222222222222222": "dispatch2"}[serial]
	switch {
	case serial == "":
		return RouteGrant{}, protocol.Errorf(protocol.CertificateRequired, "none")
	case !known:
		return RouteGrant{}, protocol.Errorf(protocol.CertificateUnknown, "unknown")
	case call.Principal.ID == "mallet":
		return RouteGrant{}, protocol.Errorf(protocol.ProofFailed, "not yours")
	}
	return RouteGrant{Serial: serial, Skill: skill}, nil
}

func TestARouteAgentTakesACertificate(t *testing.T) {
	t.Parallel()
	var told atomic.Int32
	w := newWorld(t, func(o *Options) { o.AgentChanged = func(protocol.SpaceID, protocol.AgentID) { told.Add(1) } })
	holder := &protocol.Principal{Kind: protocol.KindAgent, ID: "router", Space: protocol.DefaultSpace, CertSerial: "1111111111111111"}
	mallet := &protocol.Principal{Kind: protocol.KindOperator, ID: "mallet", Space: protocol.DefaultSpace}
	for _, test := range []struct {
		who    *protocol.Principal
		params string
		want   protocol.Code
	}{
		{alice, `{"agent_id":"router","type":"route_agent"}`, protocol.CertificateRequired},
		{alice, `{"agent_id":"router","type":"route_agent","cert_sn":"11"}`, protocol.CertificateUnknown},
		{alice, `{"agent_id":"router","type":"route_agent","cert_sn":"3333333333333333"}`, protocol.CertificateUnknown},
		{mallet, `{"agent_id":"router","type":"route_agent","cert_sn":"1111111111111111"}`, protocol.ProofFailed},
		{alice, `{"agent_id":"router","type":"end_agent","cert_sn":"1111111111111111"}`, protocol.InvalidParameter},
		{alice, `{"agent_id":"router","type":"mcp_agent","cert_sn":"1111111111111111"}`, protocol.InvalidParameter},
	} {
		w.fails(test.who, "agent.register", test.params, test.want)
	}
	if w.agents.Len() != 0 || told.Load() != 0 {
		t.Errorf("%d agents are there, %d changes were told", w.agents.Len(), told.Load())
	}
	w.do(holder, "agent.register", `{"agent_id":"router","type":"route_agent"}`, nil)
	w.do(holder, "skill.register", `{"agent_id":"router","skill":{"skill_id":"dispatch","name":"Dispatch","capabilities":["route"]}}`, nil)
	if a, _, _ := w.agents.Get("default/router"); a.CertSerial != "1111111111111111" || a.Routes != "dispatch" || told.Load() == 0 {
		t.Errorf("registered as %+v, %d changes were told", a, told.Load())
	}
	routes := func(who *protocol.Principal) bool {
		return w.RouteAgentOnline(who.Party(), protocol.DefaultSpace, "dispatch")
	}
	if !routes(holder) || !routes(bob) || w.RouteAgentOnline(holder.Party(), protocol.DefaultSpace, "nothing") {
		t.Error("the route agent is not there")
	}
	w.do(holder, "agent.register", `{"agent_id":"router","type":"end_agent"}`, nil)
	if !routes(holder) || routes(bob) {
		t.Error("an end agent counts for somebody else")
	}
	none := newWorld(t, func(o *Options) { o.Routes = nil })
	none.fails(alice, "agent.register", `{"agent_id":"router","type":"route_agent","cert_sn":"1111111111111111"}`, protocol.CertificateRequired)
}
