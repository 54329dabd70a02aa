package end

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aibridge/aibridge/client"
	"github.com/aibridge/aibridge/client/agent/script"
	"github.com/aibridge/aibridge/client/agent/skill"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/internal/leaks"
	"github.com/aibridge/aibridge/protocol"
)

func TestMain(m *testing.M) { leaks.Verify(m) }

// fakeBridge remembers what it was offered.
type fakeBridge struct {
	mu     sync.Mutex
	offers map[protocol.SkillID]client.Skill
	told   []string
	fail   error // what the next offers and withdrawals fail with
	known  []protocol.SkillID
}

func (b *fakeBridge) ended() <-chan struct{} { return nil }
func (b *fakeBridge) lost() error            { return nil }

func (b *fakeBridge) registered(context.Context) ([]protocol.SkillID, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.known, b.fail
}

func (b *fakeBridge) offer(_ context.Context, o client.Skill) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.fail != nil {
		return b.fail
	}
	b.offers[o.ID] = o
	b.told = append(b.told, "+"+string(o.ID)+" "+o.Version)
	return nil
}

func (b *fakeBridge) offerAll(ctx context.Context, all []client.Skill) (done []protocol.SkillID) {
	for _, o := range all {
		if b.offer(ctx, o) == nil {
			done = append(done, o.ID)
		}
	}
	return done
}

func (b *fakeBridge) withdraw(_ context.Context, id protocol.SkillID) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.fail != nil {
		return b.fail
	}
	delete(b.offers, id)
	b.told = append(b.told, "-"+string(id))
	return nil
}

func (b *fakeBridge) failWith(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fail = err
}

func (b *fakeBridge) offered(id protocol.SkillID) client.Skill {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.offers[id]
}

func (b *fakeBridge) await(t *testing.T, want ...string) {
	t.Helper()
	var told []string
	for end := time.Now().Add(eventually.Patience); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		b.mu.Lock()
		told = slices.Clone(b.told)
		b.mu.Unlock()
		if slices.Equal(told, want) {
			return
		}
	}
	t.Fatalf("told %q, want %q", told, want)
}

// node is an end agent under test.
type node struct {
	t      *testing.T
	dir    string
	bridge *fakeBridge
	stop   func() error
}

