package app_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/internal/storage"
	"github.com/aibridge/aibridge/security/audit"
)

// TestATrailOfAnEarlierVersionIsReadAndGoneOnWith restores a backup that a
// bridge made which kept its trail in NATS, with the key of that trail.
func TestATrailOfAnEarlierVersionIsReadAndGoneOnWith(t *testing.T) {
	n := bridgetest.Start(t)
	n.Stop(t)
	for _, old := range []string{"evidence", "nats"} {
		if err := os.RemoveAll(filepath.Join(n.Config.Data, old)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"audit.key", "seal.key"} {
		key, err := os.ReadFile(filepath.Join("testdata/earlier", name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(n.Config.Data, name), key, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	_ = os.Remove(filepath.Join(n.Config.Data, "audit.head"))
	archive, err := os.Open("testdata/earlier/bridge.backup")
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	if _, err := storage.Restore(t.Context(), n.Config, archive, false); err != nil {
		t.Fatal(err)
	}
	report, err := storage.VerifyAudit(t.Context(), n.Config)
	if err != nil || !report.OK || report.Entries != 6 {
		t.Fatalf("%+v, %v", report, err)
	}
	last := report.Head
	n.Restart(t)
	c := n.Caller(t, "caller")
	must(t, c, "agent.register", `{"agent_id":"a6","type":"end_agent"}`)
	if err := json.Unmarshal(must(t, c, "audit.verify", `{"head":"`+last+`"}`), &report); err != nil || !report.OK || report.First != 1 || report.Last < 8 {
		t.Errorf("%+v, %v", report, err)
	}
	var names []string
	for _, e := range audited(t, c, `{"event":"agent.register"}`).Entries {
		names = append(names, e.Resource)
		if e.Code != audit.OK || e.Digest == "" || e.RequestID == "" || e.Door != "mqtt" {
			t.Errorf("%+v", e)
		}
	}
	if got := strings.Join(names, " "); got != "agent/a6 agent/a5 agent/a4 agent/a3 agent/a2 agent/a1" {
		t.Errorf("the trail has %s", got)
	}
	if e := audited(t, c, `{"after":3,"limit":2}`).Entries; len(e) != 2 || e[0].Seq != 4 || e[0].Resource != "agent/a3" {
		t.Errorf("after entry 3 come %+v", e)
	}
}
