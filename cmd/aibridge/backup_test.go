package main

import (
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestAWorkflowGoesOnFromABackup kills a bridge in the middle of a workflow,
// restores its backup into an empty folder, and finds there what is not in the
// store: the package, the run's files, the contents of files and the trail.
func TestAWorkflowGoesOnFromABackup(t *testing.T) {
	never := make(chan struct{})
	model := &caretaker{holding: make(chan string, 1), hold: map[string]chan struct{}{"judge": never}}
	server := httptest.NewServer(model)
	defer server.Close()
	defer server.CloseClientConnections()
	flags := []string{"--dev", "--llm-base-url", server.URL + "/v1", "--llm-model", "m-1"}

	bridge := startBinary(t, t.TempDir(), flags...)
	serveThermostat(t, bridge, func(float64) {})
	bridge.aibridge(t, "run", "import", "../../examples/workflow/climate-check")
	note := filepath.Join(t.TempDir(), "note.txt")
	if err := os.WriteFile(note, []byte("not to be lost"), 0o600); err != nil {
		t.Fatal(err)
	}
	bridge.aibridge(t, "vfs", "put", note, "home/note.txt")
	id := strings.TrimSpace(bridge.aibridge(t, "run", "start", "climate-check", "--project", "home", "--detach"))
	<-model.holding // it has measured and thinks about the decision
	bridge.kill()

	archive := filepath.Join(t.TempDir(), "backup")
	if _, stderr, code := run(t, bridge, "backup", "--data", bridge.data, archive); code != 0 || !strings.Contains(stderr, "of workflows") {
		t.Fatalf("backup: %d %s", code, stderr)
	}
	fresh := t.TempDir()
	for _, secret := range []string{"seal.key", "audit.key"} {
		copyFile(t, filepath.Join(bridge.data, secret), filepath.Join(fresh, secret))
	}
	if _, stderr, code := run(t, bridge, "restore", "--data", fresh, archive); code != 0 {
		t.Fatalf("restore: %s", stderr)
	}

	restored := startBinary(t, fresh, flags...)
	serveThermostat(t, restored, func(float64) {})
	asked := restored.aibridge(t, "run", "follow", id)
	if !strings.Contains(asked, "How warm would you like it?") || !strings.Contains(asked, "WaitingUser") {
		t.Fatalf("after the restore:\n%s\n%s", asked, restored.log)
	}
	if done := restored.aibridge(t, "run", "continue", id, "21", "please"); !strings.Contains(done, "Completed") {
		t.Errorf("it ended with\n%s", done)
	}
	if turns := restored.aibridge(t, "run", "turns", id); !strings.Contains(turns, "thermostat-go.read") {
		t.Errorf("its turns from before the backup are not there:\n%s", turns)
	}
	if out := restored.aibridge(t, "run", "start", "climate-check", "--project", "home", "--detach"); strings.TrimSpace(out) == "" {
		t.Error("the package cannot be started again")
	}
	if text := restored.aibridge(t, "vfs", "get", "home/note.txt", "-"); text != "not to be lost" {
		t.Errorf("the file is %q", text)
	}
	if log := restored.aibridge(t, "call", "audit.query", "event=llm.run.import", "--json"); !strings.Contains(log, "llm.run.import") {
		t.Errorf("the trail from before the backup is not there:\n%s", log)
	}
	if report := restored.aibridge(t, "audit", "verify"); !strings.Contains(report, "ok") {
		t.Errorf("the trail: %s", report)
	}
}

// TestABackupOfARunningBridge makes one by the data folder that the bridge
// works on, and one by its address; only an administrator's key opens that.
func TestABackupOfARunningBridge(t *testing.T) {
	bridge := startBinary(t, t.TempDir())
	bridge.aibridge(t, "call", "agent.register", "agent_id=kept", "type=end_agent")
	dir := t.TempDir()
	made := filepath.Join(dir, "by-folder")
	_, stderr, code := run(t, bridge, "backup", "--data", bridge.data, made)
	if code != 0 || strings.Contains(stderr, "copying") || !strings.Contains(stderr, "saved") {
		t.Fatalf("%d %s", code, stderr)
	}
	if info, err := os.Stat(made); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if _, stderr, code := run(t, bridge, "restore", "--data", bridge.data, made, "--force"); code == 0 || !strings.Contains(stderr, "in use") {
		t.Errorf("a restore below a bridge at work: %d %s", code, stderr)
	}

	url, observer := "http://"+bridge.addresses.HTTP, filepath.Join(dir, "observer.key")
	bridge.aibridge(t, "key", "create", "o", "--kind", "operator", "--role", "observer", "--out", observer)
	refused := filepath.Join(dir, "refused")
	if _, stderr, code := run(t, bridge, "backup", refused, "--url", url, "--api-key-file", observer); code != 20 || !strings.Contains(stderr, "2003") {
		t.Errorf("for an observer: %d %s", code, stderr)
	}
	if left, _ := filepath.Glob(refused + "*"); len(left) != 0 {
		t.Errorf("a refused backup has left %q", left)
	}
	archive, stderr, code := run(t, bridge, "backup", "-", "--url", url, "--api-key-file", filepath.Join(bridge.data, "admin.key"))
	if code != 0 {
		t.Fatalf("%d %s", code, stderr)
	}
	if err := os.WriteFile(made, []byte(archive), 0o600); err != nil {
		t.Fatal(err)
	}

	fresh := t.TempDir()
	for _, secret := range []string{"seal.key", "audit.key", "pepper", "admin.key"} {
		copyFile(t, filepath.Join(bridge.data, secret), filepath.Join(fresh, secret))
	}
	if _, stderr, code := run(t, bridge, "restore", "--data", fresh, made); code != 0 {
		t.Fatalf("restore: %s", stderr)
	}
	again := startBinary(t, fresh)
	if out := again.aibridge(t, "call", "agent.get", "agent_id=kept", "--json"); !strings.Contains(out, `"kept"`) {
		t.Errorf("the agent: %s", out)
	}
	if report := again.aibridge(t, "audit", "verify"); !strings.Contains(report, "ok") {
		t.Errorf("the trail: %s", report)
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, data, 0o600); err != nil {
		t.Fatal(err)
	}
}
