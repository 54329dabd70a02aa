package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aibridge/aibridge/client"
	"github.com/aibridge/aibridge/internal/app"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/vfs/mirror/caps"
	"github.com/aibridge/aibridge/vfs/remote"
)

// demand runs a command on a bridge.
func demand[T any](t *testing.T, c *client.Client, command, params string) T {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	result, err := client.Call[T](ctx, c, command, json.RawMessage(params))
	if err != nil {
		t.Fatalf("%s %s: %v", command, params, err)
	}
	return result
}

// filesOf is a client of a bridge's files.
func filesOf(t *testing.T, b *binary) *remote.Client {
	t.Helper()
	key, err := readSecret(filepath.Join(b.data, app.AdminKeyFile))
	if err != nil {
		t.Fatal(err)
	}
	files, err := remote.New(remote.Options{URL: "http://" + b.addresses.HTTP + "/vfs", Credential: key})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = files.Close() })
	return files
}

// A second bridge, in a process of its own, is the VFS of the first. It is
// killed; writes go on; the first is killed as well. When both are back,
// everything is synced, and the checksums are the same at both ends.
func TestNothingIsLostWhenEitherSideIsKilled(t *testing.T) {
	far := startBinary(t, t.TempDir())
	key, err := readSecret(filepath.Join(far.data, app.AdminKeyFile))
	if err != nil {
		t.Fatal(err)
	}
	data := t.TempDir()
	bridge := startBinary(t, data, "--vfs-allow-private")
	near := dialAdmin(t, bridge)
	demand[any](t, near, "agent.register", `{"agent_id":"lamp-1","type":"end_agent"}`)
	demand[any](t, near, "skill.register", `{"agent_id":"lamp-1","skill":{"skill_id":"lamp","name":"Lamp","description":"A lamp","version":"1.0.0","type":"custom","capabilities":["switch"]}}`)
	demand[any](t, near, "vfs.register", fmt.Sprintf(`{"vfs_id":"far","vfs_url":"http://%s/vfs","group_name":"cap","remote_group":"site-1","credential":%q}`, far.addresses.HTTP, key))
	demand[any](t, near, "cap.declare", `{"cap_id":"home","cap_name":"Home","skill_id":"lamp","sync_interval":1}`)
	want := map[string]string{}
	write := func(name, content string) caps.SyncResult {
		t.Helper()
		want["home/disk/"+name] = content
		began := time.Now()
		result := demand[caps.SyncResult](t, near, "cap.vfs.sync", fmt.Sprintf(`{"cap_id":"home","vfs_path":"/vfs/cap/home/disk/%s","content":%q}`, name, content))
		if took := time.Since(began); took > time.Minute { // 5 s, on a machine that has nothing else to do
			t.Errorf("a write took %s", took)
		}
		return result
	}
	if r := write("before", "written while everything is well"); r.Status != "synced" {
		t.Fatalf("before: %+v", r)
	}

	far.kill()
	for i := range 20 {
		if r := write(fmt.Sprintf("during-%d", i), strings.Repeat("written while the VFS is away ", i)); r.Status == "synced" {
			t.Fatalf("%+v, but the VFS is dead", r)
		}
	}
	write("before", "replaced while the VFS is away")
	var status caps.StatusResult
	eventually.Holds(t, "the VFS is known to be away", func() bool {
		status = demand[caps.StatusResult](t, near, "cap.vfs.sync.status", `{"cap_id":"home"}`)
		return status.Circuit != "closed" && status.Pending >= 21
	}, &status)
	bridge.kill()

	bridge = startBinary(t, data, "--vfs-allow-private")
	near = dialAdmin(t, bridge)
	write("after", "written after the bridge came back, before the VFS did")
	// What a program puts into the Cap's folder travels as well.
	if err := os.WriteFile(filepath.Join(data, "caps", "default", "home", "disk", "dropped"), []byte("dropped"), 0o600); err != nil {
		t.Fatal(err)
	}
	want["home/disk/dropped"] = "dropped"
	far = startBinary(t, far.data, "--http", far.addresses.HTTP)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("at the end: %+v\n%s\n%s", status, bridge.log, far.log)
		}
	})
	eventually.Holds(t, "synced", func() bool {
		status = demand[caps.StatusResult](t, near, "cap.vfs.sync.status", `{"cap_id":"home"}`)
		return status.Status == "synced" && status.Circuit == "closed" && status.Pending == 0 && len(status.Files) == len(want)+3
	}, &status)
	sums := make(map[string]string)
	for _, f := range status.Files {
		sums[strings.TrimPrefix(f.Path, "/vfs/cap/")] = f.Checksum
	}
	list, _, err := filesOf(t, far).List(t.Context(), "site-1", "cap/home/", "", 1000, false)
	if err != nil {
		t.Fatal(err)
	}
	if len(list) != len(want)+3 {
		t.Errorf("the VFS has %d files, the Cap %d", len(list), len(want)+3)
	}
	for _, f := range list {
		name := strings.TrimPrefix(f.Path, "cap/")
		if sums[name] != f.SHA256.String() {
			t.Errorf("%s: %s here, %s there", name, sums[name], f.SHA256)
		}
		content, isOurs := want[name]
		if got, code := tool(t, far, "", "vfs", "get", "site-1/"+f.Path, "-"); isOurs && (code != 0 || got != content) {
			t.Errorf("%s holds %q", f.Path, got)
		}
	}
}

func dialAdmin(t *testing.T, b *binary) *client.Client {
	t.Helper()
	key, err := readSecret(filepath.Join(b.data, app.AdminKeyFile))
	if err != nil {
		t.Fatal(err)
	}
	return dial(t, b, client.WithAPIKey(key))
}