func serve(t *testing.T, change ...func(*node, *Options)) *node {
	t.Helper()
	n := &node{t: t, dir: t.TempDir(), bridge: &fakeBridge{offers: map[protocol.SkillID]client.Skill{}}}
	o := Options{
		AgentID: "workshop", SkillsDir: n.dir,
		Scripts: script.Options{Grace: 50 * time.Millisecond},
		Watch:   skill.WatchOptions{Debounce: 5 * time.Millisecond, Rescan: 50 * time.Millisecond},
		Log:     slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	for _, f := range change {
		f(n, &o)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- run(ctx, o, n.bridge) }()
	n.stop = sync.OnceValue(func() error {
		cancel()
		return <-done
	})
	t.Cleanup(func() {
		if err := n.stop(); err != nil {
			t.Errorf("the agent ended with %v", err)
		}
	})
	return n
}

func (n *node) write(name, text string) {
	n.t.Helper()
	path := filepath.Join(n.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		n.t.Fatal(err)
	}
	if err := os.WriteFile(path+"~", []byte(text), 0o755); err != nil {
		n.t.Fatal(err)
	}
	if err := os.Rename(path+"~", path); err != nil { // so that no half of it is seen
		n.t.Fatal(err)
	}
}

func yaml(id, version, capabilities string) string {
	return "apiVersion: skill.ooder.net/v1\nkind: Skill\n" +
		"metadata: {id: " + id + ", name: N, version: " + version + ", description: D}\n" +
		"spec: {capabilities: [" + capabilities + "]}\n"
}

func (n *node) invoke(ctx context.Context, id protocol.SkillID, capability protocol.CapabilityID, params string) (string, error) {
	for _, c := range n.bridge.offered(id).Capabilities {
		if c.ID == capability {
			return call(ctx, c.Handler, &client.Invocation{SkillID: id, CapabilityID: capability, Params: json.RawMessage(params)})
		}
	}
	return "", protocol.Errorf(protocol.NotFound, "%s is not offered", capability)
}

func call(ctx context.Context, handle client.Handler, in *client.Invocation) (string, error) {
	out, err := handle(ctx, in)
	if err != nil {
		return "", err
	}
	text, err := json.Marshal(out)
	return string(text), err
}

func TestFoldersAreRegisteredAndFollowed(t *testing.T) {
	t.Parallel()
	n := serve(t)
	n.write("a/scripts/c.sh", "#!/bin/sh\necho 1\n")
	n.write("a/skill.yaml", yaml("a", "1.0.0", "{id: c, name: See, description: sees, parameters: {x: number}, returns: integer, effect: read, idempotent: true, risk: high}"))
	n.bridge.await(t, "+a 1.0.0")
	o := n.bridge.offered("a")
	want := client.Capability{
		ID: "c", Name: "See", Description: "sees", Effect: client.EffectRead, Idempotent: true, Risk: "high",
		ParamsSchema: json.RawMessage(`{"type":"object","properties":{"x":{"type":"number"}},"additionalProperties":false}`),
		ResultSchema: json.RawMessage(`{"type":"integer"}`),
	}
	if len(o.Capabilities) != 1 || o.Type != "custom" || o.Name != "N" || o.Description != "D" {
		t.Fatalf("offer: %+v", o)
	}
	got := o.Capabilities[0]
	got.Handler = nil
	if !reflect.DeepEqual(got, want) {
		t.Errorf("capability: %+v", got)
	}
	n.write("a/skill.yaml", yaml("a", "1.1.0", "{id: c}"))
	n.bridge.await(t, "+a 1.0.0", "+a 1.1.0")
	n.write("a/skill.yaml", "broken: [")
	n.write("b/skill.yaml", yaml("b", "1.0.0", "{id: c}"))
	n.bridge.await(t, "+a 1.0.0", "+a 1.1.0", "+b 1.0.0")
	if out, err := n.invoke(t.Context(), "a", "c", `{}`); err != nil || out != "1" {
		t.Errorf("the last good version does not serve: %s, %v", out, err)
	}
	if err := os.RemoveAll(filepath.Join(n.dir, "a")); err != nil {
		t.Fatal(err)
	}
	n.bridge.await(t, "+a 1.0.0", "+a 1.1.0", "+b 1.0.0", "-a")
}

func TestARemovedSkillIsNotRunAnyMore(t *testing.T) {
	t.Parallel()
	n := serve(t)
	n.write("a/skill.yaml", yaml("a", "1.0.0", "{id: c}"))
	n.bridge.await(t, "+a 1.0.0")
	late := n.bridge.offered("a").Capabilities[0].Handler
	if err := os.RemoveAll(filepath.Join(n.dir, "a")); err != nil {
		t.Fatal(err)
	}
	n.bridge.await(t, "+a 1.0.0", "-a")
	if _, err := late(t.Context(), &client.Invocation{SkillID: "a", CapabilityID: "c"}); err == nil || err.Error() != "rejected: it does not serve the skill a any more" {
		t.Errorf("got %v", err)
	}
}

func TestSkillsWhoseFoldersWentMeanwhileAreUnregistered(t *testing.T) {
	t.Parallel()
	n := serve(t, func(n *node, _ *Options) {
		n.bridge.known = []protocol.SkillID{"gone", "kept"}
		n.write("kept/skill.yaml", yaml("kept", "1.0.0", "{id: c}"))
	})
	n.bridge.await(t, "-gone", "+kept 1.0.0")
}

func TestRegistrationIsTriedAgain(t *testing.T) {
	t.Parallel()
	n := serve(t)
	n.bridge.failWith(errors.New("no connection"))
	n.write("a/skill.yaml", yaml("a", "1.0.0", "{id: c}"))
	n.write("a/notes", "") // any change wakes it
	time.AfterFunc(50*time.Millisecond, func() { n.bridge.failWith(nil) })
	n.bridge.await(t, "+a 1.0.0")
}

func TestDocumentsAreReadByACapabilityOfTheAgent(t *testing.T) {
	t.Parallel()
	n := serve(t)
	n.write("a/resources/data.bin", "\x00\x01")
	n.write("a/resources/list.txt", "one\ntwo\n")
	n.write("a/SKILL.md", "# How to \"use\" it\n")
	n.write("a/skill.yaml", yaml("a", "1.0.0", "{id: c}"))
	n.bridge.await(t, "+a 1.0.0")
	caps := n.bridge.offered("a").Capabilities
	if len(caps) != 2 || caps[1].ID != "skill.document" || !json.Valid(caps[1].ParamsSchema) || !json.Valid(caps[1].ResultSchema) {
		t.Fatalf("capabilities: %+v", caps)
	}
	for params, want := range map[string]string{
		``:                                  `{"path":"SKILL.md","text":"# How to \"use\" it\n","sha256":"`,
		`{}`:                                `{"path":"SKILL.md","text":`,
		`{"path":"resources/list.txt"}`:     `{"path":"resources/list.txt","text":"one\ntwo\n","sha256":"`,
		`{"path":"resources/data.bin"}`:     `{"path":"resources/data.bin","base64":"AAE=","sha256":"b413f47d13ee2fe6c845b2ee141af81de858df4ec549a58b7970bb96645bc8d2","resources":["resources/data.bin","resources/list.txt"]}`,
		`{"path":"resources/none"}`:         "3001: the skill a has no resources/none",
		`{"path":"resources/../scripts/c"}`: "1001: path: must be",
		`{"path":1}`:                        "1001: path: must be text",
	} {
		out, err := n.invoke(t.Context(), "a", "skill.document", params)
		if err != nil {
			out = err.Error()
		}
		if !strings.HasPrefix(out, want) {
			t.Errorf("%s: got %s, want %s", params, out, want)
		}
	}
	if err := os.Remove(filepath.Join(n.dir, "a", "SKILL.md")); err != nil {
		t.Fatal(err)
	}
	n.bridge.await(t, "+a 1.0.0", "+a 1.0.0")
	if caps := n.bridge.offered("a").Capabilities; len(caps) != 1 {
		t.Errorf("capabilities without SKILL.md: %+v", caps)
	}
	if _, err := n.invoke(t.Context(), "a", "skill.document", ``); protocol.CodeOf(err) != protocol.NotFound {
		t.Errorf("without SKILL.md: %v", err)
	}
}

// hanging serves a script that runs until it is ended, and starts one.
func hanging(t *testing.T, n *node, capability string) (result chan error) {
	t.Helper()
	n.write("a/scripts/c.sh", "#!/bin/sh\ntouch started; sleep 1000\n")
	n.write("a/skill.yaml", yaml("a", "1.0.0", capability))
	n.bridge.await(t, "+a 1.0.0")
	result = make(chan error, 1)
	go func() {
		_, err := n.invoke(context.Background(), "a", "c", `{}`)
		result <- err
	}()
	for end := time.Now().Add(eventually.Patience); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		if _, err := os.Stat(filepath.Join(n.dir, "a", "started")); err == nil {
			return result
		}
	}
	t.Fatal("the script never started")
	return nil
}

