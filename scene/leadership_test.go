package scene

import (
	"testing"
	"time"

	"github.com/aibridge/aibridge/internal/bubble"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/protocol"
)

func TestASceneWhoseRouteAgentGoesIsSuspendedUntilItIsBack(t *testing.T) {
	w := newWorld(t)
	w.must(router, "scene.declare", declareRouter)
	w.must(lamp, "scene.join", joinLamp)
	w.connect("agent-router", false)
	w.becomes("HOME", "suspended router (the RouteAgent is offline): router agent_route offline, lamp light online")
	if e := w.told("HOME/home scene.suspended router"); e.Status != Suspended || e.Reason != reasonOffline || e.Acting != "" {
		t.Errorf("told %+v", e)
	}
	eventually.Holds(t, "that is retained", func() bool { return w.kept("HOME/home") == "scene.suspended suspended" })
	w.connect("agent-router", true)
	w.becomes("HOME", "active router: router agent_route online, lamp light online")
	w.told("HOME/home scene.resumed router")
	w.connect("agent-lamp", false) // devices come and go as they like
	w.becomes("HOME", "active router: router agent_route online, lamp light offline")
}

func TestABackupTakesOverAndGivesBack(t *testing.T) {
	w := newWorld(t)
	w.full()
	w.connect("agent-router", false)
	w.becomes("HOME", "active router/spare: router agent_route offline, spare agent_route online, lamp light online")
	if e := w.told("HOME/home scene.taken_over spare"); e.Owner != "router" || e.Acting != "spare" {
		t.Errorf("told %+v", e)
	}
	w.connect("agent-spare", false)
	w.becomes("HOME", "suspended router (the RouteAgent is offline): router agent_route offline, spare agent_route offline, lamp light online")
	w.connect("agent-spare", true)
	w.becomes("HOME", "active router/spare: router agent_route offline, spare agent_route online, lamp light online")
	w.told("HOME/home scene.resumed spare")
	w.connect("agent-router", true)
	w.becomes("HOME", "active router: router agent_route online, spare agent_route online, lamp light online")
	w.told("HOME/home scene.taken_over router")
}

func TestACertificateThatEndsSuspendsUntilThereIsAnother(t *testing.T) {
	for code, reason := range map[protocol.Code]string{
		protocol.CertificateRevoked: reasonRevoked,
		protocol.CertificateExpired: reasonExpired,
	} {
		w := newWorld(t)
		w.must(router, "scene.declare", declareRouter)
		w.end(routerCert, code)
		w.becomes("HOME", "suspended router ("+reason+"): router agent_route suspended")
		if e := w.told("HOME/home scene.suspended router"); e.Reason != reason {
			t.Errorf("told %+v", e)
		}
		w.connect("agent-router", false)
		w.connect("agent-router", true) // being there is not enough
		w.refused(code, router, "scene.declare", declareRouter)
		w.becomes("HOME", "suspended router ("+reason+"): router agent_route suspended")
		renewed := `{"scene_type":"HOME","skill_id":"router","skill_role":"agent_route","is_owner_declaration":true,"cap_id":"home","cert_sn":"` + newCert + `"}`
		if got := w.must(router, "scene.declare", renewed); got["created"] != false {
			t.Errorf("got %v", got)
		}
		w.becomes("HOME", "active router: router agent_route online")
		w.told("HOME/home scene.resumed router")
	}
}

func TestARenewedCertificateTakesThePlaceOfTheOld(t *testing.T) {
	w := newWorld(t)
	w.must(router, "scene.declare", declareRouter)
	w.around.mu.Lock()
	w.around.certs[routerCert].renewed = newCert
	w.around.mu.Unlock()
	w.end(routerCert, protocol.CertificateExpired)
	w.told("HOME/home scene.updated")
	w.becomes("HOME", "active router: router agent_route online")
	w.end(newCert, protocol.CertificateRevoked)
	w.becomes("HOME", "suspended router ("+reasonRevoked+"): router agent_route suspended")
}

func TestARevokedBackupDoesNotTakeOver(t *testing.T) {
	w := newWorld(t)
	w.full()
	w.end(spareCert, protocol.CertificateRevoked)
	w.becomes("HOME", "active router: router agent_route online, spare agent_route suspended, lamp light online")
	w.told("HOME/home scene.updated")
	w.connect("agent-router", false)
	w.becomes("HOME", "suspended router (the RouteAgent is offline): router agent_route offline, spare agent_route suspended, lamp light online")
	w.refused(protocol.InvalidState, router, "scene.leave", `{"scene_type":"HOME","cap_id":"home","skill_id":"router"}`)
}

func TestWhoLeavesTheCapLeavesItsScenes(t *testing.T) {
	w := newWorld(t)
	w.full()
	w.exclude("home", "lamp")
	w.becomes("HOME", "active router: router agent_route online, spare agent_route online")
	w.told("HOME/home scene.left lamp")
	w.exclude("home", "router")
	w.becomes("HOME", "active router/spare: router agent_route suspended, spare agent_route online")
	w.around.mu.Lock()
	delete(w.around.channel, "home")
	w.around.mu.Unlock()
	w.CapChanged(protocol.DefaultSpace, "home")
	w.becomes("HOME", "0 scenes")
	w.told("HOME/home scene.cancelled router")
	eventually.Holds(t, "nothing is retained", func() bool { return w.kept("HOME/home") == "" })
}

