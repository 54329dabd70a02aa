package app_test

import (
	"archive/zip"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/internal/app"
	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/llm/wire/scripted"
	"github.com/aibridge/aibridge/protocol"
)

// trio starts three bridges that work together, with one model.
func trio(t *testing.T, s *scripted.Server) (url string, a, b, c *bridgetest.Node) {
	t.Helper()
	return trioWith(t, withModel(s))
}

// trioWith is trio with whatever model the bridges are told of.
func trioWith(t *testing.T, model func(*app.Config)) (url string, a, b, c *bridgetest.Node) {
	t.Helper()
	url = startNATS(t)
	a = bridgetest.Start(t, beside(t, url, "a", nil), model)
	b = bridgetest.Start(t, beside(t, url, "b", a), model)
	c = bridgetest.Start(t, beside(t, url, "c", a), model)
	onA := a.Caller(t, "counter")
	eventually.Holds(t, "there are three", func() bool { return len(members(t, onA)) == 3 })
	return url, a, b, c
}

// phaseOf is the phase of a run, as a caller sees it.
func phaseOf(t *testing.T, c *bridgetest.Raw, id string) string {
	t.Helper()
	return field(t, must(t, c, "llm.run.status", fmt.Sprintf(`{"run_id":%q}`, id)), "phase")
}

