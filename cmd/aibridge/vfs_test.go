package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/vfs"
)

// tool runs the real binary against a bridge and returns what it printed and
// its exit code.
func tool(t *testing.T, b *binary, stdin string, args ...string) (stdout string, code int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), b.path, args...)
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "AIBRIDGE_DATA="+b.data)
	cmd.Stdin = strings.NewReader(stdin)
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	err := cmd.Run()
	if exit := new(exec.ExitError); errors.As(err, &exit) {
		t.Logf("%v: %s", args, problems.String())
		return out.String(), exit.ExitCode()
	}
	if err != nil {
		t.Fatal(err)
	}
	return out.String(), 0
}

func TestFilesAreStoredListedFetchedAndDeletedFromTheCommandLine(t *testing.T) {
	bridge := startBinary(t, t.TempDir()) // with the administrator's key
	file := filepath.Join(t.TempDir(), "plan.txt")
	if err := os.WriteFile(file, []byte("21 degrees"), 0o600); err != nil {
		t.Fatal(err)
	}
	stored, code := tool(t, bridge, "", "vfs", "put", "--json", file, "plans/2026/week 1.txt")
	var put vfs.FileView
	if err := json.Unmarshal([]byte(stored), &put); err != nil || code != 0 || put.Size != 10 {
		t.Fatalf("put: %d %s", code, stored)
	}
	if _, code = tool(t, bridge, "22 degrees", "vfs", "put", "--new", "-", "plans/2026/week 1.txt"); code != 30 {
		t.Errorf("put of a new file where one is: exit code %d", code)
	}
	if _, code = tool(t, bridge, "22 degrees", "vfs", "put", "-", "plans/2026/week 1.txt"); code != 0 {
		t.Errorf("put from standard input: exit code %d", code)
	}
	for name, test := range map[string]struct {
		args []string
		want string
		code int
	}{
		"a list":                {[]string{"ls", "plans"}, "2026/week 1.txt", 0},
		"a list of a folder":    {[]string{"ls", "plans/2026/"}, "2026/week 1.txt", 0},
		"a list of nothing":     {[]string{"ls", "plans/2025"}, "none", 0},
		"the current version":   {[]string{"get", "plans/2026/week 1.txt", "-"}, "22 degrees", 0},
		"a version before":      {[]string{"get", "--version", jsonNumber(put.Version), "plans/2026/week 1.txt", "-"}, "21 degrees", 0},
		"no such file":          {[]string{"get", "plans/2025", "-"}, "", 40},
		"no such version":       {[]string{"get", "--version", "7", "plans/2026/week 1.txt", "-"}, "", 40},
		"a way out":             {[]string{"get", "plans/../../etc/passwd", "-"}, "", 10},
		"a group alone":         {[]string{"get", "plans", "-"}, "", 2},
		"a folder to fetch to":  {[]string{"get", "plans/2026/week 1.txt", "/"}, "", 2},
		"what is no file":       {[]string{"put", "/dev/null", "plans/x"}, "", 2},
		"a wrong version":       {[]string{"rm", "--if-version", "7", "plans/2026/week 1.txt"}, "", 30},
		"the status of no Cap":  {[]string{"status", "nothing"}, "", 30},
		"syncing of no Cap":     {[]string{"sync", "nothing"}, "", 30},
		"an address that is no": {[]string{"ls", "--http-url", "ftp://example", "plans"}, "", 2},
	} {
		out, code := tool(t, bridge, "", append([]string{"vfs"}, test.args...)...)
		if code != test.code || !strings.Contains(out, test.want) {
			t.Errorf("%s: exit code %d, %s", name, code, out)
		}
	}
	if out, code := tool(t, bridge, "", "vfs", "rm", "plans/2026/week 1.txt"); code != 0 {
		t.Errorf("rm: %d %s", code, out)
	}
	if out, _ := tool(t, bridge, "", "vfs", "ls", "plans"); strings.Contains(out, "week") {
		t.Errorf("still there: %s", out)
	}
	if out, _ := tool(t, bridge, "", "vfs", "ls", "--deleted", "plans"); !strings.Contains(out, "week") {
		t.Errorf("not remembered: %s", out)
	}
	to := filepath.Join(t.TempDir(), "fetched")
	if _, code := tool(t, bridge, "", "vfs", "get", "--version", jsonNumber(put.Version), "plans/2026/week 1.txt", to); code != 0 {
		t.Errorf("a version of a deleted file: exit code %d", code)
	}
	if data, err := os.ReadFile(to); err != nil || string(data) != "21 degrees" {
		t.Errorf("fetched %q, %v", data, err)
	}
}

func jsonNumber(n uint64) string {
	text, _ := json.Marshal(n)
	return string(text)
}
