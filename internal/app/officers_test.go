package app_test

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/internal/app"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/security/token"
)

// TestADeviceAppliesAnOfficerApprovesAndNobodyElse goes the whole way from an
// application to a certificate, with nobody an administrator.
func TestADeviceAppliesAnOfficerApprovesAndNobodyElse(t *testing.T) {
	h := newHouse(t)
	dana := h.key(protocol.KindAgent, "dana", protocol.RoleEndAgent)
	emil := h.key(protocol.KindAgent, "emil", protocol.RoleEndAgent)
	otto := h.key(protocol.KindOperator, "otto", protocol.RoleOperator)
	olga := h.key(protocol.KindOperator, "olga", "officer:appstore")
	oscar := h.key(protocol.KindOperator, "oscar", "officer:enterprise")

	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, newKey(t))
	if err != nil {
		t.Fatal(err)
	}
	csr := string(pemOf("CERTIFICATE REQUEST", der))
	wanted, err := json.Marshal(map[string]any{"authority": "appstore", "skill_id": "heating", "role": "agent_route",
		"scene_types": []string{"SMART_HOME"}, "purpose": "heats the house", "csr": csr})
	if err != nil {
		t.Fatal(err)
	}
	run := func(who, key, command, params string, want protocol.Code) (answer struct {
		RequestID string `json:"request_id"`
		Serial    string `json:"serial"`
	}) {
		t.Helper()
		code, body := h.run(key, command, params)
		if code != want {
			t.Fatalf("%s by %s: %s, want %q", command, who, body, want)
		}
		_ = json.Unmarshal([]byte(body), &answer)
		return answer
	}
	for who, key := range map[string]string{"dana": dana, "otto": otto, "oscar": oscar} {
		run(who, key, "cert.issue", string(wanted), protocol.PermissionDenied)
		run(who, key, "cert.token.create", `{"authority":"appstore","skill_id":"heating","role":"agent_route","scene_types":["SMART_HOME"]}`, protocol.PermissionDenied)
	}
	id := run("dana", dana, "cert.request", string(wanted), "").RequestID
	request := fmt.Sprintf(`{"request_id":%q}`, id)
	run("dana", dana, "cert.issue", request, protocol.InvalidState) // not approved yet
	for who, key := range map[string]string{"dana": dana, "otto": otto, "oscar": oscar} {
		run(who, key, "cert.approve", request, protocol.PermissionDenied)
	}
	run("olga", olga, "cert.approve", request, "")
	run("emil", emil, "cert.issue", request, protocol.PermissionDenied)
	serial := run("dana", dana, "cert.issue", request, "").Serial
	run("dana", dana, "cert.issue", request, protocol.InvalidState) // once

	revoke := fmt.Sprintf(`{"serial":%q,"reason":"test"}`, serial)
	for who, key := range map[string]string{"emil": emil, "otto": otto, "oscar": oscar} {
		run(who, key, "cert.revoke", revoke, protocol.PermissionDenied)
	}
	run("olga", olga, "cert.revoke", revoke, "")
	run("olga", olga, "key.list", `{}`, protocol.PermissionDenied)
}

