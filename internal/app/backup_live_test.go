package app_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eclipse/paho.golang/paho"

	"github.com/aibridge/aibridge/client"
	"github.com/aibridge/aibridge/internal/app"
	"github.com/aibridge/aibridge/internal/backup"
	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/internal/clock"
	"github.com/aibridge/aibridge/internal/diskspace"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/internal/storage"
	"github.com/aibridge/aibridge/vfs"
	"github.com/aibridge/aibridge/vfs/remote"
)

// A work writes things one after the other, and keeps account of what was
// acknowledged.
type work struct {
	write func(ctx context.Context, i int) error

	mu    sync.Mutex
	acked int
}

const (
	beforeBackup = 40   // things that each work has written when the backup begins
	inAll        = 2000 // and that it writes at most
)

func (w *work) done() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.acked
}

// run writes until enough is written or ctx ends.
func (w *work) run(ctx context.Context) error {
	for i := range inAll {
		if ctx.Err() != nil {
			return nil
		}
		if err := w.write(context.WithoutCancel(ctx), i); err != nil {
			return fmt.Errorf("number %d: %w", i, err)
		}
		w.mu.Lock()
		w.acked = i + 1
		w.mu.Unlock()
	}
	return nil
}

// fetchBackup asks a bridge for a backup.
func fetchBackup(t *testing.T, n *bridgetest.Node, header ...string) (status int, archive []byte) {
	t.Helper()
	status, archive = post(t, n.HTTPURL("/backup"), "", header...)
	return status, archive
}

