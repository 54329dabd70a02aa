package app_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/internal/app"
	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/internal/evidence"
	"github.com/aibridge/aibridge/internal/storage"
	"github.com/aibridge/aibridge/security/audit"
)

// audited asks for the trail's entries.
func audited(t *testing.T, c *bridgetest.Raw, params string) (found audit.QueryResult) {
	t.Helper()
	eventually.Holds(t, "every bridge has told the latest of its trail", func() bool {
		found = audit.QueryResult{}
		if err := json.Unmarshal(must(t, c, "audit.query", params), &found); err != nil {
			t.Fatal(err)
		}
		return found.Silent == nil
	}, &found.Silent)
	return found
}

func TestWhatIsDoneStandsInTheAuditTrailWithoutItsSecrets(t *testing.T) {
	n := bridgetest.Start(t)
	device := n.Device(t, "lamps", "lamp", `["switch"]`)
	c := n.Caller(t, "caller")
	answered := make(chan error, 1)
	go func() {
		invocation := device.Invocation(t)
		device.Reply(t, "lamps", invocation, map[string]bool{"on": true})
		answered <- nil
	}()
	must(t, c, "skill.invoke", `{"skill_id":"lamp","capability_id":"switch","params":{"pin":"4711"}}`)
	<-answered
	must(t, c, "agent.list", `{}`)
	if r := c.Ask(t, bridgetest.Request("x", "cap.declare", `{"cap_id":"c","cap_name":"c","skill_id":"lamp","secret":"4711"}`)); r.Err == nil {
		t.Fatal("an unknown parameter was taken")
	}

	found := audited(t, c, `{"event":"skill.invoke"}`)
	if len(found.Entries) != 1 {
		t.Fatalf("found %+v", found.Entries)
	}
	e := found.Entries[0]
	if e.Code != audit.OK || e.Principal == "" || e.Door != "mqtt" || !e.Address.IsLoopback() || e.Resource != "skill/lamp" ||
		e.Action != "skill:invoke" || e.Digest == "" || e.Seq == 0 || string(e.Params) != `{"skill_id":"lamp","capability_id":"switch"}` {
		t.Errorf("recorded %+v", e)
	}
	if e := audited(t, c, `{"code":"1001"}`).Entries; len(e) != 1 || e[0].Event != "cap.declare" {
		t.Errorf("a failed change is recorded as %+v", e)
	}
	if e := audited(t, c, `{"event":"agent.list"}`).Entries; len(e) != 0 {
		t.Errorf("a read is recorded as %+v", e)
	}
	all, _ := json.Marshal(audited(t, c, `{}`))
	if strings.Contains(string(all), "4711") {
		t.Errorf("a secret is in the trail: %s", all)
	}
}

func TestOperatorsHearOfSecurityEvents(t *testing.T) {
	n := bridgetest.Start(t)
	operator := n.Connect(t, "operator")
	operator.Listen(t, "aibridge/event/security")
	c := n.Caller(t, "caller")
	n.Connect(t, "victim")
	must(t, c, "session.kick", `{"client_id":"victim"}`)
	m := operator.Next(t)
	for !strings.Contains(string(m.Payload), `"session.kick"`) {
		m = operator.Next(t)
	}
	var event struct {
		Event string      `json:"event"`
		Data  audit.Entry `json:"data"`
	}
	if err := json.Unmarshal(m.Payload, &event); err != nil || m.Topic != "aibridge/event/security" {
		t.Fatalf("%v: %s", err, m.Payload)
	}
	if event.Event != "session.kick" || event.Data.Code != audit.OK || event.Data.Seq == 0 || event.Data.Principal == "" {
		t.Errorf("heard %s", m.Payload)
	}
}

func TestTheAuditTrailOutlivesRestartsAndNoticesWhatIsMissing(t *testing.T) {
	t.Parallel()
	n := bridgetest.Start(t)
	for _, agent := range []string{"a1", "a2"} {
		must(t, n.Caller(t, "c-"+agent), "agent.register", `{"agent_id":"`+agent+`","type":"end_agent"}`)
		n.Restart(t)
	}
	var report audit.Report
	if err := json.Unmarshal(must(t, n.Caller(t, "caller"), "audit.verify", `{}`), &report); err != nil || !report.OK || report.Entries < 6 {
		t.Fatalf("%v: %+v", err, report)
	}
	n.Stop(t)
	noted, err := storage.VerifyAudit(context.Background(), n.Config, report.Head)
	if err != nil || !noted.OK {
		t.Fatalf("%v: %+v", err, noted)
	}

	cutOff(t, n.Config.Data)
	noted, err = storage.VerifyAudit(context.Background(), n.Config)
	if err != nil || noted.OK || len(noted.Problems) != 1 || noted.Problems[0].Kind != "missing" || noted.Problems[0].From != 1 {
		t.Errorf("%v: %+v", err, noted)
	}
}

// cutOff removes the first segment of the trail, behind the bridge's back.
func cutOff(t *testing.T, data string) {
	t.Helper()
	if err := os.Remove(trailFiles(t, data)[0]); err != nil {
		t.Fatal(err)
	}
}

