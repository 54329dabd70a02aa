package app_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/aibridge/aibridge/internal/app"
	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/internal/storage"
	"github.com/aibridge/aibridge/llm/wire/scripted"
	"github.com/aibridge/aibridge/security/audit"
)

// places are the positions of entries, bridge and sequence, in their order.
func places(entries []audit.Entry) (all []string) {
	for _, e := range entries {
		all = append(all, fmt.Sprintf("%s:%d", e.Bridge, e.Seq))
	}
	return all
}

// auditPages reads pages of three entries from a cursor on, "" for the latest, at one
// bridge after the other.
func auditPages(t *testing.T, cursor string, at ...*bridgetest.Raw) (entries []audit.Entry) {
	t.Helper()
	for i := 0; ; i++ {
		page := audited(t, at[i%len(at)], fmt.Sprintf(`{"limit":3,"cursor":%q}`, cursor))
		entries = append(entries, page.Entries...)
		if cursor = page.Next; cursor == "" {
			return entries
		}
	}
}

// verification asks a bridge for the verdict on all trails.
func verification(t *testing.T, c *bridgetest.Raw, params string) (all audit.Verification) {
	t.Helper()
	eventually.Holds(t, "every bridge has told where its trail ends", func() bool {
		all = audit.Verification{}
		if err := json.Unmarshal(must(t, c, "audit.verify", params), &all); err != nil {
			t.Fatal(err)
		}
		return all.Silent == nil
	}, &all.Silent)
	return all
}

// chainOf is the verdict on the trail of one bridge.
func chainOf(t *testing.T, all audit.Verification, bridge string) audit.ChainReport {
	t.Helper()
	i := slices.IndexFunc(all.Chains, func(r audit.ChainReport) bool { return r.Bridge == bridge })
	if i < 0 {
		t.Fatalf("nothing is said of %s: %+v", bridge, all)
	}
	return all.Chains[i]
}

// TestTheTrailsOfAllBridgesAreReadAsOne has a bridge die between two pages of a query.
func TestTheTrailsOfAllBridgesAreReadAsOne(t *testing.T) {
	t.Parallel()
	url, a, b, c := trio(t, scripted.ForBridge(t))
	onA, onB, onC := a.Caller(t, "me-a"), b.Caller(t, "me-b"), c.Caller(t, "me-c")
	for i := range 4 {
		for name, at := range map[string]*bridgetest.Raw{"a": onA, "b": onB, "c": onC} {
			must(t, at, "agent.register", fmt.Sprintf(`{"agent_id":"dev-%s-%d","type":"end_agent"}`, name, i))
			found := audited(t, onA, fmt.Sprintf(`{"resource":"agent/dev-%s-%d"}`, name, i))
			if len(found.Entries) != 1 || found.Entries[0].Bridge != name {
				t.Fatalf("what %s has acknowledged is not what a shows: %+v", name, found)
			}
		}
	}
	for _, at := range []*bridgetest.Raw{onA, onB, onC} {
		if found := audited(t, at, `{"event":"agent.register","resource":"agent/dev-*","bridge_id":"b"}`); len(found.Entries) != 4 {
			t.Errorf("of b there is %v", places(found.Entries))
		}
	}
	if e := errorOf(onA.Ask(t, bridgetest.Request("q1", "audit.query", `{"after":3}`))); e == nil || !strings.Contains(e.Error(), "after") {
		t.Errorf("a sequence without a bridge is taken: %v", e)
	}
	first := audited(t, onC, `{"limit":1000}`)
	if !slices.IsSortedFunc(first.Entries, func(x, y audit.Entry) int { return y.Time.Compare(x.Time) }) {
		t.Errorf("it is not in the order of time: %v", places(first.Entries))
	}
	before := audited(t, onA, `{"limit":3}`)

	verdict(t, url, "b")
	_ = b.Ended(t)
	read := append(before.Entries, auditPages(t, before.Next, onC, onA)...)
	if got, want := places(read), places(first.Entries); !slices.Equal(got, want) {
		t.Errorf("page by page, while b died, there was\n%v\ninstead of\n%v", got, want)
	}

	var all audit.Verification
	eventually.Holds(t, "the trail of b is closed", func() bool {
		all = verification(t, onA, `{}`)
		return chainOf(t, all, "b").State != audit.ChainOpen
	})
	closed := chainOf(t, all, "b")
	if !all.OK || closed.State != audit.ChainClosed || closed.ClosedBy != "a" && closed.ClosedBy != "c" || closed.ClosedAt.IsZero() || closed.Entries < 5 || closed.Unverified != 0 {
		t.Errorf("of b it says %+v", closed)
	}
	if a := chainOf(t, all, "a"); a.State != audit.ChainLive || a.Entries < 5 {
		t.Errorf("of a it says %+v", a)
	}

	follow := audited(t, onA, fmt.Sprintf(`{"cursor":%q}`, first.Follow))
	for i, at := range []*bridgetest.Raw{onA, onC, onA, onC} {
		must(t, at, "agent.register", fmt.Sprintf(`{"agent_id":"late-%d","type":"end_agent"}`, i))
	}
	b.Restart(t)
	must(t, b.Caller(t, "me-b"), "agent.register", `{"agent_id":"late-4","type":"end_agent"}`)
	since := auditPages(t, follow.Follow, onA, onC)
	late := make(map[string]string) // by bridge
	for _, e := range since {
		if n, ok := strings.CutPrefix(e.Resource, "agent/late-"); ok {
			late[e.Bridge] += n
		}
	}
	if late["a"] != "02" || late["b"] != "4" || late["c"] != "13" {
		t.Errorf("what came later is %v", late)
	}
	if twice := slices.Concat(places(first.Entries), places(follow.Entries), places(since)); len(slices.Compact(slices.Sorted(slices.Values(twice)))) != len(twice) {
		t.Errorf("it is shown twice in %v", twice)
	}

	again := verification(t, onC, fmt.Sprintf(`{"heads":{"b":%q}}`, closed.Head))
	if got := chainOf(t, again, "b"); !again.OK || got.State != audit.ChainLive || got.Entries <= closed.Entries {
		t.Errorf("back again, of b it says %+v", again)
	}
	again = verification(t, onC, fmt.Sprintf(`{"heads":{"b":%q}}`, strings.Replace(closed.Head, ":", ":0", 1)[:len(closed.Head)]))
	if again.OK || len(again.Problems) != 1 || again.Problems[0].Bridge != "b" || again.Problems[0].Kind != "changed" {
		t.Errorf("with a head that b never had it says %+v", again.Problems)
	}
}

