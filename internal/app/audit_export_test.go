package app_test

import (
	"bytes"
	"crypto/ed25519"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/security/audit"
)

// TestTheTrailsOfAllBridgesAreExportedInOneFile has three bridges record something, one
// of which ends, and reads the file without any of them.
func TestTheTrailsOfAllBridgesAreExportedInOneFile(t *testing.T) {
	t.Parallel()
	nodes, key := threeClosed(t, startNATS(t))
	heads := make(map[string][]audit.Head)
	for _, n := range nodes {
		at := adminOf(t, n, key)
		must(t, at, "agent.register", `{"agent_id":"dev-`+n.Config.ID+`","type":"end_agent"}`)
		head, err := audit.ParseHead(chainOf(t, verification(t, at, `{}`), n.Config.ID).Head)
		if err != nil {
			t.Fatal(err)
		}
		heads[n.Config.ID] = []audit.Head{head}
	}
	nodes[1].Stop(t)
	status, file := post(t, nodes[2].HTTPURL("/audit/export"), "", "X-API-Key", key)
	if status != http.StatusOK {
		t.Fatalf("%d %s", status, file)
	}
	report, err := audit.VerifyExport(bytes.NewReader(file), nil, heads)
	if err != nil || !report.OK || report.Bridge != "c" || len(report.Chains) != 3 || report.Chains[1].State != audit.ChainStopped {
		t.Fatalf("it says %+v, %v", report, err)
	}
	for _, what := range []string{"agent/dev-a", "agent/dev-b", "agent/dev-c", "audit.exported"} {
		if !bytes.Contains(file, []byte(what)) {
			t.Errorf("%s is not in the file", what)
		}
	}
	signedBy, err := audit.ParseExportKey(report.Key)
	if err != nil {
		t.Fatal(err)
	}
	status, other := post(t, nodes[0].HTTPURL("/audit/export"), "", "X-API-Key", key)
	report, err = audit.VerifyExport(bytes.NewReader(other), []ed25519.PublicKey{signedBy}, nil)
	if status != http.StatusOK || err != nil || report.OK || report.Bridge != "a" || !strings.Contains(report.Problems[0].Text, "signature") {
		t.Errorf("with the key of another bridge it says %d %+v, %v", status, report, err)
	}
}

// TestOnlyAdministratorsExportTheTrail tries it with less than that.
func TestOnlyAdministratorsExportTheTrail(t *testing.T) {
	t.Parallel()
	n, key := closed(t)
	admin := n.Caller(t, "admin", withPassword("apikey", key))
	for name, test := range map[string]struct {
		key    string
		status int
	}{
		"nobody":            {"", http.StatusUnauthorized},
		"an operator":       {keyFor(t, admin, `{"principal_id":"ada","kind":"operator","roles":["operator"]}`), http.StatusForbidden},
		"without the scope": {keyFor(t, admin, `{"principal_id":"eva","kind":"operator","roles":["administrator"],"scopes":["bridge:backup"]}`), http.StatusForbidden},
		"with it alone":     {keyFor(t, admin, `{"principal_id":"eve","kind":"operator","roles":["administrator"],"scopes":["audit:export"]}`), http.StatusOK},
	} {
		var header []string
		if test.key != "" {
			header = []string{"X-API-Key", test.key}
		}
		if status, body := post(t, n.HTTPURL("/audit/export"), "", header...); status != test.status {
			t.Errorf("%s: %d %s", name, status, body)
		}
	}
	found := audited(t, admin, `{"event":"audit.exported"}`)
	for who, code := range map[string]string{"ada": string(protocol.PermissionDenied), "eva": string(protocol.PermissionDenied), "eve": audit.OK} {
		if !slices.ContainsFunc(found.Entries, func(e audit.Entry) bool { return e.Principal == who && e.Code == code }) {
			t.Errorf("the trail does not say that %s was answered %s: %+v", who, code, found.Entries)
		}
	}
}