// TestARunGoesOnAtAnotherBridge has a bridge declared dead while a run of its waits for
// a device.
func TestARunGoesOnAtAnotherBridge(t *testing.T) {
	t.Parallel()
	s := scripted.ForBridge(t,
		callsFor("fs_write", `{"path":"@state/note.md","content":"the third door"}`),
		callsFor("slow_wait", `{}`),
		callsFor("fs_read", `{"path":"@state/note.md"}`),
		says("It is the third door."),
		says("Still the third."))
	url, a, b, c := trio(t, s)
	device := a.Device(t, "slow-1", "slow", `["wait"]`)
	onA, onB, onC := a.Caller(t, "me-a"), b.Caller(t, "me"), c.Caller(t, "me-c")
	listener := c.Connect(t, "listener")
	listener.Listen(t, "aibridge/task/+/event")

	id := runAs(t, onB, `{"input":"Which door?"}`)
	call := device.Invocation(t)
	for name, at := range map[string]*bridgetest.Raw{"a": onA, "c": onC} {
		if got := phaseOf(t, at, id); got != "Running" {
			t.Errorf("%s says that it is %s", name, got)
		}
		spans := string(must(t, at, "llm.run.trace", fmt.Sprintf(`{"run_id":%q}`, id)))
		if !strings.Contains(spans, "slow.wait") || !strings.Contains(spans, `"running"`) {
			t.Errorf("%s shows of what is under way: %s", name, spans)
		}
	}
	answer := onC.Ask(t, bridgetest.Request(protocol.NewID(), "llm.run.continue", fmt.Sprintf(`{"run_id":%q,"input":"now"}`, id)))
	if code := protocol.CodeOf(errorOf(answer)); code != protocol.InvalidState && code != protocol.PermissionDenied {
		t.Errorf("it is continued while it runs: %v", answer.Err)
	}

	verdict(t, url, "b")
	_ = b.Ended(t)
	if phase, message := restOf(t, onC, id); phase != "WaitingUser" || message != "It is the third door." {
		t.Fatalf("the run is %s: %s", phase, message)
	}
	turns := string(must(t, onA, "llm.run.turns", fmt.Sprintf(`{"run_id":%q}`, id)))
	for _, part := range []string{"Which door?", "the third door", `"C04"`} {
		if !strings.Contains(turns, part) {
			t.Errorf("its turns lack %s: %s", part, turns)
		}
	}
	if n := strings.Count(turns, `"id":"C0`); n != 4 {
		t.Errorf("it has %d turns", n)
	}
	device.Reply(t, "slow-1", call, map[string]any{}) // too late for anybody

	seen := ""
	for !strings.Contains(seen, "run.phase WaitingUser") {
		e, err := protocol.DecodeEvent(listener.Next(t).Payload, protocol.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		var about struct{ Phase string }
		_ = json.Unmarshal(e.Data, &about)
		seen += e.Name + " " + about.Phase + "\n"
	}
	if strings.Count(seen, "run.phase Running") != 2 {
		t.Errorf("on another bridge it was told\n%s", seen)
	}

	// At rest it goes on wherever it is continued.
	mine := c.Caller(t, "me")
	must(t, mine, "llm.run.continue", fmt.Sprintf(`{"run_id":%q,"input":"Sure?"}`, id))
	if phase, message := restOf(t, onA, id); phase != "WaitingUser" || message != "Still the third." {
		t.Errorf("continued, it is %s: %s", phase, message)
	}
	must(t, onA, "llm.run.cancel", fmt.Sprintf(`{"run_id":%q}`, id))
	eventually.Holds(t, "it is cancelled everywhere", func() bool { return phaseOf(t, onC, id) == "Failed" })
}

// TestARunIsStoppedFromAnyBridge cancels a run at another bridge than it goes on at,
// and one that was left behind by a bridge that stopped.
func TestARunIsStoppedFromAnyBridge(t *testing.T) {
	t.Parallel()
	s := scripted.ForBridge(t, callsFor("slow_wait", `{}`), says("Done."))
	_, a, b, c := trio(t, s)
	device := a.Device(t, "slow-1", "slow", `["wait"]`)
	onB, onC := b.Caller(t, "me"), c.Caller(t, "me-c")
	id := runAs(t, onB, `{"input":"Wait"}`)
	device.Invocation(t)
	stopped := must(t, onC, "llm.run.cancel", fmt.Sprintf(`{"run_id":%q}`, id))
	if field(t, stopped, "phase") != "Failed" || field(t, stopped, "stop_reason") != "ENGINE_ABORTED" {
		t.Errorf("it is stopped: %s", stopped)
	}
	s.Play(callsFor("slow_wait", `{}`), says("Gone on."))
	left := runAs(t, onB, `{"input":"Wait again"}`)
	device.Invocation(t)
	b.Stop(t)
	if phase, message := restOf(t, onC, left); phase != "WaitingUser" || message != "Gone on." {
		t.Errorf("left behind, it is %s: %s", phase, message)
	}
}

// TestAPackageIsImportedOnce starts a workflow on a bridge that has never seen its
// package, also once the bridge that imported it has lost its disk.
func TestAPackageIsImportedOnce(t *testing.T) {
	t.Parallel()
	s := scripted.ForBridge(t, says("How warm?"))
	_, a, b, c := trio(t, s)
	zip := zippedSample(t)
	must(t, a.Caller(t, "me"), "llm.run.import", fmt.Sprintf(`{"content":%q}`, base64.StdEncoding.EncodeToString(zip)))
	if err := os.RemoveAll(filepath.Join(a.Config.Data, "runs", "packages")); err != nil {
		t.Fatal(err)
	}
	onB, onC := b.Caller(t, "me"), c.Caller(t, "me-c")
	id := runAs(t, onB, `{"package":"climate-check"}`)
	if phase, message := restOf(t, onC, id); phase != "WaitingUser" || message != "How warm?" {
		t.Errorf("it is %s: %s", phase, message)
	}
	at := string(must(t, onC, "llm.run.status", fmt.Sprintf(`{"run_id":%q,"graph":true}`, id)))
	if !strings.Contains(at, `"current_node_id"`) || !strings.Contains(at, `"entry_node_id"`) {
		t.Errorf("another bridge says of where it is: %s", at)
	}
}

// zippedSample is the package of the example.
func zippedSample(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	if err := w.AddFS(os.DirFS(filepath.Join("..", "..", "examples", "workflow", "climate-check"))); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
