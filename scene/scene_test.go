package scene

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/protocol"
)

func TestTheFirstDeclarationCreatesAndOwnsTheScene(t *testing.T) {
	w := newWorld(t)
	got := w.must(router, "scene.declare", strings.Replace(declareRouter, "true", "false", 1)) // whatever it claims
	if got["created"] != true || got["scene_type"] != "HOME" || got["skill_id"] != "router" || got["skill_role"] != RouteRole || got["cap_id"] != "home" {
		t.Errorf("got %v", got)
	}
	w.becomes("HOME", "active router: router agent_route online")
	again := w.must(router, "scene.declare", declareRouter)
	if again["created"] != false || again["revision"] != got["revision"] {
		t.Errorf("the same again: %v, at first %v", again, got)
	}
	if e := w.told("HOME/home scene.declared router"); e.Owner != "router" || e.Status != Active || e.Members != 1 || e.Revision == 0 {
		t.Errorf("told %+v", e)
	}
}

func TestWhoeverDeclaresNeedsTheRightCertificate(t *testing.T) {
	w := newWorld(t)
	w.around.certs["5555555555555555"] = &certificate{skill: "router", roles: []string{RouteRole}, scenes: []protocol.SceneType{"HOME"}, holder: "agent-router", ended: protocol.CertificateExpired}
	w.around.certs["6666666666666666"] = &certificate{skill: "router", roles: []string{RouteRole}, scenes: []protocol.SceneType{"HOME"}, holder: "agent-router", ended: protocol.CertificateRevoked}
	const declaration = `{"scene_type":%q,"skill_id":%q,"skill_role":%q,"is_owner_declaration":%t,"cap_id":"home"%s}`
	named := func(serial string) string { return `,"cert_sn":"` + serial + `"` }
	for name, test := range map[string]struct {
		who         *protocol.Principal
		scene       string
		skill, role string
		owner       bool
		cert        string
		want        protocol.Code
	}{
		"none":                         {router, "HOME", "router", RouteRole, true, "", protocol.CertificateRequired},
		"none, from an administrator":  {root, "HOME", "router", RouteRole, true, "", protocol.CertificateRequired},
		"none, for another role":       {lamp, "HOME", "lamp", "light", false, "", protocol.CertificateRequired},
		"none, for an owner":           {lamp, "HOME", "lamp", "light", true, "", protocol.CertificateRequired},
		"one that is too short":        {router, "HOME", "router", RouteRole, true, named("1234"), protocol.CertificateUnknown},
		"one with other digits":        {router, "HOME", "router", RouteRole, true, named("111111111111111g"), protocol.CertificateUnknown},
		"one nobody issued":            {router, "HOME", "router", RouteRole, true, named("9999999999999999"), protocol.CertificateUnknown},
		"an expired one":               {router, "HOME", "router", RouteRole, true, named("5555555555555555"), protocol.CertificateExpired},
		"a revoked one":                {router, "HOME", "router", RouteRole, true, named("6666666666666666"), protocol.CertificateRevoked},
		"that of another skill":        {router, "HOME", "router", RouteRole, true, named(spareCert), protocol.OutsideScope},
		"one for another scene":        {spare, "OFFICE", "spare", RouteRole, true, named(spareCert), protocol.OutsideScope},
		"one for another role":         {lamp, "HOME", "lamp", RouteRole, true, named(lampCert), protocol.OutsideScope},
		"one whose key is another's":   {mallet, "HOME", "router", RouteRole, true, named(routerCert), protocol.ProofFailed},
		"a good one, not a RouteAgent": {lamp, "HOME", "lamp", "light", false, named(lampCert), protocol.CertificateRequired},
		"a good one, but owns nothing": {lamp, "HOME", "lamp", "light", true, named(lampCert), protocol.InvalidParameter},
	} {
		if err := w.refused(test.want, test.who, "scene.declare", fmt.Sprintf(declaration, test.scene, test.skill, test.role, test.owner, test.cert)); err == nil {
			t.Errorf("%s: allowed", name)
		}
	}
	if got := w.look("HOME"); got != "0 scenes" {
		t.Errorf("there is %s", got)
	}
	byConnection := *router
	byConnection.CertSerial = routerCert
	w.must(&byConnection, "scene.declare", fmt.Sprintf(declaration, "HOME", "router", RouteRole, true, ""))
	upper := strings.Replace(declareSpare, spareCert, strings.ToUpper(spareCert), 1)
	w.must(spare, "scene.declare", upper)
}

