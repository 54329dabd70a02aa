package end_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aibridge/aibridge/client"
	"github.com/aibridge/aibridge/client/agent/end"
	"github.com/aibridge/aibridge/client/agent/script"
	"github.com/aibridge/aibridge/client/agent/skill"
	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/protocol"
)

// bridge is a whole bridge, an end agent at it, and somebody who calls.
type bridge struct {
	t      *testing.T
	node   *bridgetest.Node
	caller *client.Client
}

func start(t *testing.T, skills string) *bridge {
	t.Helper()
	b := &bridge{t: t, node: bridgetest.Start(t)}
	b.caller = b.node.Dial(t)
	b.serve(skills)
	return b
}

// serve runs an end agent until the test ends or the function is called.
func (b *bridge) serve(skills string) (stop func()) { return b.serveAs("workshop", skills) }

func (b *bridge) serveAs(id protocol.AgentID, skills string) (stop func()) {
	b.t.Helper()
	c := b.node.Dial(b.t, client.WithAgent(client.Agent{ID: id}))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- end.Run(ctx, end.Options{
			Client: c, AgentID: id, SkillsDir: skills,
			Scripts: script.Options{Grace: bridgetest.Patience},
			Watch:   skill.WatchOptions{Debounce: 20 * time.Millisecond, Rescan: 200 * time.Millisecond},
			Log:     slog.New(slog.NewTextHandler(b.t.Output(), nil)),
		})
	}()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			b.t.Errorf("the agent ended with %v", err)
		}
		_ = c.Close()
	}
	b.t.Cleanup(stop)
	return stop
}

type invoked struct {
	SkillID protocol.SkillID `json:"skill_id"`
	AgentID protocol.AgentID `json:"agent_id"`
	Data    json.RawMessage  `json:"data"`
}

func (b *bridge) invoke(skill, capability, params string, opts ...client.CallOption) (invoked, error) {
	return client.Call[invoked](b.t.Context(), b.caller, "skill.invoke", map[string]any{
		"skill_id": skill, "capability_id": capability, "params": json.RawMessage(params),
	}, opts...)
}

// skills lists what the bridge knows, "id version status".
func (b *bridge) skills() string {
	found, err := client.Call[struct {
		Skills []struct {
			ID      string `json:"skill_id"`
			Version string `json:"version"`
			Status  string `json:"status"`
		} `json:"skills"`
	}](b.t.Context(), b.caller, "skill.discover", map[string]any{})
	if err != nil {
		b.t.Errorf("discover: %v", err)
	}
	lines := make([]string, 0, len(found.Skills))
	for _, s := range found.Skills {
		lines = append(lines, s.ID+" "+s.Version+" "+s.Status)
	}
	slices.Sort(lines)
	return strings.Join(lines, ", ")
}

func (b *bridge) await(want string) {
	b.t.Helper()
	eventually.Holds(b.t, "the bridge knows "+want, func() bool { return b.skills() == want })
}

const examples = "../../../examples/skills"

func TestTheExamplesAreServedThroughABridge(t *testing.T) {
	t.Parallel()
	b := start(t, examples)
	b.await("unit-converter 1.0.0 online, weather-station 1.0.0 online")
	got, err := b.invoke("unit-converter", "celsius_to_fahrenheit", `{"celsius":25}`)
	if err != nil || string(got.Data) != `{"fahrenheit":77}` || got.AgentID != "workshop" {
		t.Errorf("got %+v %s, %v", got, got.Data, err)
	}
	_, err = b.invoke("unit-converter", "celsius_to_fahrenheit", `{"celsius":"warm"}`)
	var e *protocol.Error
	if !errors.As(err, &e) || e.Code != protocol.InvalidParameter || e.Details["param_name"] != "params.celsius" {
		t.Errorf("a wrong parameter: %v", err)
	}
	if _, err := b.invoke("weather-station", "current", `{"station":"moon"}`); protocol.CodeOf(err) != protocol.NotFound {
		t.Errorf("an unknown station: %v", err)
	}
	var progress []string
	got, err = b.invoke("weather-station", "observe", `{"samples":2,"interval_seconds":0.3}`, client.OnEvent(func(e *protocol.Event) {
		if e.Name == "task.progress" {
			progress = append(progress, string(e.Data))
		}
	}))
	if err != nil || !strings.Contains(string(got.Data), `"samples":2`) {
		t.Errorf("observe: %s, %v", got.Data, err)
	}
	if want := []string{`{"message":"reading 1 of 2","percent":50}`, `{"message":"reading 2 of 2","percent":100}`}; !slices.Equal(progress, want) {
		t.Errorf("progress: %s", progress)
	}
}

