package main

import (
	"bytes"
	"context"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aibridge/aibridge/client"
	"github.com/aibridge/aibridge/internal/app"
	"github.com/aibridge/aibridge/internal/eventually"
)

// complete are the proposals of a shell for the last of the words.
func complete(t *testing.T, words ...string) []string {
	t.Helper()
	var out, errs bytes.Buffer
	cmd := root()
	cmd.SetArgs(append([]string{"__completeNoDesc"}, words...))
	cmd.SetOut(&out)
	cmd.SetErr(&errs)
	if err := cmd.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if said := errs.String(); strings.Count(said, "\n") != 1 || !strings.HasPrefix(said, "Completion ended") {
		t.Errorf("%q: it says more than the shell wants: %q", words, said)
	}
	return lines[:len(lines)-1] // the last one is for the shell
}

// TestNamesAreCompletedWithoutABridge asks where nobody listens, and where
// somebody does who says nothing.
func TestNamesAreCompletedWithoutABridge(t *testing.T) {
	t.Setenv("AIBRIDGE_DATA", t.TempDir())
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	for name, url := range map[string]string{
		"no bridge":         "",
		"a closed port":     "mqtt://" + freeAddress(),
		"a silent bridge":   "mqtt://" + silent.Addr().String(),
		"a silent door":     "http://" + silent.Addr().String(),
		"no address at all": "gopher://x",
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("AIBRIDGE_URL", url)
			if got := complete(t, "skill", "invoke", ""); !slices.Contains(got, "skill_id=") {
				t.Errorf("skill invoke: %q", got)
			}
			if got := complete(t, "approvals", "show", ""); len(got) > 0 {
				t.Errorf("approvals show: %q", got)
			}
		})
	}
}

// TestDeclaredWordsAreCompleted needs no bridge.
func TestDeclaredWordsAreCompleted(t *testing.T) {
	t.Setenv("AIBRIDGE_URL", "")
	t.Setenv("AIBRIDGE_DATA", t.TempDir())
	for words, want := range map[string]string{
		"skill inv":                  "invoke",
		"describe skill.inv":         "skill.invoke",
		"call skill.inv":             "skill.invoke",
		"call agent.get ":            "agent_id=",
		"agent list -o ":             "yaml",
		"agent list status=":         "status=online",
		"approval decide a ap":       "approve",
		"call task.list state=cance": "state=cancelled",
	} {
		if got := complete(t, strings.Split(words, " ")...); !slices.Contains(got, want) {
			t.Errorf("%s: %q", words, got)
		}
	}
}

// TestIDsAreCompleted asks a bridge that lets nobody in without a key.
func TestIDsAreCompleted(t *testing.T) {
	completeTimeout = eventually.Patience
	t.Cleanup(func() { completeTimeout = time.Second })
	bridge := startBinary(t, t.TempDir())
	key, err := os.ReadFile(filepath.Join(bridge.data, app.AdminKeyFile))
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("AIBRIDGE_URL", "")
	t.Setenv("AIBRIDGE_DATA", bridge.data)
	c := dial(t, bridge, client.WithAPIKey(strings.TrimSpace(string(key))), client.WithAgent(client.Agent{ID: "lights"}))
	if _, err := c.ServeSkill(t.Context(), client.Skill{
		ID: "led-strip", Name: "LED strip", Description: "Light", Version: "1.0.0",
		Capabilities: []client.Capability{{ID: "dim", Handler: client.Handle(func(context.Context, *client.Invocation, struct{}) (int, error) { return 0, nil })}},
	}); err != nil {
		t.Fatal(err)
	}
	for _, words := range [][]string{
		{"agent.register", "agent_id=a b; rm", "type=end_agent"},
		{"agent.register", "agent_id=-x", "type=end_agent"},
		{"cap.declare", "cap_id=heating", "cap_name=Heating", "cap_desc=Warm", "skill_id=led-strip"},
	} {
		if _, stderr, code := run(t, bridge, append([]string{"call"}, words...)...); code != 0 {
			t.Fatal(words, stderr)
		}
	}
	for words, want := range map[string]string{
		"agent get l":                      "lights",
		"agent get agent_id=":              "agent_id=lights",
		"call agent.get agent_id=li":       "agent_id=lights",
		"skill invoke ":                    "led-strip",
		"skill provider add ":              "led-strip",
		"skill provider add led-strip ":    "lights",
		"skill provider add led-strip x ":  "",
		"cap remove ":                      "heating",
		"cap remove skill_id=led-strip ":   "heating",
		"cap remove skill_id=other ":       "",
		"agent get no":                     "",
		"agent get lights too ":            "",
		"agent get lights space_id=absent": "",
	} {
		got := complete(t, strings.Split(words, " ")...)
		offered := slices.DeleteFunc(got, func(word string) bool { return strings.HasSuffix(word, "=") })
		if strings.Join(offered, " ") != want {
			t.Errorf("%s: %q, want %q", words, got, want)
		}
	}
	if got := complete(t, "agent", "get", ""); !slices.Equal(got, []string{"lights", "space_id="}) {
		t.Errorf("agent get: %q", got)
	}
}