// TestAnOfficerNamesNobodyWhoIsSomebodyElses: a certificate speaks for who it
// names, so an officer cannot have one made for an agent or a skill that did
// not ask for it.
func TestAnOfficerNamesNobodyWhoIsSomebodyElses(t *testing.T) {
	h := newHouse(t)
	olga := h.key(protocol.KindOperator, "olga", "officer:appstore")
	lamp := h.key(protocol.KindAgent, "lamp", protocol.RoleEndAgent)
	h.key(protocol.KindAgent, "expected", protocol.RoleEndAgent) // is to come
	run := func(key, command, params string, want protocol.Code) string {
		t.Helper()
		code, body := h.run(key, command, params)
		if code != want {
			t.Fatalf("%s %.80s: %s, want %q", command, params, body, want)
		}
		return body
	}
	run(lamp, "agent.register", `{"agent_id":"lamp","type":"end_agent"}`, "")
	run(lamp, "skill.register", `{"agent_id":"lamp","skill":{"skill_id":"light","name":"L","capabilities":["on"]}}`, "")
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, newKey(t))
	if err != nil {
		t.Fatal(err)
	}
	wanted := func(names string) string {
		csr, _ := json.Marshal(string(pemOf("CERTIFICATE REQUEST", der)))
		return fmt.Sprintf(`{"authority":"appstore","csr":%s,%s}`, csr, names)
	}
	for _, names := range []string{
		`"agent_id":"lamp"`, `"agent_id":"expected"`, `"skill_id":"light"`, `"agent_id":"mine","skill_id":"light"`,
		`"skill_id":"light","role":"agent_route","scene_types":["SMART_HOME"]`,
	} {
		run(olga, "cert.issue", wanted(names), protocol.PermissionDenied)
		run(olga, "cert.token.create", `{"authority":"appstore",`+names+`}`, protocol.PermissionDenied)
	}
	// The agent itself may ask, and then be issued another by the authority.
	id := func(body string) string {
		var asked struct {
			RequestID string `json:"request_id"`
		}
		_ = json.Unmarshal([]byte(body), &asked)
		return fmt.Sprintf(`{"request_id":%q}`, asked.RequestID)
	}
	stranger := h.key(protocol.KindAgent, "stranger", protocol.RoleEndAgent)
	foreign := id(run(stranger, "cert.request", wanted(`"agent_id":"lamp"`), ""))
	run(olga, "cert.approve", foreign, protocol.PermissionDenied)
	own := id(run(lamp, "cert.request", wanted(`"agent_id":"lamp","skill_id":"light"`), ""))
	run(olga, "cert.approve", own, "")
	run(lamp, "cert.issue", own, "")
	run(olga, "cert.issue", wanted(`"agent_id":"lamp"`), "")
	// Who is new may be named, but not when it is somebody by the time.
	var token struct {
		Token string `json:"token"`
	}
	_ = json.Unmarshal([]byte(run(olga, "cert.token.create", `{"authority":"appstore","agent_id":"fresh"}`, "")), &token)
	fresh := h.key(protocol.KindAgent, "fresh", protocol.RoleEndAgent)
	run(fresh, "agent.register", `{"agent_id":"fresh","type":"end_agent"}`, "")
	csr, _ := json.Marshal(string(pemOf("CERTIFICATE REQUEST", der)))
	run(stranger, "cert.request", fmt.Sprintf(`{"token":%q,"csr":%s}`, token.Token, csr), protocol.PermissionDenied)
	// An administrator may name anybody.
	h.must("cert.issue", wanted(`"agent_id":"fresh"`))
}

// TestPeopleAndDevicesHaveOtherNames: an id that is an agent's is no operator's.
func TestPeopleAndDevicesHaveOtherNames(t *testing.T) {
	h := newHouse(t)
	h.key(protocol.KindOperator, "olga", protocol.RoleOperator)
	h.key(protocol.KindAgent, "lamp", protocol.RoleEndAgent)
	h.key(protocol.KindSkill, "lamp", protocol.RoleSkill) // a device and its skill may
	h.must("agent.register", `{"agent_id":"bulb","type":"end_agent"}`)
	h.must("key.create", `{"principal_id":"lamp","kind":"operator","space_id":"lab"}`) // ids are of a space
	for _, params := range []string{
		`{"principal_id":"lamp","kind":"operator"}`, `{"principal_id":"bulb","kind":"operator"}`,
		`{"principal_id":"olga","kind":"agent"}`, `{"principal_id":"olga","kind":"skill"}`, `{"principal_id":"administrator","kind":"agent"}`,
	} {
		if code, body := h.run(h.admin, "key.create", params); code != protocol.AlreadyExists {
			t.Errorf("%s: %s", params, body)
		}
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, newKey(t))
	if err != nil {
		t.Fatal(err)
	}
	csr, _ := json.Marshal(string(pemOf("CERTIFICATE REQUEST", der)))
	for _, names := range []string{`"operator_id":"lamp"`, `"agent_id":"olga"`} {
		if code, body := h.run(h.admin, "cert.issue", fmt.Sprintf(`{"authority":"operator","csr":%s,%s}`, csr, names)); code != protocol.AlreadyExists {
			t.Errorf("%s: %s", names, body)
		}
	}
}