func TestCapAndSkillMustExistAndBelongTogether(t *testing.T) {
	w := newWorld(t)
	w.around.certs[routerCert].scenes = []protocol.SceneType{"HOME", "OFFICE", "GARDEN"}
	declaration := func(scene, cap string) string {
		return fmt.Sprintf(`{"scene_type":%q,"skill_id":"router","skill_role":"agent_route","is_owner_declaration":true,"cap_id":%q,"cert_sn":%q}`, scene, cap, routerCert)
	}
	w.refused(protocol.NotFound, router, "scene.declare", declaration("HOME", "nowhere"))
	w.refused(protocol.InvalidState, router, "scene.declare", declaration("HOME", "asleep"))
	w.refused(protocol.InvalidState, router, "scene.declare", declaration("GARDEN", "office"))
	w.must(router, "scene.declare", declaration("OFFICE", "office"))
	w.refused(protocol.InvalidState, lamp, "scene.join", `{"scene_type":"OFFICE","cap_id":"office","skill_id":"lamp"}`)
	w.must(router, "scene.declare", declareRouter)
	w.refused(protocol.NotFound, root, "scene.join", `{"scene_type":"HOME","cap_id":"home","skill_id":"nobody"}`)
	w.refused(protocol.InvalidParameter, router, "scene.declare", declaration("A/B", "home"))
	w.refused(protocol.InvalidParameter, router, "scene.declare", declaration(strings.Repeat("x", 33), "home"))
}

func TestOthersJoinWithoutACertificate(t *testing.T) {
	w := newWorld(t)
	w.refused(protocol.NotFound, lamp, "scene.join", joinLamp)
	w.must(router, "scene.declare", declareRouter)
	w.refused(protocol.PermissionDenied, mallet, "scene.join", joinLamp)
	first := w.must(lamp, "scene.join", joinLamp)
	if again := w.must(lamp, "scene.join", joinLamp); again["revision"] != first["revision"] || again["skill_role"] != "light" {
		t.Errorf("again %v, at first %v", again, first)
	}
	w.becomes("HOME", "active router: router agent_route online, lamp light online")
	w.told("HOME/home scene.joined lamp")
	w.refused(protocol.AlreadyExists, lamp, "scene.join", strings.Replace(joinLamp, "light", "heater", 1))
	w.refused(protocol.CertificateRequired, spare, "scene.join", `{"scene_type":"HOME","cap_id":"home","skill_id":"spare","skill_role":"agent_route"}`)
	w.must(lamp, "scene.declare", `{"scene_type":"HOME","skill_id":"lamp","skill_role":"light","is_owner_declaration":false,"cap_id":"home"}`)
	w.must(lamp, "scene.leave", `{"scene_type":"HOME","cap_id":"home","skill_id":"lamp"}`)
	w.must(lamp, "scene.join", `{"scene_type":"HOME","cap_id":"home","skill_id":"lamp"}`)
	w.becomes("HOME", "active router: router agent_route online, lamp member online")
}

func TestStrictDeclarationsAskEverybodyForACertificate(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Strict = true })
	w.must(router, "scene.declare", declareRouter)
	w.refused(protocol.CertificateRequired, lamp, "scene.join", joinLamp)
	w.refused(protocol.CertificateRequired, lamp, "scene.declare", `{"scene_type":"HOME","skill_id":"lamp","skill_role":"light","is_owner_declaration":false,"cap_id":"home"}`)
	w.must(lamp, "scene.declare", `{"scene_type":"HOME","skill_id":"lamp","skill_role":"light","is_owner_declaration":false,"cap_id":"home","cert_sn":"`+lampCert+`"}`)
	w.end(lampCert, protocol.CertificateRevoked)
	w.becomes("HOME", "active router: router agent_route online, lamp light suspended")
}

