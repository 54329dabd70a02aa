package app_test

import (
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/internal/app"
	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/protocol"
)

// A badge is a certificate with its serial.
type badge struct {
	tls.Certificate
	serial string
}

// certified has the bridge issue a certificate. about is what cert.issue is
// told besides the key, as the inside of a JSON object.
func certified(t *testing.T, admin *bridgetest.Raw, about string) badge {
	t.Helper()
	key := newKey(t)
	csr, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: csr})))
	if err != nil {
		t.Fatal(err)
	}
	var issued struct {
		Serial string   `json:"serial"`
		Chain  []string `json:"chain"`
	}
	if err := json.Unmarshal(must(t, admin, "cert.issue", fmt.Sprintf(`{%s,"csr":%s}`, about, text)), &issued); err != nil || len(issued.Chain) < 2 {
		t.Fatalf("cert.issue: %+v, %v", issued, err)
	}
	b := badge{tls.Certificate{PrivateKey: key}, issued.Serial}
	for _, text := range issued.Chain[:2] { // without the root
		block, _ := pem.Decode([]byte(text))
		b.Certificate.Certificate = append(b.Certificate.Certificate, block.Bytes)
	}
	return b
}

// routes is a certificate for a RouteAgent.
func routes(t *testing.T, admin *bridgetest.Raw, name string) badge {
	t.Helper()
	return certified(t, admin, fmt.Sprintf(`"authority":"operator","skill_id":%q,"role":"agent_route","scene_types":["SMART_HOME"]`, name))
}

// enter connects with a certificate and listens for answers.
func enter(t *testing.T, n *bridgetest.Node, id string, b badge) *bridgetest.Raw {
	t.Helper()
	r, err := n.TryConnectTLS(t, n.TLS(t, b.Certificate), id)
	if err != nil {
		t.Fatalf("connect %s: %v", id, err)
	}
	r.Listen(t, "aibridge/client/"+id+"/response")
	return r
}

// leads connects a RouteAgent that serves the skill of its name.
func leads(t *testing.T, n *bridgetest.Node, name string, b badge) *bridgetest.Raw {
	t.Helper()
	r := enter(t, n, name, b)
	must(t, r, "agent.register", fmt.Sprintf(`{"agent_id":%q,"type":"route_agent"}`, name))
	r.Listen(t, "aibridge/agent/"+name+"/request")
	must(t, r, "skill.register", fmt.Sprintf(`{"agent_id":%q,"skill":{"skill_id":%q,"name":"Router","capabilities":["route"]}}`, name, name))
	return r
}

const (
	sceneTopic    = "aibridge/scene/SMART_HOME/home/event"
	declareRouter = `{"scene_type":"SMART_HOME","skill_id":"router","skill_role":"agent_route","is_owner_declaration":true,"cap_id":"home"}`
	declareSpare  = `{"scene_type":"SMART_HOME","skill_id":"spare","skill_role":"agent_route","is_owner_declaration":false,"cap_id":"home"}`
)

// led is a bridge where router has declared a Cap and the scene on it, and
// lamp, a skill of its own, takes part.
func led(t *testing.T) (n *bridgetest.Node, admin, router, lamp *bridgetest.Raw, cert badge) {
	t.Helper()
	n, admin, _ = guarded(t)
	cert = routes(t, admin, "router")
	router = leads(t, n, "router", cert)
	lamp = enter(t, n, "lamp", certified(t, admin, `"authority":"enterprise","skill_id":"lamp","role":"light","scene_types":["SMART_HOME"]`))
	must(t, lamp, "skill.register", `{"skill":{"skill_id":"lamp","name":"Lamp","capabilities":["switch"]}}`)
	must(t, router, "cap.declare", `{"cap_id":"home","cap_name":"Home","skill_id":"router","supported_scenes":["SMART_HOME","OFFICE"]}`)
	for _, skill := range []string{"lamp", "spare"} {
		must(t, router, "group.member.add", fmt.Sprintf(`{"cap_id":"home","group_id":"all","skill_id":%q,"role":"any"}`, skill))
	}
	must(t, router, "scene.declare", declareRouter)
	must(t, lamp, "scene.join", `{"scene_type":"SMART_HOME","cap_id":"home","skill_id":"lamp","skill_role":"light"}`)
	return n, admin, router, lamp, cert
}