// restored starts a bridge on a backup in a folder of its own, with the secrets
// of the bridge that the backup is of.
func restored(t *testing.T, of *bridgetest.Node, archive []byte) *bridgetest.Node {
	t.Helper()
	config := of.Config
	config.Data = t.TempDir()
	config.MQTT.Address, config.MQTTS, config.HTTP, config.WS = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
	for _, secret := range []string{"seal.key", "audit.key", "ca.key", "pepper", "admin.key"} {
		data, err := os.ReadFile(filepath.Join(of.Config.Data, secret))
		if os.IsNotExist(err) {
			continue
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(config.Data, secret), data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if summary, err := backup.Check(bytes.NewReader(archive), nil); err != nil {
		t.Fatalf("%s: %v", summary, err)
	}
	if _, err := storage.Restore(t.Context(), config, bytes.NewReader(archive), false); err != nil {
		t.Fatal(err)
	}
	return bridgetest.Start(t, func(c *app.Config) { *c = config })
}

// TestABackupUnderLoadHasWhateverWasAcknowledgedBefore makes a backup of a
// bridge while clients register agents, leave messages for a session that is
// away, retain messages and store files. Whatever was acknowledged before the
// backup began is in the bridge that is restored from it, whole, and the audit
// trail tells of it.
func TestABackupUnderLoadHasWhateverWasAcknowledgedBefore(t *testing.T) {
	n := bridgetest.Start(t)
	away := n.Connect(t, "away", kept)
	away.Listen(t, "x/#")
	away.Drop()
	works := clientsAtWork(t, n)

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var running sync.WaitGroup
	for name, w := range works {
		running.Go(func() {
			if err := w.run(ctx); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
	eventually.Holds(t, "that everybody is at work", func() bool {
		for _, w := range works {
			if w.done() < beforeBackup {
				return false
			}
		}
		return true
	})
	acked := make(map[string]int)
	for name, w := range works {
		acked[name] = w.done()
	}
	status, archive := fetchBackup(t, n)
	cancel()
	running.Wait()
	if status != http.StatusOK {
		t.Fatalf("the backup: %d %s", status, archive)
	}
	t.Logf("%v were acknowledged before a backup of %d bytes", acked, len(archive))

	again := restored(t, n, archive)
	checkRestored(t, again, acked)
}

// clientsAtWork are the deeds of clients.
func clientsAtWork(t *testing.T, n *bridgetest.Node) map[string]*work {
	agents, publisher, files := n.Dial(t), n.Connect(t, "publisher"), filesOf(t, n)
	publish := func(ctx context.Context, p *paho.Publish) error {
		ctx, cancel := context.WithTimeout(ctx, bridgetest.Patience)
		defer cancel()
		_, err := publisher.Publish(ctx, p)
		return err
	}
	return map[string]*work{
		"agents": {write: func(ctx context.Context, i int) error {
			_, err := client.Call[json.RawMessage](ctx, agents, "agent.register", map[string]any{"agent_id": fmt.Sprint("agent-", i), "type": "end_agent"})
			return err
		}},
		"messages": {write: func(ctx context.Context, i int) error {
			return publish(ctx, &paho.Publish{Topic: fmt.Sprint("x/", i), QoS: 1, Payload: []byte("waits")})
		}},
		"retained": {write: func(ctx context.Context, i int) error {
			return publish(ctx, &paho.Publish{Topic: fmt.Sprint("r/", i), QoS: 1, Retain: true, Payload: []byte("stays")})
		}},
		"files": {write: func(ctx context.Context, i int) error {
			_, err := files.Put(ctx, "papers", fmt.Sprint("file-", i), strings.NewReader(text(i)), vfs.PutOptions{Size: -1})
			return err
		}},
	}
}

// checkRestored fails unless a bridge has what was acknowledged by another.
func checkRestored(t *testing.T, n *bridgetest.Node, acked map[string]int) {
	t.Helper()
	c := n.Caller(t, "caller")
	for i := range acked["agents"] {
		must(t, c, "agent.get", fmt.Sprintf(`{"agent_id":"agent-%d"}`, i))
	}
	files := filesOf(t, n)
	for i := range acked["files"] {
		if got, err := readFile(t.Context(), files, fmt.Sprint("file-", i)); err != nil || got != text(i) {
			t.Fatalf("file %d is %.20q, %v", i, got, err)
		}
	}
	all, _, err := files.List(t.Context(), "papers", "", "", 1000, false)
	if err != nil || len(all) < acked["files"] {
		t.Fatalf("%d files, %v", len(all), err)
	}
	for _, f := range all { // those that were stored during the backup
		if _, err := readFile(t.Context(), files, f.Path); err != nil {
			t.Errorf("%s is named and cannot be read: %v", f.Path, err)
		}
	}
	expect(t, n.Connect(t, "away", kept), "x/", "waits", acked["messages"])
	looks := n.Connect(t, "looks")
	looks.Listen(t, "r/#")
	expect(t, looks, "r/", "stays", acked["retained"])

	if report := must(t, c, "audit.verify", `{}`); !strings.Contains(string(report), `"ok":true`) {
		t.Errorf("the audit trail: %s", report)
	}
	recorded := make(map[string]bool)
	for _, e := range audited(t, c, `{"event":"agent.register","limit":1000}`).Entries {
		recorded[e.Resource] = true
	}
	for i := range acked["agents"] {
		if what := fmt.Sprint("agent/agent-", i); !recorded[what] {
			t.Fatalf("the audit trail does not tell of %s", what)
		}
	}
	if len(audited(t, c, `{"event":"backup.began"}`).Entries) != 1 {
		t.Error("the audit trail does not tell of the backup")
	}
}

// expect fails unless a client gets messages on so many numbered topics.
func expect(t *testing.T, c *bridgetest.Raw, prefix, payload string, count int) {
	t.Helper()
	missing := make(map[string]bool)
	for i := range count {
		missing[fmt.Sprint(prefix, i)] = true
	}
	for len(missing) > 0 {
		m := c.Next(t)
		if string(m.Payload) != payload {
			t.Errorf("%q on %s", m.Payload, m.Topic)
		}
		delete(missing, m.Topic)
	}
}

// text is the content of a file: some share a blob, others have one of their own.
func text(i int) string { return strings.Repeat(fmt.Sprint("file ", i, "\n"), 1+i%3*4000) }

func filesOf(t testing.TB, n *bridgetest.Node) *remote.Client {
	t.Helper()
	files, err := remote.New(remote.Options{URL: n.HTTPURL("/vfs")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = files.Close() })
	return files
}

func readFile(ctx context.Context, files *remote.Client, path string) (string, error) {
	content, _, err := files.Open(ctx, "papers", path, 0)
	if err != nil {
		return "", err
	}
	defer content.Close()
	data, err := io.ReadAll(content)
	return string(data), err
}

// TestOnlyAnAdministratorMakesABackup asks with keys of other roles, and with
// an administrator's whose scope is something else.
func TestOnlyAnAdministratorMakesABackup(t *testing.T) {
	n := bridgetest.Start(t, func(c *app.Config) { c.Dev = false })
	admin, err := os.ReadFile(filepath.Join(n.Config.Data, app.AdminKeyFile))
	if err != nil {
		t.Fatal(err)
	}
	bearer := func(key string) []string { return []string{"Authorization", "Bearer " + key} }
	administrator := bearer(strings.TrimSpace(string(admin)))
	for role, params := range map[string]string{
		"operator":         `{"principal_id":"o","name":"o","kind":"operator","roles":["operator"]}`,
		"observer":         `{"principal_id":"b","name":"b","kind":"operator","roles":["observer"]}`,
		"route agent":      `{"principal_id":"r","name":"r","kind":"agent","roles":["route_agent"]}`,
		"limited by scope": `{"principal_id":"s","name":"s","kind":"operator","roles":["administrator"],"scopes":["metrics:read"]}`,
	} {
		if status, answer := fetchBackup(t, n, bearer(issueKey(t, n, params, administrator))...); status != http.StatusForbidden || !strings.Contains(string(answer), `"2003"`) {
			t.Errorf("%s: %d %.200s", role, status, answer)
		}
	}
	only := issueKey(t, n, `{"principal_id":"keeper","name":"k","kind":"operator","roles":["administrator"],"scopes":["bridge:backup"]}`, administrator)
	if status, answer := fetchBackup(t, n, bearer(only)...); status != http.StatusOK {
		t.Errorf("a key for backups alone: %d %.200s", status, answer)
	}
	if status, answer := fetchBackup(t, n); status != http.StatusUnauthorized {
		t.Errorf("nobody: %d %.200s", status, answer)
	}
	status, archive := fetchBackup(t, n, administrator...)
	if status != http.StatusOK {
		t.Fatalf("an administrator: %d %.200s", status, archive)
	}
	if _, err := backup.Check(bytes.NewReader(archive), nil); err != nil {
		t.Error(err)
	}
	if _, err := backup.Check(bytes.NewReader(archive[:len(archive)-20]), nil); err == nil {
		t.Error("a backup that is cut off passes for a whole one")
	}
}

// issueKey has a key made.
func issueKey(t *testing.T, n *bridgetest.Node, params string, administrator []string) string {
	t.Helper()
	status, answer := post(t, n.HTTPURL("/api/v1/commands/key.create"), params, administrator...)
	var made struct{ Key string }
	if err := json.Unmarshal(answer, &made); err != nil || status != http.StatusOK || made.Key == "" {
		t.Fatalf("%d %s", status, answer)
	}
	return made.Key
}

// TestABackupLeavesTheDiskItsReserve has backups made by themselves on a disk
// that has room, is full, and has room again.
func TestABackupLeavesTheDiskItsReserve(t *testing.T) {
	var free atomic.Int64
	free.Store(plenty)
	now := clock.New()
	look := app.WithDisk(func(string) (diskspace.Disk, error) { return diskspace.Disk{Free: free.Load(), Size: 1 << 40}, nil })
	n := bridgetest.StartWith(t, []app.Option{app.WithClock(now), look}, func(c *app.Config) { c.Backup.EveryHours = 1 })
	counted := func(result string, count int) {
		t.Helper()
		eventually.Holds(t, "a backup that is "+result, func() bool {
			_, metrics := ask(t, http.MethodGet, n.HTTPURL("/metrics"))
			return bytes.Contains(metrics, fmt.Appendf(nil, "aibridge_backups_total{result=%q} %d\n", result, count))
		})
	}
	counted("ok", 1)
	free.Store(little)
	now.Advance(time.Hour)
	counted("failed", 1)
	if left, err := os.ReadDir(filepath.Join(n.Config.Data, "backups")); err != nil || len(left) != 1 {
		t.Errorf("left %v, %v", left, err)
	}
	free.Store(plenty)
	now.Advance(10 * time.Minute)
	counted("ok", 2)
}

// TestABridgeMakesBackupsByItself follows the schedule by a clock of the
// test's.
func TestABridgeMakesBackupsByItself(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "backups")
	write := func(name string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(folder, name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	const left = "aibridge-aibridge-20200101T000000Z.tar.gz.part"
	others := []string{"aibridge-another-20200101T000000Z.tar.gz", "aibridge-aibridge-notes.tar.gz", "notes"}
	for _, name := range append(others, left) {
		write(name)
	}
	now := clock.New()
	n := bridgetest.StartWith(t, []app.Option{app.WithClock(now)}, func(c *app.Config) {
		c.Backup.EveryHours, c.Backup.Keep, c.Backup.Dir = 24, 2, folder
	})
	var seen []string
	made := func() (names []string) {
		seen = nil
		entries, err := os.ReadDir(folder)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			seen = append(seen, e.Name())
			if stamp, ok := strings.CutPrefix(e.Name(), "aibridge-aibridge-2"); ok && strings.HasSuffix(stamp, "Z.tar.gz") {
				names = append(names, e.Name())
			}
		}
		return names
	}
	eventually.Holds(t, "the first backup", func() bool { return len(made()) == 1 }, &seen)
	first := made()[0]
	for day := range 3 {
		now.Advance(24 * time.Hour)
		last := first
		eventually.Holds(t, "the next backup", func() bool {
			names := made()
			return len(names) == min(day+2, 2) && names[len(names)-1] > last
		}, &seen)
		first = made()[len(made())-1]
	}
	names := made()
	for _, name := range names {
		path := filepath.Join(folder, name)
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
		archive, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := backup.Check(bytes.NewReader(archive), nil); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, name := range others {
		if _, err := os.Stat(filepath.Join(folder, name)); err != nil {
			t.Errorf("it has removed what is not its own: %v", err)
		}
	}
	if _, err := os.Stat(filepath.Join(folder, left)); !os.IsNotExist(err) {
		t.Error("what a crash has left of a backup is still there")
	}
	if status, metrics := ask(t, http.MethodGet, n.HTTPURL("/metrics")); status != http.StatusOK || !bytes.Contains(metrics, []byte(`aibridge_backups_total{result="failed"} 0`)) {
		t.Errorf("the metrics do not tell of it: %d", status)
	}
}

// kept asks for a session that outlives its connection.
func kept(c *paho.Connect) {
	hour := uint32(3600)
	c.CleanStart = false
	c.Properties = &paho.ConnectProperties{SessionExpiryInterval: &hour}
}