func TestASecondOwnerIsRefusedWhileThereIsAFirst(t *testing.T) {
	w := newWorld(t)
	w.full()
	second := strings.Replace(declareSpare, "false", "true", 1)
	if err := w.refused(protocol.AlreadyExists, spare, "scene.declare", second); err.Details["owner"] != "router" {
		t.Errorf("details %v", err.Details)
	}
	w.connect("agent-router", false) // gone, but it may come back
	w.becomes("HOME", "active router/spare: router agent_route offline, spare agent_route online, lamp light online")
	w.refused(protocol.AlreadyExists, spare, "scene.declare", second)
	w.end(routerCert, protocol.CertificateRevoked) // it will not come back with this
	w.becomes("HOME", "active router/spare: router agent_route suspended, spare agent_route online, lamp light online")
	w.must(spare, "scene.declare", second)
	w.becomes("HOME", "active spare: router agent_route suspended, spare agent_route online, lamp light online")
}

func TestTheOwnerEndsTheSceneForAll(t *testing.T) {
	w := newWorld(t)
	w.full()
	w.told("HOME/home scene.joined lamp")
	w.refused(protocol.PermissionDenied, mallet, "scene.declare.cancel", cancelRouter)
	w.refused(protocol.PermissionDenied, lamp, "scene.declare.cancel", cancelRouter)
	w.refused(protocol.NotFound, router, "scene.declare.cancel", `{"scene_type":"OTHER","skill_id":"router","cap_id":"home"}`)
	w.refused(protocol.NotFound, router, "scene.declare.cancel", `{"scene_type":"HOME","skill_id":"nobody","cap_id":"home"}`)
	if got := w.must(router, "scene.declare.cancel", cancelRouter); got["cancelled"] != true || got["scene_type"] != "HOME" || got["ended"] != true {
		t.Errorf("got %v", got)
	}
	if got := w.look("HOME"); got != "0 scenes" {
		t.Errorf("there is %s", got)
	}
	w.told("HOME/home scene.cancelled router")
	eventually.Holds(t, "nothing is retained", func() bool { return w.kept("HOME/home") == "" })
	w.refused(protocol.NotFound, router, "scene.declare.cancel", cancelRouter)
	w.refused(protocol.NotFound, lamp, "scene.leave", joinLamp)
}

func TestAMemberEndsItsOwnPart(t *testing.T) {
	w := newWorld(t)
	w.full()
	if got := w.must(lamp, "scene.declare.cancel", `{"scene_type":"HOME","skill_id":"lamp","cap_id":"home"}`); got["ended"] != false {
		t.Errorf("got %v", got)
	}
	w.must(spare, "scene.leave", `{"scene_type":"HOME","cap_id":"home","skill_id":"spare"}`)
	w.becomes("HOME", "active router: router agent_route online")
	w.told("HOME/home scene.left lamp")
	w.told("HOME/home scene.left spare")
	eventually.Holds(t, "subscriptions are reviewed", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return len(w.lost) >= 2
	})
	w.must(lamp, "scene.join", joinLamp)
	w.must(router, "scene.leave", `{"scene_type":"HOME","cap_id":"home","skill_id":"lamp"}`) // the owner may put out others
	w.refused(protocol.NotFound, lamp, "scene.leave", joinLamp)
}

func TestAnOwnerLeavesTheSceneToItsBackup(t *testing.T) {
	w := newWorld(t)
	w.must(router, "scene.declare", declareRouter)
	w.refused(protocol.InvalidState, router, "scene.leave", `{"scene_type":"HOME","cap_id":"home","skill_id":"router"}`)
	w.must(spare, "scene.declare", declareSpare)
	w.must(router, "scene.leave", `{"scene_type":"HOME","cap_id":"home","skill_id":"router"}`)
	w.becomes("HOME", "active spare: spare agent_route online")
	if e := w.told("HOME/home scene.left router"); e.Owner != "spare" || e.Acting != "spare" {
		t.Errorf("told %+v", e)
	}
}

func TestASceneHoldsNoMoreThanItsCapAllows(t *testing.T) {
	w := newWorld(t)
	w.around.mu.Lock()
	w.around.channel["home"] = Channel{Active: true, MaxMembers: 2}
	w.around.mu.Unlock()
	w.must(router, "scene.declare", declareRouter)
	w.must(lamp, "scene.join", joinLamp)
	if err := w.refused(protocol.LimitReached, spare, "scene.declare", declareSpare); err.Details["limit"] != 2 {
		t.Errorf("details %v", err.Details)
	}
	w.must(router, "scene.declare", declareRouter) // who is in may say so again
	w.around.certs[routerCert].scenes = nil
	for i := range maxScenes {
		name := protocol.SceneType(fmt.Sprint("S", i))
		w.around.certs[routerCert].scenes = append(w.around.certs[routerCert].scenes, name)
		params := strings.Replace(declareRouter, `"HOME"`, fmt.Sprintf("%q", name), 1)
		if i < maxScenes-1 {
			w.must(router, "scene.declare", params)
		} else {
			w.refused(protocol.LimitReached, router, "scene.declare", params)
		}
	}
}