type sceneEvent struct {
	Skill, Role, Reason, Status, Owner, Acting string
	Members                                    int
}

// hears waits for an event of the scene and returns what it says.
func hears(t *testing.T, r *bridgetest.Raw, name string) sceneEvent {
	t.Helper()
	for {
		p := r.Next(t)
		e, err := protocol.DecodeEvent(p.Payload, protocol.Limits{})
		if p.Topic != sceneTopic || err != nil {
			t.Fatalf("got %s on %s: %v", p.Payload, p.Topic, err)
		}
		if e.Name != name {
			continue
		}
		var data sceneEvent
		if err := json.Unmarshal(e.Data, &data); err != nil {
			t.Fatal(err)
		}
		return data
	}
}

// stands waits until the scene is in a status.
func stands(t *testing.T, r *bridgetest.Raw, status, acting string) (scene string) {
	t.Helper()
	eventually.Holds(t, "the scene is "+status+" "+acting, func() bool {
		scene = string(must(t, r, "scene.query", `{"scene_type":"SMART_HOME"}`))
		return strings.Contains(scene, `"status":"`+status+`","acting":"`+acting+`"`) || acting == "" && strings.Contains(scene, `"status":"`+status+`","reason"`)
	}, &scene)
	return scene
}

func TestRevokingACertificateSuspendsItsScene(t *testing.T) {
	t.Parallel()
	n, admin, router, lamp, cert := led(t)
	lamp.Listen(t, sceneTopic)
	if e := hears(t, lamp, "scene.joined"); e.Status != "active" || e.Owner != "router" || e.Members != 2 { // retained
		t.Errorf("the lamp finds %+v", e)
	}
	scene := stands(t, admin, "active", "router")
	for _, want := range []string{`"scene_type":"SMART_HOME"`, `"cap_id":"home"`, `"owner":"router"`, `"skill_role":"light"`, `"cert_sn":"` + cert.serial + `"`} {
		if !strings.Contains(scene, want) {
			t.Errorf("%s is not in %s", want, scene)
		}
	}
	if agents := string(must(t, admin, "agent.list", `{"type":"route_agent"}`)); !strings.Contains(agents, `"router"`) {
		t.Errorf("route agents: %s", agents)
	}

	must(t, admin, "cert.revoke", fmt.Sprintf(`{"serial":%q,"reason":"lost"}`, cert.serial))
	if d := dismissed(t, router); d.ReasonCode != 0x98 {
		t.Errorf("the router is dismissed with %#x", d.ReasonCode)
	}
	if e := hears(t, lamp, "scene.suspended"); e.Status != "suspended" || !strings.Contains(e.Reason, "revoked") || e.Acting != "" {
		t.Errorf("the lamp is told %+v", e)
	}
	stands(t, admin, "suspended", "")
	if agents := string(must(t, admin, "agent.list", `{"type":"route_agent"}`)); strings.Contains(agents, `"router"`) {
		t.Errorf("route agents: %s", agents)
	}
	if _, err := n.TryConnectTLS(t, n.TLS(t, cert.Certificate), "again"); err == nil {
		t.Error("the revoked certificate is let in")
	}

	// Only a new certificate brings the scene back, for whoever is in it.
	again := leads(t, n, "router", routes(t, admin, "router"))
	stands(t, admin, "suspended", "")
	must(t, again, "scene.declare", declareRouter)
	hears(t, lamp, "scene.resumed")
	stands(t, admin, "active", "router")
}