func TestDocumentsAreReadThroughABridge(t *testing.T) {
	t.Parallel()
	b := start(t, examples)
	b.await("unit-converter 1.0.0 online, weather-station 1.0.0 online")
	for params, want := range map[string]string{
		`{}`:                                "# Weather station\n",
		`{"path":"resources/stations.txt"}`: "roof 520\n",
	} {
		got, err := b.invoke("weather-station", "skill.document", params)
		var d struct {
			Text      string   `json:"text"`
			Resources []string `json:"resources"`
		}
		if err != nil || json.Unmarshal(got.Data, &d) != nil || !strings.HasPrefix(d.Text, want) || !slices.Equal(d.Resources, []string{"resources/stations.txt"}) {
			t.Errorf("%s: %s, %v", params, got.Data, err)
		}
	}
	if _, err := b.invoke("weather-station", "skill.document", `{"path":"scripts/sensor"}`); protocol.CodeOf(err) != protocol.InvalidParameter {
		t.Errorf("a script: %v", err)
	}
}

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path+"~", []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+"~", path); err != nil {
		t.Fatal(err)
	}
}

func manifest(version string) string {
	return "apiVersion: skill.ooder.net/v1\nkind: Skill\nmetadata: {id: s, name: S, version: " + version + ", description: D}\n" +
		"spec: {capabilities: [{id: c}]}\n"
}

func TestTheBridgeFollowsTheFolders(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	put(t, filepath.Join(dir, "s", "skill.yaml"), manifest("1.0.0"))
	b := start(t, dir)
	b.await("s 1.0.0 online")
	put(t, filepath.Join(dir, "s", "skill.yaml"), manifest("1.1.0"))
	b.await("s 1.1.0 online")
	if _, err := b.invoke("s", "c", `{}`); protocol.CodeOf(err) != protocol.TargetUnavailable {
		t.Errorf("without a script: %v", err)
	}
	put(t, filepath.Join(dir, "s", "scripts", "c.sh"), "#!/bin/sh\necho 7\n")
	if got, err := b.invoke("s", "c", `{}`); err != nil || string(got.Data) != "7" {
		t.Errorf("with a script: %s, %v", got.Data, err)
	}
	if err := os.RemoveAll(filepath.Join(dir, "s")); err != nil {
		t.Fatal(err)
	}
	b.await("")
}

func TestAStoppedAgentIsOfflineAndWhatWentMeanwhileGoes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	put(t, filepath.Join(dir, "s", "skill.yaml"), manifest("1.0.0"))
	put(t, filepath.Join(dir, "t", "skill.yaml"), strings.Replace(manifest("1.0.0"), "id: s", "id: t", 1))
	b := &bridge{t: t, node: bridgetest.Start(t)}
	b.caller = b.node.Dial(t)
	stop := b.serve(dir)
	b.await("s 1.0.0 online, t 1.0.0 online")
	stop()
	b.await("s 1.0.0 offline, t 1.0.0 offline")
	if err := os.RemoveAll(filepath.Join(dir, "s")); err != nil {
		t.Fatal(err)
	}
	b.serve(dir)
	b.await("t 1.0.0 online")
}

func TestResultsOfEverySizeAreAnswered(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	put(t, filepath.Join(dir, "s", "scripts", "c.sh"), `#!/bin/sh
printf '"'; head -c "$AIBRIDGE_PARAM_SIZE" /dev/zero | tr '\000' "$AIBRIDGE_PARAM_FILL"; printf '"'
`)
	put(t, filepath.Join(dir, "s", "skill.yaml"), manifest("1.0.0"))
	b := start(t, dir)
	b.await("s 1.0.0 online")
	for _, fill := range []string{"x", "<"} {
		for _, size := range []int{1, 150_000, 1<<20 - 10_000} {
			got, err := b.invoke("s", "c", fmt.Sprintf(`{"size":%d,"fill":%q}`, size, fill))
			if want := size + len(`""`); err != nil || len(got.Data) != want {
				t.Errorf("%d times %s: %d bytes, %v", size, fill, len(got.Data), err)
			}
		}
		for size, want := range map[int]string{
			1<<20 - 2: "the skill's answer is too large",
			1 << 20:   "scripts/c.sh wrote more than 1048576 bytes",
			3 << 20:   "scripts/c.sh wrote more than 1048576 bytes",
		} {
			if _, err := b.invoke("s", "c", fmt.Sprintf(`{"size":%d,"fill":%q}`, size, fill)); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%d times %s: %v", size, fill, err)
			}
		}
	}
}