// TestATrailThatIsGoneIsMissed removes the trail of a bridge behind the backs of all.
func TestATrailThatIsGoneIsMissed(t *testing.T) {
	t.Parallel()
	url := startNATS(t)
	a := together(t, url, "a", nil)
	b := together(t, url, "b", a)
	onA := a.Caller(t, "me")
	must(t, b.Caller(t, "me-b"), "agent.register", `{"agent_id":"dev","type":"end_agent"}`)
	b.Stop(t)
	all := verification(t, onA, `{}`)
	if got := chainOf(t, all, "b"); !all.OK || got.State != audit.ChainStopped || got.Unverified != 0 {
		t.Errorf("of b, which was stopped, it says %+v", got)
	}
	conn, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err == nil {
		err = js.DeleteStream(t.Context(), "aibridge-audit-b")
	}
	if err != nil {
		t.Fatal(err)
	}
	all = verification(t, onA, `{}`)
	if got := chainOf(t, all, "b"); all.OK || got.State != audit.ChainMissing || len(all.Problems) != 1 || all.Problems[0].Bridge != "b" || all.Problems[0].To < 3 {
		t.Errorf("of b, whose trail is gone, it says %+v", all)
	}
	must(t, onA, "agent.register", `{"agent_id":"other","type":"end_agent"}`)
	if found := audited(t, onA, `{"limit":5}`); len(found.Entries) != 1 || found.Entries[0].Bridge != "a" {
		t.Errorf("there is %v", places(found.Entries))
	}
}

// TestAMembersFolderIsNotBegunAnew verifies, at rest, the trail of a bridge that has all
// its state in a cluster.
func TestAMembersFolderIsNotBegunAnew(t *testing.T) {
	t.Parallel()
	c := app.Config{Data: t.TempDir(), ID: "b"}
	for name, make := range map[string]func() error{
		"audit.key": func() error {
			return os.WriteFile(filepath.Join(c.Data, "audit.key"), bytes.Repeat([]byte{1}, audit.KeySize), 0o600)
		},
		"cluster": func() error { return os.Mkdir(filepath.Join(c.Data, "cluster"), 0o700) },
	} {
		if err := make(); err != nil {
			t.Fatal(name, err)
		}
	}
	if _, err := storage.VerifyAudit(t.Context(), c); !errors.Is(err, storage.ErrInUse) {
		t.Errorf("it is verified: %v", err)
	}
	if _, err := os.Stat(filepath.Join(c.Data, "nats")); err == nil {
		t.Error("the folder has a state of its own now")
	}
}