func TestABackupTakesOverWhenTheRouteAgentDrops(t *testing.T) {
	t.Parallel()
	n, admin, router, lamp, cert := led(t)
	spare := leads(t, n, "spare", routes(t, admin, "spare"))
	must(t, spare, "scene.declare", declareSpare)
	lamp.Listen(t, sceneTopic)
	router.Drop()
	if e := hears(t, lamp, "scene.taken_over"); e.Owner != "router" || e.Acting != "spare" {
		t.Errorf("the lamp is told %+v", e)
	}
	stands(t, admin, "active", "spare")
	router = leads(t, n, "router", cert)
	stands(t, admin, "active", "router")

	router.Drop()
	spare.Drop()
	stands(t, admin, "suspended", "")
	n.Restart(t)
	admin = n.Caller(t, "admin", withPassword("apikey", adminKey(t, n)))
	stands(t, admin, "suspended", "")
	leads(t, n, "router", cert)
	stands(t, admin, "active", "router")
}

func TestWhoLeavesASceneHearsItNoMore(t *testing.T) {
	t.Parallel()
	n, admin, router, lamp, _ := led(t)
	lamp.Listen(t, sceneTopic)
	hears(t, lamp, "scene.joined")
	stranger := enter(t, n, "stranger", certified(t, admin, `"authority":"enterprise","skill_id":"stranger","role":"light","scene_types":["SMART_HOME"]`))
	if reason := subscribe(t, stranger, sceneTopic); reason != 0x87 {
		t.Errorf("a stranger's subscription: %#x", reason)
	}
	lamp.Send(t, "aibridge/bridge/request", bridgetest.Request("leaves", "scene.leave", `{"scene_type":"SMART_HOME","cap_id":"home","skill_id":"lamp"}`))
	eventually.Holds(t, "the lamp's subscription ends", func() bool {
		return !strings.Contains(string(must(t, admin, "session.get", `{"client_id":"lamp"}`)), sceneTopic)
	})
	must(t, router, "scene.declare.cancel", `{"scene_type":"SMART_HOME","cap_id":"home","skill_id":"router"}`)
	late := enter(t, n, "late", routes(t, admin, "late"))
	if got := string(must(t, late, "scene.query", `{}`)); !strings.Contains(got, `"total":0`) {
		t.Errorf("after the end there is %s", got)
	}
}

func TestWithTheCapGoItsScenes(t *testing.T) {
	t.Parallel()
	_, admin, router, _, _ := led(t)
	must(t, router, "group.member.remove", `{"cap_id":"home","group_id":"all","skill_id":"lamp"}`)
	eventually.Holds(t, "the lamp takes no part any more", func() bool {
		return !strings.Contains(string(must(t, admin, "scene.query", `{}`)), `"lamp"`)
	})
	must(t, router, "cap.remove", `{"cap_id":"home","force":true}`)
	eventually.Holds(t, "the scene is gone", func() bool {
		return strings.Contains(string(must(t, admin, "scene.query", `{}`)), `"total":0`)
	})
}

