package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestABridgeThatWasTamperedWithIsFound changes what a bridge has left on its disk,
// and has the program look at it. Untouched, all promises are kept.
func TestABridgeThatWasTamperedWithIsFound(t *testing.T) {
	data := t.TempDir()
	bridge := startBinary(t, data)
	for _, words := range [][]string{
		{"key", "create", "watcher", "--kind", "operator", "--role", "observer", "--name", "for the wall display"},
		{"key", "create", "eve", "--kind", "operator", "--role", "operator", "--space", "elsewhere"},
		{"call", "agent.register", "agent_id=lamp", "type=end_agent"},
		{"call", "agent.get", "agent_id=lamp"},
	} {
		if out, stderr, code := run(t, bridge, words...); code != 0 {
			t.Fatalf("%q: %s%s", words, out, stderr)
		}
	}
	bridge.stop(t)
	for name, seed := range map[string]struct {
		tamper func(t *testing.T, data string)
		broken []string
	}{
		"nothing": {func(*testing.T, string) {}, nil},
		"a byte of the trail": {func(t *testing.T, data string) {
			rewrite(t, firstOf(t, data, "evidence", "*.log"), func(text []byte) []byte {
				text[len(bytes.TrimRight(text, "\x00"))/2] ^= 1
				return text
			})
		}, []string{"audit trail"}},
		"the end of claims and trail": {func(t *testing.T, data string) {
			rewrite(t, firstOf(t, data, "evidence", "*.log"), func(text []byte) []byte {
				return text[:len(bytes.TrimRight(text, "\x00"))-100]
			})
		}, []string{"audit trail"}},
		"the whole trail": {func(t *testing.T, data string) {
			if err := os.RemoveAll(filepath.Join(data, "evidence")); err != nil {
				t.Fatal(err)
			}
		}, []string{"audit trail"}},
		"the right of a key": {func(t *testing.T, data string) {
			rewrite(t, registryOf(t, data), func(text []byte) []byte {
				return bytes.Replace(text, []byte(`"roles":["observer"]`), []byte(`"roles":["operator"]`), 1)
			})
		}, []string{"state"}},
		"the space of a key": {func(t *testing.T, data string) {
			rewrite(t, registryOf(t, data), func(text []byte) []byte {
				return bytes.Replace(text, []byte(`"elsewhere"`), []byte(`"default"  `), 1)
			})
		}, []string{"state"}},
		"a record of an agent": {func(t *testing.T, data string) {
			rewrite(t, registryOf(t, data), func(text []byte) []byte {
				return bytes.Replace(text, []byte(`"end_agent"`), []byte(`"mcp_agent"`), 1)
			})
		}, []string{"state"}},
	} {
		t.Run(name, func(t *testing.T) {
			copied := t.TempDir()
			if err := os.CopyFS(copied, os.DirFS(data)); err != nil {
				t.Fatal(err)
			}
			seed.tamper(t, copied)
			if broken, code := brokenAt(t, bridge, copied); !slices.Equal(broken, seed.broken) || (code == 0) != (seed.broken == nil) {
				t.Errorf("found %q, exit code %d", broken, code)
			}
		})
	}
}

// TestAPolicyThatLetsTooMuchIsFound stores policies that permit what the roles do not,
// as an administrator can. Spaces stay apart whatever a policy says.
func TestAPolicyThatLetsTooMuchIsFound(t *testing.T) {
	for name, seed := range map[string]struct {
		policy, text string
		broken       []string
	}{
		"everything":            {"all", `permit (principal, action, resource);`, []string{"rights"}},
		"devices for everybody": {"open-devices", `permit (principal, action == Action::"skill:invoke", resource);`, []string{"rights"}},
	} {
		t.Run(name, func(t *testing.T) {
			data := t.TempDir()
			bridge := startBinary(t, data)
			file := filepath.Join(t.TempDir(), "policy.json")
			text, err := json.Marshal(map[string]string{"name": seed.policy, "policy": seed.text})
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, text, 0o600); err != nil {
				t.Fatal(err)
			}
			if out, stderr, code := run(t, bridge, "call", "policy.put", "@"+file); code != 0 {
				t.Fatal(out, stderr)
			}
			bridge.stop(t)
			if broken, code := brokenAt(t, bridge, data); !slices.Equal(broken, seed.broken) || code != 1 {
				t.Errorf("found %q, exit code %d", broken, code)
			}
		})
	}
}

// brokenAt are the promises that the program finds broken on a data folder.
func brokenAt(t *testing.T, b *binary, data string) (names []string, code int) {
	t.Helper()
	out, stderr, code := runIn(t, b, data, "verify", "--json")
	var found struct {
		Promises []struct{ Promise, State, What string }
	}
	if err := json.Unmarshal([]byte(out), &found); err != nil {
		t.Fatalf("exit code %d: %s%s", code, out, stderr)
	}
	for _, p := range found.Promises {
		if p.State == "broken" {
			t.Logf("%s: %s", p.Promise, p.What)
			names = append(names, p.Promise)
		}
	}
	slices.Sort(names)
	return names, code
}

// firstOf is the first file with a pattern below a folder.
func firstOf(t *testing.T, folder ...string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder...))
	if err != nil || len(files) == 0 {
		t.Fatalf("%q has no file: %v", folder, err)
	}
	return files[0]
}

// registryOf is the file with the records of a bridge.
func registryOf(t *testing.T, data string) string {
	t.Helper()
	return firstOf(t, data, "nats", "state", "jetstream", "*", "streams", "KV_*-registry", "msgs", "1.blk")
}

// rewrite changes a file, and fails if that leaves it as it was.
func rewrite(t *testing.T, path string, change func([]byte) []byte) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	changed := change(bytes.Clone(text))
	if bytes.Equal(changed, text) {
		t.Fatalf("%s has nothing to be changed", filepath.Base(path))
	}
	if err := os.WriteFile(path, changed, 0o600); err != nil {
		t.Fatal(err)
	}
}