func TestStoppingEndsScriptsThatTakeTooLong(t *testing.T) {
	t.Parallel()
	for capability, want := range map[string]protocol.Code{
		"{id: c}":                   protocol.OutcomeUnknown,
		"{id: c, idempotent: true}": protocol.ShuttingDown,
		"{id: c, effect: read}":     protocol.ShuttingDown,
	} {
		t.Run(capability, func(t *testing.T) {
			t.Parallel()
			n := serve(t, func(_ *node, o *Options) { o.Drain = 50 * time.Millisecond })
			result := hanging(t, n, capability)
			if err := n.stop(); err != nil {
				t.Error(err)
			}
			if err := <-result; protocol.CodeOf(err) != want {
				t.Errorf("got %v, want %s", err, want)
			}
			if _, err := n.invoke(t.Context(), "a", "c", `{}`); protocol.CodeOf(err) != protocol.ShuttingDown {
				t.Errorf("a call after the end: %v", err)
			}
		})
	}
}

func TestStoppingWaitsForScriptsThatEndSoon(t *testing.T) {
	t.Parallel()
	n := serve(t, func(_ *node, o *Options) { o.Drain = time.Minute })
	n.write("a/scripts/c.sh", "#!/bin/sh\ntouch started; sleep 0.2; echo 7\n")
	n.write("a/skill.yaml", yaml("a", "1.0.0", "{id: c}"))
	n.bridge.await(t, "+a 1.0.0")
	result := make(chan string, 1)
	go func() {
		out, err := n.invoke(context.Background(), "a", "c", `{}`)
		if err != nil {
			out = err.Error()
		}
		result <- out
	}()
	for end := time.Now().Add(eventually.Patience); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		if _, err := os.Stat(filepath.Join(n.dir, "a", "started")); err == nil {
			break
		}
	}
	if err := n.stop(); err != nil {
		t.Error(err)
	}
	select {
	case got := <-result:
		if got != "7" {
			t.Errorf("got %s", got)
		}
	case <-time.After(eventually.Patience):
		t.Error("the agent ended before its call")
	}
}

func TestRunRefusesWhatCannotWork(t *testing.T) {
	t.Parallel()
	bridge := &fakeBridge{}
	for name, c := range map[string]struct {
		o    Options
		want string
	}{
		"no directory":       {Options{AgentID: "a", SkillsDir: "/no/such/directory"}, "open the skills directory"},
		"no id":              {Options{SkillsDir: t.TempDir()}, "the agent's id must have 1 to 64 characters"},
		"an id with a level": {Options{AgentID: "a/b", SkillsDir: t.TempDir()}, "the agent's id may not contain"},
		"a secret passed on": {Options{AgentID: "a", SkillsDir: t.TempDir(), Scripts: script.Options{PassEnv: []string{"AIBRIDGE_API_KEY"}}}, "is the bridge's own"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.o.Log = slog.New(slog.DiscardHandler)
			if err := run(t.Context(), c.o, bridge); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}
