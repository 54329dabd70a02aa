package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestPoliciesAreManagedFromTheCommandLine(t *testing.T) {
	bridge := startBinary(t, t.TempDir())
	do := func(want int, args ...string) string {
		t.Helper()
		out, stderr, code := run(t, bridge, args...)
		if code != want {
			t.Errorf("%s: exit code %d, want %d: %s%s", strings.Join(args, " "), code, want, out, stderr)
		}
		return out
	}
	file := filepath.Join(t.TempDir(), "doors.cedar")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	explain := []string{"policy", "explain", "--principal", "operator:anna", "--role", "operator", "--action", "skill:invoke", "--resource", "skill/front-door"}
	if out := do(0, explain...); !strings.HasPrefix(out, "allow: ") {
		t.Errorf("at first: %s", out)
	}
	write("forbid (principal, action, resource")
	if out := do(1, "policy", "validate", file); !strings.Contains(out, "valid") {
		t.Errorf("validate of what does not parse: %s", out)
	}
	do(1, "policy", "validate", "--json", file)
	if out := do(10, "policy", "put", "doors", file); strings.Contains(out, "revision") {
		t.Errorf("what does not parse was put: %s", out)
	}
	write(`@id("locked")
@why("the door has a key")
forbid (principal in Role::"operator", action == Action::"skill:invoke", resource == Skill::"front-door");
`)
	do(0, "policy", "validate", file)
	do(0, "policy", "put", "doors", file)
	out := do(0, explain...)
	if !strings.HasPrefix(out, "deny: ") || !strings.Contains(out, "forbid by doors/locked (stored, line 1)") || !strings.Contains(out, "# the door has a key") {
		t.Errorf("explained as %s", out)
	}
	if out := do(0, "policy", "show", "doors"); !strings.Contains(out, `resource == Skill::"front-door"`) {
		t.Errorf("shown as %s", out)
	}
	if out := do(0, "policy", "list", "--from", "stored"); !strings.Contains(out, "doors") {
		t.Errorf("listed as %s", out)
	}
	do(0, "policy", "remove", "doors")
	if out := do(0, explain...); !strings.HasPrefix(out, "allow: ") {
		t.Errorf("at last: %s", out)
	}
	do(2, "policy", "explain", "--role", "observer", "--action", "skill:invoke")
}

func TestAPolicyIsTriedFromTheCommandLine(t *testing.T) {
	bridge := startBinary(t, t.TempDir())
	do := func(want string, args ...string) {
		t.Helper()
		if out, stderr, _ := run(t, bridge, args...); !strings.Contains(out+stderr, want) {
			t.Errorf("%s: %s%s, want %q", strings.Join(args, " "), out, stderr, want)
		}
	}
	file := filepath.Join(t.TempDir(), "look.cedar")
	if err := os.WriteFile(file, []byte(`@id("blind") forbid (principal, action == Action::"skill:discover", resource);`), 0o600); err != nil {
		t.Fatal(err)
	}
	do("no policies are on trial", "policy", "report")
	do("trial:look", "policy", "put", "look", file, "--observe")
	do("nothing was decided otherwise", "policy", "report")
	do("total", "skill", "list")
	do("trial:look/blind", "policy", "report", "--outcome", "refuse")
	do("deny: trial:look/blind forbids it", "policy", "explain", "--action", "skill:discover", "--trial")
	do("look", "policy", "promote", "look")
	do("2003", "skill", "list")
}