func TestScenesAreListedByTypeAndPage(t *testing.T) {
	w := newWorld(t)
	w.must(router, "scene.declare", declareRouter)
	w.must(router, "scene.declare", strings.NewReplacer(`"HOME"`, `"OFFICE"`).Replace(declareRouter))
	if got := w.must(root, "scene.query", `{}`); got["total"] != 2.0 {
		t.Errorf("got %v", got)
	}
	first := w.must(root, "scene.query", `{"limit":1}`)
	second := w.must(root, "scene.query", fmt.Sprintf(`{"limit":1,"cursor":%q}`, first["next_cursor"]))
	if fmt.Sprint(first["scenes"]) == fmt.Sprint(second["scenes"]) || second["next_cursor"] != nil || second["total"] != 2.0 {
		t.Errorf("%v, then %v", first, second)
	}
	for params, want := range map[string]float64{
		`{"scene_type":"HOME"}`: 1, `{"scene_type":"GARDEN"}`: 0, `{"cap_id":"home"}`: 2, `{"cap_id":"office"}`: 0,
		`{"find":"offi"}`: 1, `{"find":"ROUTER","sort":"-members"}`: 2, `{"find":"lamp"}`: 0, `{"status":"active"}`: 2, `{"status":"suspended"}`: 0,
	} {
		if got := w.must(root, "scene.query", params); got["total"] != want {
			t.Errorf("%s: %v", params, got)
		}
	}
	if got := w.must(carol, "scene.query", `{}`); got["total"] != 0.0 {
		t.Errorf("another space sees %v", got)
	}
}

func TestOnlyMembersHearAScene(t *testing.T) {
	w := newWorld(t)
	w.full()
	hears := func(who *protocol.Principal) bool { return w.MayHearScene(who, "HOME", "home") }
	agent := &protocol.Principal{Kind: protocol.KindAgent, ID: "agent-lamp", Space: protocol.DefaultSpace}
	for _, who := range []*protocol.Principal{router, spare, lamp, agent} {
		if !hears(who) {
			t.Errorf("%s does not hear its scene", who.ID)
		}
	}
	elsewhere := *lamp
	elsewhere.Space = "lab"
	for _, who := range []*protocol.Principal{mallet, alice, &elsewhere} {
		if hears(who) {
			t.Errorf("%s hears the scene", who.ID)
		}
	}
	if w.MayHearScene(lamp, "OFFICE", "home") || w.MayHearScene(lamp, "HOME", "office") {
		t.Error("the lamp hears another scene")
	}
	w.must(lamp, "scene.leave", `{"scene_type":"HOME","cap_id":"home","skill_id":"lamp"}`)
	if hears(lamp) || hears(agent) {
		t.Error("the lamp still hears it")
	}
}

func TestManyDeclareAtOnceAndThereIsOneOwner(t *testing.T) {
	w := newWorld(t)
	var created sync.Map
	var all sync.WaitGroup
	for who, params := range map[*protocol.Principal]DeclareParams{
		router: {Scene: "HOME", Skill: "router", Role: RouteRole, Cap: "home", CertSN: routerCert},
		spare:  {Scene: "HOME", Skill: "spare", Role: RouteRole, Cap: "home", CertSN: spareCert},
	} {
		for range 8 {
			all.Go(func() {
				got, err := w.Declare(t.Context(), &commands.Call{Principal: who}, params)
				if err != nil {
					t.Error(err)
				}
				if got.Created {
					if _, twice := created.LoadOrStore("", who.ID); twice {
						t.Error("created twice")
					}
				}
			})
		}
	}
	all.Wait()
	if got := w.look("HOME"); strings.Count(got, "agent_route online") != 2 {
		t.Errorf("the scene is %s", got)
	}
}
