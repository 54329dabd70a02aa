package app_test

import (
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/aibridge/aibridge/protocol"
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