func TestASkillThatOthersServeTooStaysWithThem(t *testing.T) {
	t.Parallel()
	one, two := t.TempDir(), t.TempDir()
	for _, dir := range []string{one, two} {
		put(t, filepath.Join(dir, "s", "scripts", "c.sh"), "#!/bin/sh\necho \"\\\"$AIBRIDGE_AGENT_ID\\\"\"\n")
		put(t, filepath.Join(dir, "s", "skill.yaml"), manifest("1.0.0"))
	}
	b := &bridge{t: t, node: bridgetest.Start(t)}
	b.caller = b.node.Dial(t)
	b.serveAs("agent-1", one)
	b.await("s 1.0.0 online")
	b.serveAs("agent-2", two)
	eventually.Holds(t, "both serve it", func() bool {
		got, err := b.invoke("s", "c", `{}`)
		return err == nil && got.AgentID == "agent-2"
	})
	if err := os.RemoveAll(filepath.Join(one, "s")); err != nil {
		t.Fatal(err)
	}
	eventually.Holds(t, "only the other serves it", func() bool {
		for range 10 {
			got, err := b.invoke("s", "c", `{}`)
			if err != nil || got.AgentID != "agent-2" || string(got.Data) != `"agent-2"` {
				return false // the first is just leaving
			}
		}
		return true
	})
}

func TestAnAgentWhoseIDIsTakenOverEnds(t *testing.T) {
	t.Parallel()
	node := bridgetest.Start(t)
	dir := t.TempDir()
	put(t, filepath.Join(dir, "s", "skill.yaml"), manifest("1.0.0"))
	first := node.Dial(t, client.WithAgent(client.Agent{ID: "workshop"}))
	done := make(chan error, 1)
	go func() {
		done <- end.Run(t.Context(), end.Options{Client: first, AgentID: "workshop", SkillsDir: dir, Log: slog.New(slog.DiscardHandler)})
	}()
	node.Dial(t, client.WithAgent(client.Agent{ID: "workshop"}))
	select {
	case err := <-done:
		if err == nil || !strings.Contains(err.Error(), "the connection to the bridge ended") {
			t.Errorf("got %v", err)
		}
	case <-time.After(bridgetest.Patience):
		t.Error("it goes on without a connection")
	}
}

func TestACallThatEndsEndsItsScript(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	put(t, filepath.Join(dir, "s", "scripts", "c.sh"), "#!/bin/sh\ntrap 'touch ended; exit' TERM\ntouch started\nwhile :; do sleep 0.02; done\n")
	put(t, filepath.Join(dir, "s", "skill.yaml"), manifest("1.0.0"))
	b := start(t, dir)
	b.await("s 1.0.0 online")
	is := func(name string) func() bool {
		return func() bool {
			_, err := os.Stat(filepath.Join(dir, "s", name))
			return err == nil
		}
	}
	for timeout := 300 * time.Millisecond; ; timeout *= 2 { // until the script is there before the deadline
		if _, err := b.invoke("s", "c", `{}`, client.WithTimeout(timeout)); protocol.CodeOf(err) != protocol.TimedOut {
			t.Fatalf("got %v", err)
		}
		if is("started")() || timeout > bridgetest.Patience {
			break
		}
	}
	eventually.Holds(t, "the script is ended at the deadline", is("ended"))
	for _, name := range []string{"started", "ended"} {
		if err := os.Remove(filepath.Join(dir, "s", name)); err != nil {
			t.Fatal(err)
		}
	}
	task, err := client.Call[struct {
		ID string `json:"task_id"`
	}](t.Context(), b.caller, "skill.invoke", map[string]any{"skill_id": "s", "capability_id": "c", "async": true})
	if err != nil || task.ID == "" {
		t.Fatalf("async: %+v, %v", task, err)
	}
	eventually.Holds(t, "the script runs", is("started"))
	if _, err := client.Call[struct{}](t.Context(), b.caller, "task.cancel", map[string]any{"task_id": task.ID}); err != nil {
		t.Fatal(err)
	}
	eventually.Holds(t, "the script is ended by task.cancel", is("ended"))
}