// TestMisspeltNamesAreRefusedWhereverTheyAreGiven: a role or a scope that there
// is not would give, or limit to, nothing.
func TestMisspeltNamesAreRefusedWhereverTheyAreGiven(t *testing.T) {
	h := newHouse(t)
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, newKey(t))
	if err != nil {
		t.Fatal(err)
	}
	csr, _ := json.Marshal(string(pemOf("CERTIFICATE REQUEST", der)))
	certificate := func(role string) string {
		return fmt.Sprintf(`{"authority":"operator","csr":%s,"skill_id":"hall","role":%q,"scene_types":["HOME"]}`, csr, role)
	}
	for _, test := range []struct{ command, params, meant string }{
		{"key.create", `{"principal_id":"a","kind":"operator","roles":["oprator"]}`, "operator"},
		{"key.create", `{"principal_id":"a","roles":["End_Agent"]}`, "end_agent"},
		{"key.create", `{"principal_id":"a","scopes":["skill:invok"]}`, "skill:invoke"},
		{"key.create", `{"principal_id":"a","scopes":["skil:*"]}`, "skill:*"},
		{"policy.put", `{"name":"p","policy":"forbid (principal, action == Action::\"skil:invoke\", resource);"}`, "skill:invoke"},
		{"policy.put", `{"name":"p","policy":"forbid (principal, action == Action::\"Skill:invoke\", resource);"}`, "skill:invoke"},
		{"cert.issue", certificate("agent_rout"), "agent_route"},
		{"cert.issue", certificate("officer:apstore"), "officer:appstore"},
	} {
		code, body := h.run(h.admin, test.command, test.params)
		var answer struct {
			Error struct{ Message string } `json:"error"`
		}
		_ = json.Unmarshal([]byte(body), &answer)
		if code != protocol.InvalidParameter || !strings.Contains(answer.Error.Message, fmt.Sprintf("did you mean %q", test.meant)) {
			t.Errorf("%s %.100s: %s", test.command, test.params, body)
		}
	}
	// A role of one's own is one once a policy speaks of it, or when it is wanted.
	const janitor = `{"principal_id":"a","roles":["janitor"]`
	if code, body := h.run(h.admin, "key.create", janitor+"}"); code != protocol.InvalidParameter {
		t.Errorf("a role of which no policy speaks: %s", body)
	}
	h.must("key.create", janitor+`,"allow_unknown":true}`)
	h.must("policy.put", `{"name":"p","policy":"permit (principal in Role::\"janitor\", action in Action::\"read\", resource);"}`)
	h.must("key.create", janitor+"}")
	h.must("cert.issue", certificate("caretaker")) // a role of scenes
}

func TestAnIssuerOfTokensGivesRolesThatThereAre(t *testing.T) {
	t.Parallel()
	for role, wrong := range map[string]bool{"oprator": true, "operator": false, "janitor": false} {
		config := app.DefaultConfig()
		config.Data, config.MQTT.Address, config.MQTTS, config.HTTP, config.WS = t.TempDir(), "127.0.0.1:0", "off", "127.0.0.1:0", "127.0.0.1:0"
		config.Tokens.Issuers = []token.Issuer{{Issuer: "hs", Secret: fileOf(t, []byte(issuerSecret)), RolesClaim: "roles", Roles: map[string]string{"x": role}}}
		bridge, err := app.New(t.Context(), config, app.WithLogger(slog.New(slog.DiscardHandler)))
		if bridge != nil && err == nil {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			_ = bridge.Run(ctx)
		}
		if got := err != nil && strings.Contains(err.Error(), `did you mean "operator"`); got != wrong || err != nil != wrong {
			t.Errorf("%s: %v", role, err)
		}
	}
}