func TestEveryWrongCertificateHasItsCode(t *testing.T) {
	t.Parallel()
	n, admin, router, lamp, cert := led(t)
	var (
		second  = routes(t, admin, "router")
		other   = routes(t, admin, "spare")
		revoked = routes(t, admin, "router")
		expired = certified(t, admin, `"authority":"appstore","skill_id":"router","role":"agent_route","scene_types":["SMART_HOME"],"validity_seconds":1`)
		light   = certified(t, admin, `"authority":"appstore","agent_id":"router","skill_id":"router","role":"light","scene_types":["SMART_HOME"]`)
		office  = certified(t, admin, `"authority":"appstore","skill_id":"router","role":"agent_route","scene_types":["OFFICE"]`)
	)
	must(t, admin, "cert.revoke", fmt.Sprintf(`{"serial":%q,"reason":"test"}`, revoked.serial))
	declare := func(who *bridgetest.Raw, serial string) protocol.Code {
		params := declareRouter
		if serial != "" {
			params = strings.TrimSuffix(params, "}") + fmt.Sprintf(`,"cert_sn":%q}`, serial)
		}
		return protocol.CodeOf(errorOf(who.Ask(t, bridgetest.Request(protocol.NewID(), "scene.declare", params))))
	}
	eventually.Holds(t, "a certificate expires", func() bool { return declare(router, expired.serial) == protocol.CertificateExpired })
	withLight, withOffice := enter(t, n, "light", light), enter(t, n, "office", office)
	for name, test := range map[string]struct {
		who    *bridgetest.Raw
		serial string
		want   protocol.Code
	}{
		"none, on the connection of an API key":     {admin, "", protocol.CertificateRequired},
		"one nobody issued":                         {router, "0123456789abcdef", protocol.CertificateUnknown},
		"one that is none":                          {router, "0123456789abcdeg", protocol.CertificateUnknown},
		"one too short, as the prose once had it":   {router, "012345", protocol.CertificateUnknown},
		"a revoked one":                             {router, revoked.serial, protocol.CertificateRevoked},
		"an expired one":                            {router, expired.serial, protocol.CertificateExpired},
		"that of another skill":                     {router, other.serial, protocol.OutsideScope},
		"that of another skill, named by it":        {lamp, other.serial, protocol.OutsideScope},
		"one for another role":                      {withLight, "", protocol.OutsideScope},
		"one for another scene":                     {withOffice, "", protocol.OutsideScope},
		"the right one, on another connection":      {lamp, cert.serial, protocol.ProofFailed},
		"a second one, on that of the first":        {router, second.serial, protocol.ProofFailed},
		"the right one, by an administrator":        {admin, cert.serial, protocol.ProofFailed},
		"the right one":                             {router, cert.serial, ""},
		"the right one, in capitals":                {router, strings.ToUpper(cert.serial), ""},
		"the right one, which need not be named":    {router, "", ""},
		"a second one of the same agent, by itself": {enter(t, n, "second", second), "", ""},
	} {
		if got := declare(test.who, test.serial); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
	for name, test := range map[string]struct {
		who    *bridgetest.Raw
		params string
		want   protocol.Code
	}{
		"an administrator without a certificate": {admin, `{"agent_id":"boss","type":"route_agent"}`, protocol.CertificateRequired},
		"an agent with one for another role":     {withLight, `{"agent_id":"router","type":"route_agent"}`, protocol.OutsideScope},
		"an agent by another's":                  {router, fmt.Sprintf(`{"agent_id":"router","type":"route_agent","cert_sn":%q}`, other.serial), protocol.ProofFailed},
	} {
		if got := protocol.CodeOf(errorOf(test.who.Ask(t, bridgetest.Request(protocol.NewID(), "agent.register", test.params)))); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}

func TestStrictDeclarationsAskForCertificates(t *testing.T) {
	t.Parallel()
	n := bridgetest.Start(t, func(c *app.Config) { c.Security.StrictDeclarations = true })
	admin := n.Caller(t, "admin")
	router := leads(t, n, "router", routes(t, admin, "router"))
	must(t, router, "cap.declare", `{"cap_id":"home","cap_name":"Home","skill_id":"router"}`)
	must(t, router, "scene.declare", declareRouter)
	n.Device(t, "lamp", "lamp", `["switch"]`)
	must(t, router, "group.member.add", `{"cap_id":"home","group_id":"all","skill_id":"lamp","role":"light"}`)
	const join = `{"scene_type":"SMART_HOME","cap_id":"home","skill_id":"lamp","skill_role":"light"}`
	if got := protocol.CodeOf(errorOf(admin.Ask(t, bridgetest.Request("join", "scene.join", join)))); got != protocol.CertificateRequired {
		t.Errorf("without a certificate: %s", got)
	}
	lamp := enter(t, n, "lamp-tls", certified(t, admin, `"authority":"enterprise","skill_id":"lamp","role":"light","scene_types":["SMART_HOME"]`))
	must(t, lamp, "scene.join", join)
}
