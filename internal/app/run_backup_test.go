package app_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/aibridge/aibridge/internal/app"
	"github.com/aibridge/aibridge/internal/backup"
	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/internal/storage"
	"github.com/aibridge/aibridge/llm/wire/scripted"
)

// savedBy is the archive of aibridge backup with the configuration of a bridge.
func savedBy(t *testing.T, n *bridgetest.Node) []byte {
	t.Helper()
	var archive bytes.Buffer
	if _, err := storage.Backup(t.Context(), n.Config, &archive, backup.Options{}); err != nil {
		t.Fatal(err)
	}
	return archive.Bytes()
}

// holding fills the state of a bridge from an archive before it starts, with the
// keys of the bridge that it is from.
func holding(t *testing.T, archive []byte, from *bridgetest.Node) func(*app.Config) {
	return func(c *app.Config) {
		t.Helper()
		for _, file := range []string{"pepper", "ca.key", "seal.key"} {
			secret, err := os.ReadFile(filepath.Join(from.Config.Data, file))
			if err == nil {
				err = os.WriteFile(filepath.Join(c.Data, file), secret, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if _, err := storage.Restore(t.Context(), *c, bytes.NewReader(archive), false); err != nil {
			t.Fatal(err)
		}
	}
}

// TestRunsGoOutOfAClusterAndBack takes runs and packages from three bridges to one
// that is alone, and from there to three others. Runs go on at each: one that rests,
// and one that was under way when its cluster was stopped.
func TestRunsGoOutOfAClusterAndBack(t *testing.T) {
	t.Parallel()
	s := scripted.ForBridge(t, says("How warm?"))
	_, a, b, c := trio(t, s)
	must(t, a.Caller(t, "me"), "llm.run.import", fmt.Sprintf(`{"content":%q}`, base64.StdEncoding.EncodeToString(zippedSample(t))))
	onB := b.Caller(t, "me-b")
	rests := runAs(t, onB, `{"package":"climate-check"}`)
	if phase, message := restOf(t, onB, rests); phase != "WaitingUser" || message != "How warm?" {
		t.Fatalf("the run is %s: %s", phase, message)
	}
	s.Play(callsFor("fs_write", `{"path":"@state/note.md","content":"the third door"}`), callsFor("slow_wait", `{}`))
	device := a.Device(t, "slow-1", "slow", `["wait"]`)
	acts := runAs(t, onB, `{"input":"Which door?"}`)
	device.Invocation(t)

	archive := savedBy(t, c) // beside the bridges, while the run waits for its device
	for _, n := range []*bridgetest.Node{a, b, c} {
		n.Stop(t)
	}

	// At one bridge with a state of its own.
	s.Play(callsFor("fs_read", `{"path":"@state/note.md"}`), says("The third."))
	alone := bridgetest.Start(t, holding(t, archive, a), withModel(s))
	me := alone.Caller(t, "me-b")
	if phase, message := restOf(t, me, acts); phase != "WaitingUser" || message != "The third." {
		t.Errorf("what was under way is %s: %s", phase, message)
	}
	s.Play(says("Warm enough."))
	must(t, me, "llm.run.continue", fmt.Sprintf(`{"run_id":%q,"input":"26"}`, rests))
	if phase, message := restOf(t, me, rests); phase != "WaitingUser" || message != "Warm enough." {
		t.Errorf("continued, the run is %s: %s", phase, message)
	}
	alone.Stop(t)
	archive = savedBy(t, alone)

	// At three others.
	url := startNATS(t)
	one := bridgetest.Start(t, beside(t, url, "one", nil), holding(t, archive, alone), withModel(s))
	two := bridgetest.Start(t, beside(t, url, "two", one), withModel(s))
	three := bridgetest.Start(t, beside(t, url, "three", one), withModel(s))
	for _, n := range []*bridgetest.Node{one, two, three} {
		for id, want := range map[string]string{rests: "Warm enough.", acts: "The third."} {
			if phase, message := restOf(t, n.Caller(t, "me-b"), id); phase != "WaitingUser" || message != want {
				t.Errorf("%s says that a run is %s: %s", n.Config.ID, phase, message)
			}
		}
	}
	s.Play(callsFor("fs_read", `{"path":"@state/note.md"}`), says("Still the third."))
	must(t, three.Caller(t, "me-b"), "llm.run.continue", fmt.Sprintf(`{"run_id":%q,"input":"Sure?"}`, acts))
	if phase, message := restOf(t, two.Caller(t, "me-b"), acts); phase != "WaitingUser" || message != "Still the third." {
		t.Errorf("continued, it is %s: %s", phase, message)
	}
	s.Play(says("How warm now?"))
	again := runAs(t, two.Caller(t, "me-b"), `{"package":"climate-check"}`)
	if phase, message := restOf(t, three.Caller(t, "me-b"), again); phase != "WaitingUser" || message != "How warm now?" {
		t.Errorf("a run of the package that was brought along is %s: %s", phase, message)
	}
}