// trailFiles are the segments of the log of a bridge that is stopped.
func trailFiles(t *testing.T, data string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(data, "evidence", "*.log"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%q, %v", files, err)
	}
	return files
}

// Without the log and the note of its head, a trail looked like a new one.
func TestAnAuditTrailThatWasRemovedIsMissed(t *testing.T) {
	t.Parallel()
	n := bridgetest.Start(t)
	must(t, n.Caller(t, "caller"), "agent.register", `{"agent_id":"a1","type":"end_agent"}`)
	n.Stop(t)
	if err := os.RemoveAll(filepath.Join(n.Config.Data, "evidence")); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(n.Config.Data, "audit.head")); err != nil {
		t.Fatal(err)
	}
	report, err := storage.VerifyAudit(context.Background(), n.Config)
	if err != nil || report.OK {
		t.Errorf("%v: %+v", err, report)
	}
	n.Restart(t)
	if err := json.Unmarshal(must(t, n.Caller(t, "caller"), "audit.verify", `{}`), &report); err != nil || report.OK || report.Problems[0].Kind != "missing" {
		t.Errorf("%v: %+v", err, report)
	}
}

func TestAFlippedAuditKeyIsNoticed(t *testing.T) {
	t.Parallel()
	n := bridgetest.Start(t)
	n.Stop(t)
	file := filepath.Join(n.Config.Data, "audit.key")
	key, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	key[7] ^= 1
	if err := os.WriteFile(file, key, 0o600); err != nil {
		t.Fatal(err)
	}
	report, err := storage.VerifyAudit(context.Background(), n.Config)
	if err != nil || report.OK || report.Problems[0].Kind != "key" {
		t.Errorf("%v: %+v", err, report)
	}
	n.Restart(t)
	if err := json.Unmarshal(must(t, n.Caller(t, "caller"), "audit.verify", `{}`), &report); err != nil || report.OK || report.Problems[0].Kind != "key" {
		t.Errorf("%v: %+v", err, report)
	}
}

func TestTamperingWithTheStoredAuditTrailIsFound(t *testing.T) {
	for name, c := range map[string]struct {
		tamper func(groups [][]byte) [][]byte
		want   string
	}{
		"one is taken out":  {func(g [][]byte) [][]byte { return slices.Delete(g, 2, 3) }, "missing"},
		"two change places": {func(g [][]byte) [][]byte { g[2], g[3] = g[3], g[2]; return g }, "reordered"},
		"one is changed": {func(g [][]byte) [][]byte {
			for i := range g {
				g[i] = bytes.ReplaceAll(g[i], []byte("tamper-2"), []byte("nobody-0"))
			}
			return g
		}, "changed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := bridgetest.Start(t)
			caller := n.Caller(t, "caller")
			for i := range 5 { // each is stored in a group of its own
				must(t, caller, "agent.register", fmt.Sprintf(`{"agent_id":"tamper-%d","type":"end_agent"}`, i))
				var report audit.Report // of what is stored by then: everything
				if err := json.Unmarshal(must(t, caller, "audit.verify", `{}`), &report); err != nil || !report.OK {
					t.Fatalf("%v: %+v", err, report)
				}
			}
			n.Stop(t)
			rewrite(t, n.Config.Data, c.tamper)
			report, err := storage.VerifyAudit(context.Background(), n.Config)
			if err != nil || report.OK || len(report.Problems) == 0 || report.Problems[0].Kind != c.want {
				t.Errorf("%v: found %+v, want %s", err, report.Problems, c.want)
			}
		})
	}
}

// rewrite puts other groups in the place of those that are stored, with good
// checksums.
func rewrite(t *testing.T, data string, change func([][]byte) [][]byte) {
	t.Helper()
	file := trailFiles(t, data)[0]
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	const seal = "aibridge evidence\n"
	var groups [][]byte
	for g, damage := range evidence.Groups(bytes.TrimSuffix(text, []byte(seal))) {
		if damage != nil {
			t.Fatal(damage)
		}
		groups = append(groups, bytes.Clone(g.Bytes))
	}
	var again []byte
	for _, g := range change(groups) {
		binary.LittleEndian.PutUint32(g[4:], crc32.Checksum(g[8:], crc32.MakeTable(crc32.Castagnoli)))
		again = append(again, g...)
	}
	if err := os.WriteFile(file, append(again, seal...), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestAuditCanBeTurnedOff(t *testing.T) {
	n := bridgetest.Start(t, func(c *app.Config) { c.Audit.Level = "off" })
	c := n.Caller(t, "caller")
	must(t, c, "agent.register", `{"agent_id":"a1","type":"end_agent"}`)
	if e := audited(t, c, `{}`).Entries; len(e) != 0 {
		t.Errorf("recorded %+v", e)
	}
	config := n.Config
	config.Audit.Level = "everything"
	if err := config.Check(app.Commands()); err == nil || !strings.Contains(err.Error(), "audit.level") {
		t.Errorf("%v", err)
	}
}
