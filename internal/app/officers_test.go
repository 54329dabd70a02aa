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