// Whose certificate ended before is no exception.
func TestWhoIsBarredLeavesItsScenesWithTheCapToo(t *testing.T) {
	w := newWorld(t)
	w.must(router, "scene.declare", declareRouter)
	w.must(lamp, "scene.declare", `{"scene_type":"HOME","skill_id":"lamp","skill_role":"light","is_owner_declaration":false,"cap_id":"home","cert_sn":"`+lampCert+`"}`)
	w.end(lampCert, protocol.CertificateExpired)
	w.becomes("HOME", "active router: router agent_route online, lamp light suspended")
	w.exclude("home", "lamp")
	w.becomes("HOME", "active router: router agent_route online")
	w.told("HOME/home scene.left lamp")
}

func TestARouteAgentWhoseSkillIsWithdrawnIsGone(t *testing.T) {
	w := newWorld(t)
	w.must(router, "scene.declare", declareRouter)
	w.around.mu.Lock()
	w.around.agents["agent-router"] = nil
	w.around.mu.Unlock()
	w.SkillChanged(protocol.DefaultSpace, "router")
	w.becomes("HOME", "suspended router (the RouteAgent is offline): router agent_route offline")
	w.around.mu.Lock()
	w.around.agents["agent-router"] = []protocol.SkillID{"router"}
	w.around.mu.Unlock()
	w.SkillChanged(protocol.DefaultSpace, "router")
	w.becomes("HOME", "active router: router agent_route online")
}

func TestAStrangerWithTheSameSkillIsNotTheRouteAgent(t *testing.T) {
	w := newWorld(t)
	w.must(router, "scene.declare", declareRouter)
	w.around.mu.Lock()
	w.around.agents["impostor"], w.around.owner["impostor"], w.around.online["impostor"] = []protocol.SkillID{"router"}, "mallet", true
	w.around.mu.Unlock()
	w.connect("agent-router", false)
	w.becomes("HOME", "suspended router (the RouteAgent is offline): router agent_route offline")
}

func TestWhoDeclaresWithoutAnAgentHasThreeHeartbeatsTime(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, func(o *Options) { o.Patience = 90 * time.Second })
		w.around.online["agent-router"] = false
		w.must(router, "scene.declare", declareRouter)
		w.becomes("HOME", "active router: router agent_route online")
		time.Sleep(89 * time.Second)
		w.becomes("HOME", "active router: router agent_route online")
		w.must(router, "scene.declare", declareRouter) // a sign of life
		time.Sleep(89 * time.Second)
		w.becomes("HOME", "active router: router agent_route online")
		time.Sleep(2 * time.Second)
		w.becomes("HOME", "suspended router (the RouteAgent is offline): router agent_route offline")
	})
}

func TestScenesOutliveTheBridge(t *testing.T) {
	w := newWorld(t)
	w.full()
	w.forget()
	w.stop()
	w.around.online["agent-router"], w.around.online["agent-spare"] = false, false // nobody is back yet
	w.start()
	w.becomes("HOME", "active router: router agent_route online, spare agent_route offline, lamp light online")
	if e := w.told("HOME/home scene.state"); e.Status != Active || e.Members != 3 {
		t.Errorf("told %+v", e)
	}
	w.connect("agent-router", true)
	w.connect("agent-router", false)
	w.connect("agent-router", true)
	w.silent("HOME/home scene.cancelled router")

	w.around.mu.Lock()
	w.around.certs[routerCert].ended = protocol.CertificateRevoked // and nobody tells
	w.around.mu.Unlock()
	w.restart()
	w.becomes("HOME", "suspended router ("+reasonRevoked+"): router agent_route suspended, spare agent_route offline, lamp light online")
	w.restart()
	w.becomes("HOME", "suspended router ("+reasonRevoked+"): router agent_route suspended, spare agent_route offline, lamp light online")
}

func TestWhatIsRetainedOfAnEndedSceneIsWithdrawnAtTheNextStart(t *testing.T) {
	w := newWorld(t)
	w.must(router, "scene.declare", declareRouter)
	eventually.Holds(t, "the state is retained", func() bool { return w.kept("HOME/home") != "" })
	w.stop()
	w.scenes.Restart()
	w.scenes.Clear() // the bridge died before it could tell
	w.start()
	eventually.Holds(t, "nothing is retained", func() bool { return w.kept("HOME/home") == "" })
}

func TestAStoreThatIsAwayHoldsUpNoSuspension(t *testing.T) {
	w := newWorld(t)
	w.must(router, "scene.declare", declareRouter)
	w.scenes.BreakNext(2)
	w.connect("agent-router", false)
	w.becomes("HOME", "suspended router (the RouteAgent is offline): router agent_route offline")
}
