package webdav_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// program finds a foreign program, or skips the test.
func program(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("%s is not installed", name)
	}
	return path
}

// litmus is a suite of tests for servers. Properties of clients' own are not kept:
// its part about them is left out, and where it tries locks with one, three times,
// it is refused.
func TestLitmusAgrees(t *testing.T) {
	t.Parallel()
	path := program(t, "litmus")
	w := serve(t)
	w.must(201, "", "MKCOL", "/dav/suite", "")
	cmd := exec.CommandContext(t.Context(), path, "-k", w.URL+"/dav/suite/", "alice", "x")
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "TESTS=basic copymove locks http")
	out, err := cmd.CombinedOutput()
	text := string(bytes.ReplaceAll(out, []byte("\r"), []byte("\n")))
	text = strings.ReplaceAll(text, "FAIL (PROPPATCH on locked resouce", "refused (")
	if strings.Count(text, "refused (") != 3 || strings.Contains(text, "FAIL") || strings.Count(text, "<- summary for") != 4 {
		t.Errorf("%v\n%s", err, text) // its own exit code counts the refusals
	}
}

// rclone carries a tree there and back, changes it, and finds both sides equal.
func TestRcloneKeepsTreesEqual(t *testing.T) {
	t.Parallel()
	path := program(t, "rclone")
	w := serve(t)
	here := filepath.Join(t.TempDir(), "here")
	rclone := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), path, append([]string{"--config", "", "--retries", "1", "--low-level-retries", "1"}, args...)...)
		cmd.Env = append(os.Environ(), "RCLONE_CONFIG_DAV_TYPE=webdav", "RCLONE_CONFIG_DAV_VENDOR=owncloud", "RCLONE_CONFIG_DAV_URL="+w.URL+"/dav",
			"RCLONE_CONFIG_DAV_USER=alice", "RCLONE_CACHE_DIR="+filepath.Join(here, "..", "cache"))
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("rclone %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	write := func(name, content string) {
		t.Helper()
		file := filepath.Join(here, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, size := range map[string]int{"a": 1, "b/empty": 0, "b/c/d é ü": 3000, "b/large": 1 << 20, "b/c/100%": 7} {
		write(name, strings.Repeat("x", size))
	}
	rclone("sync", here, "dav:tree")
	rclone("check", "--download", here, "dav:tree")
	write("a", "changed")
	if err := os.Remove(filepath.Join(here, "b/empty")); err != nil {
		t.Fatal(err)
	}
	rclone("sync", here, "dav:tree")
	rclone("check", "--download", here, "dav:tree")
	if out := rclone("sync", "-v", here, "dav:tree"); !strings.Contains(out, "nothing to transfer") {
		t.Errorf("another sync: %s", out)
	}
	rclone("copy", "dav:tree", "dav:copy/of")
	rclone("moveto", "dav:copy/of/b/c", "dav:copy/c")
	rclone("check", "--download", filepath.Join(here, "b", "c"), "dav:copy/c")
	rclone("purge", "dav:copy")
	if out := rclone("lsf", "dav:"); out != "tree/\n" {
		t.Errorf("at the top is %q", out)
	}
	back := filepath.Join(here, "..", "back")
	rclone("copy", "dav:tree", back)
	rclone("check", here, back)
}
