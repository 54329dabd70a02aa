package skill

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/internal/leaks"
	"github.com/aibridge/aibridge/protocol"
)

func TestMain(m *testing.M) { leaks.Verify(m) }

// skills is a directory of skill folders in the making.
type skills struct {
	t   *testing.T
	dir string
	log bytes.Buffer
	lib *Library
}

func newSkills(t *testing.T) *skills {
	s := &skills{t: t, dir: t.TempDir()}
	s.lib = NewLibrary(s.dir, slog.New(slog.NewTextHandler(&s.log, nil)))
	return s
}

func (s *skills) write(name, text string) {
	s.t.Helper()
	write(s.t, filepath.Join(s.dir, name), text, 0o644)
}

func write(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	beside := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(beside, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(beside, mode); err != nil { // whatever the umask
		t.Fatal(err)
	}
	if err := os.Rename(beside, path); err != nil { // so that no half of it is seen
		t.Fatal(err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// scan says what changed, "+a ~b -c".
func (s *skills) scan() string {
	s.t.Helper()
	c, err := s.lib.Scan()
	must(s.t, err)
	return summary(c)
}

func summary(c Changes) string {
	words := make([]string, 0, len(c.Added)+len(c.Changed)+len(c.Removed))
	for _, a := range c.Added {
		words = append(words, "+"+string(a.ID))
	}
	for _, a := range c.Changed {
		words = append(words, "~"+string(a.ID))
	}
	for _, id := range c.Removed {
		words = append(words, "-"+string(id))
	}
	return strings.Join(words, " ")
}

func (s *skills) served() string {
	all := s.lib.Skills()
	ids := make([]string, 0, len(all))
	for _, k := range all {
		ids = append(ids, string(k.ID)+"@"+filepath.Base(k.Dir))
	}
	return strings.Join(ids, " ")
}

func (s *skills) expect(what, got, want string) {
	s.t.Helper()
	if got != want {
		s.t.Errorf("%s: got %q, want %q\nlog: %s", what, got, want, s.log.String())
	}
}

func skillYAML(id, description string) string {
	return manifest("{id: "+id+", name: N, version: 1.0.0, description: "+description+"}", goodSpec)
}

func TestAScanTellsWhatIsNewDifferentAndGone(t *testing.T) {
	t.Parallel()
	s := newSkills(t)
	s.write("README.md", "not a skill")
	s.write("empty/notes.txt", "not a skill either")
	s.write(".hidden/skill.yaml", skillYAML("hidden", "D"))
	s.write("a/skill.yaml", skillYAML("a", "D"))
	s.write("b/skill.yaml", skillYAML("b", "D"))
	s.expect("first scan", s.scan(), "+a +b")
	s.expect("second scan", s.scan(), "")
	s.write("a/skill.yaml", skillYAML("a", "E"))
	s.write("c/skill.yaml", skillYAML("c", "D"))
	must(t, os.RemoveAll(filepath.Join(s.dir, "b")))
	s.expect("third scan", s.scan(), "+c ~a -b")
	s.write("a/skill.yaml", skillYAML("z", "E"))
	must(t, os.Remove(filepath.Join(s.dir, "c", "skill.yaml")))
	s.expect("an id changes and a skill.yaml goes", s.scan(), "+z -a -c")
	s.expect("served", s.served(), "z@a")
	if s.log.Len() > 0 {
		t.Errorf("logged: %s", s.log.String())
	}
}

func TestABrokenSkillKeepsItsLastGoodVersionAndIsLoggedOnce(t *testing.T) {
	t.Parallel()
	s := newSkills(t)
	s.write("a/skill.yaml", skillYAML("a", "D"))
	s.write("never/skill.yaml", "kind: [")
	s.expect("first scan", s.scan(), "+a")
	s.write("a/skill.yaml", "apiVersion: nonsense")
	for range 3 {
		s.expect("broken", s.scan(), "")
	}
	s.expect("served", s.served(), "a@a")
	if n := strings.Count(s.log.String(), "level=WARN"); n != 2 {
		t.Errorf("%d warnings: %s", n, s.log.String())
	}
	if !strings.Contains(s.log.String(), "a/skill.yaml:1: apiVersion: must be") {
		t.Errorf("the log does not say what is wrong: %s", s.log.String())
	}
	s.write("a/skill.yaml", skillYAML("a", "mended"))
	s.expect("mended", s.scan(), "~a")
	s.write("a/skill.yaml", "apiVersion: nonsense")
	s.scan()
	if n := strings.Count(s.log.String(), "level=WARN"); n != 3 {
		t.Errorf("broken again, %d warnings", n)
	}
	must(t, os.RemoveAll(filepath.Join(s.dir, "a")))
	s.expect("a broken skill is removed", s.scan(), "-a")
}

func TestAnIDIsServedFromOneFolder(t *testing.T) {
	t.Parallel()
	s := newSkills(t)
	s.write("first/skill.yaml", skillYAML("x", "D"))
	s.write("second/skill.yaml", skillYAML("x", "E"))
	s.expect("first scan", s.scan(), "+x")
	s.expect("served", s.served(), "x@first")
	s.scan()
	if n := strings.Count(s.log.String(), `already served from first`); n != 1 {
		t.Errorf("logged %d times: %s", n, s.log.String())
	}
	s.write("a-newcomer/skill.yaml", skillYAML("x", "F"))
	s.expect("who has it keeps it", s.scan(), "")
	must(t, os.RemoveAll(filepath.Join(s.dir, "first")))
	s.expect("the next takes over", s.scan(), "~x")
	s.expect("served", s.served(), "x@a-newcomer")
	must(t, os.Rename(filepath.Join(s.dir, "a-newcomer"), filepath.Join(s.dir, "zz")))
	s.expect("a rename gives way", s.scan(), "~x")
	s.expect("served", s.served(), "x@second")
}

func TestTwoFoldersMaySwapTheirIDs(t *testing.T) {
	t.Parallel()
	s := newSkills(t)
	s.write("a/skill.yaml", skillYAML("x", "D"))
	s.write("b/skill.yaml", skillYAML("y", "D"))
	s.expect("first scan", s.scan(), "+x +y")
	s.write("a/skill.yaml", skillYAML("y", "D"))
	s.write("b/skill.yaml", skillYAML("x", "D"))
	s.expect("swapped", s.scan(), "~x ~y")
	s.expect("served", s.served(), "x@b y@a")
}

func TestATakenIDLeavesTheLastGoodVersion(t *testing.T) {
	t.Parallel()
	s := newSkills(t)
	s.write("a/skill.yaml", skillYAML("x", "D"))
	s.write("b/skill.yaml", skillYAML("y", "D"))
	s.scan()
	s.write("b/skill.yaml", skillYAML("x", "D"))
	s.expect("taken", s.scan(), "")
	s.expect("served", s.served(), "x@a y@b")
}

func TestLinksThatLeaveAreRefused(t *testing.T) {
	t.Parallel()
	outside := t.TempDir()
	write(t, filepath.Join(outside, "skill.yaml"), skillYAML("outside", "D"), 0o644)
	s := newSkills(t)
	s.write("inside/skill.yaml", skillYAML("inside", "D"))
	must(t, os.Symlink(outside, filepath.Join(s.dir, "folder")))
	must(t, os.MkdirAll(filepath.Join(s.dir, "file"), 0o755))
	must(t, os.Symlink(filepath.Join(outside, "skill.yaml"), filepath.Join(s.dir, "file", "skill.yaml")))
	must(t, os.Symlink("nowhere", filepath.Join(s.dir, "dangling")))
	s.expect("scan", s.scan(), "+inside")
	for _, want := range []string{"file/skill.yaml: is a link that leads outside", "folder/skill.yaml: is a link that leads outside"} {
		if !strings.Contains(s.log.String(), want) {
			t.Errorf("the log lacks %q: %s", want, s.log.String())
		}
	}
}

func TestLinksWithinAreFollowed(t *testing.T) {
	t.Parallel()
	s := newSkills(t)
	// As a volume mounted from a cluster's configuration looks.
	s.write("a/..v1/skill.yaml", skillYAML("a", "D"))
	must(t, os.Symlink("..v1", filepath.Join(s.dir, "a", "..data")))
	must(t, os.Symlink("..data/skill.yaml", filepath.Join(s.dir, "a", "skill.yaml")))
	s.expect("scan", s.scan(), "+a")
	s.write("a/..v2/skill.yaml", skillYAML("a", "E"))
	must(t, os.Symlink("..v2", filepath.Join(s.dir, "a", "..new")))
	must(t, os.Rename(filepath.Join(s.dir, "a", "..new"), filepath.Join(s.dir, "a", "..data")))
	s.expect("after the swap", s.scan(), "~a")
}

func TestAPipeInAFilesPlaceDoesNotBlock(t *testing.T) {
	t.Parallel()
	s := newSkills(t)
	must(t, os.MkdirAll(filepath.Join(s.dir, "a"), 0o755))
	mkfifo(t, filepath.Join(s.dir, "a", "skill.yaml"))
	s.expect("scan", s.scan(), "")
	if !strings.Contains(s.log.String(), "a/skill.yaml: is not a regular file") {
		t.Errorf("log: %s", s.log.String())
	}
}

func TestALostDirectoryLosesNoSkills(t *testing.T) {
	t.Parallel()
	s := newSkills(t)
	s.write("a/skill.yaml", skillYAML("a", "D"))
	s.scan()
	must(t, os.Rename(s.dir, s.dir+".away"))
	if _, err := s.lib.Scan(); err == nil {
		t.Error("the loss is not told")
	}
	s.expect("served", s.served(), "a@a")
	must(t, os.Rename(s.dir+".away", s.dir))
	s.expect("back", s.scan(), "")
}

func TestDocumentsAndResourcesAreReadOnDemand(t *testing.T) {
	t.Parallel()
	s := newSkills(t)
	s.write("a/skill.yaml", skillYAML("a", "D"))
	s.write("a/SKILL.md", "# How to")
	s.write("a/resources/deep/table.csv", "1,2")
	s.write("a/resources/list.txt", "x")
	s.write("a/scripts/c.sh", "secret")
	s.write("a/resources/big", strings.Repeat("x", MaxDocument+1))
	must(t, os.Symlink("/etc/passwd", filepath.Join(s.dir, "a", "resources", "users")))
	s.scan()
	k := s.lib.Skills()[0]
	for name, want := range map[string]string{"SKILL.md": "# How to", "resources/deep/table.csv": "1,2"} {
		d, err := k.Read(name)
		if err != nil || string(d.Data) != want || d.Path != name || d.Hash == [32]byte{} {
			t.Errorf("%s: %+v, %v", name, d, err)
		}
	}
	for name, want := range map[string]protocol.Code{
		"resources/none":            protocol.NotFound,
		"resources":                 protocol.InvalidParameter,
		"resources/":                protocol.InvalidParameter,
		"resources/../scripts/c.sh": protocol.InvalidParameter,
		"scripts/c.sh":              protocol.InvalidParameter,
		"skill.yaml":                protocol.InvalidParameter,
		"/etc/passwd":               protocol.InvalidParameter,
		"../a/SKILL.md":             protocol.InvalidParameter,
		"":                          protocol.InvalidParameter,
		"resources/users":           protocol.TargetUnavailable,
		"resources/deep":            protocol.TargetUnavailable,
		"resources/big":             protocol.TargetUnavailable,
	} {
		if _, err := k.Read(name); protocol.CodeOf(err) != want {
			t.Errorf("%q: %v, want %s", name, err, want)
		}
	}
	names, err := k.Resources()
	if want := []string{"resources/big", "resources/deep/table.csv", "resources/list.txt"}; err != nil || !slices.Equal(names, want) {
		t.Errorf("resources: %v, %v", names, err)
	}
	if !k.Documented {
		t.Error("it counts as undocumented")
	}
	must(t, os.Remove(filepath.Join(s.dir, "a", "SKILL.md")))
	s.expect("without its document", s.scan(), "~a")
	if s.lib.Skills()[0].Documented || !k.Documented {
		t.Error("it counts as documented, or an earlier Skill was changed")
	}
}

func TestASkillWithoutResourcesHasAnEmptyList(t *testing.T) {
	t.Parallel()
	s := newSkills(t)
	s.write("a/skill.yaml", skillYAML("a", "D"))
	k, err := Load(filepath.Join(s.dir, "a"))
	must(t, err)
	if names, err := k.Resources(); err != nil || names == nil || len(names) > 0 {
		t.Errorf("%v, %v", names, err)
	}
}

func TestScriptsAreFoundByCapability(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "a")
	ids := []string{"plain", "both", "sh", "sh-plain", "sh-bare", "off", "missing", "dir", "out"}
	var caps strings.Builder
	for _, id := range ids {
		caps.WriteString("{id: " + id + "},")
	}
	write(t, filepath.Join(dir, "skill.yaml"), manifest(goodMetadata, "{capabilities: ["+caps.String()+"]}"), 0o644)
	script := func(name, text string, mode os.FileMode) { write(t, filepath.Join(dir, "scripts", name), text, mode) }
	script("plain", "#!/bin/sh\n", 0o755)
	script("both", "#!/bin/sh\n", 0o755)
	script("both.sh", "#!/bin/sh\n", 0o755)
	script("sh.sh", "#!/bin/sh\n", 0o755)
	script("sh-plain.sh", "#!/bin/sh\n", 0o644)
	script("sh-bare.sh", "echo {}\n", 0o755)
	script("off", "#!/bin/sh\n", 0o644)
	script("undeclared", "#!/bin/sh\n", 0o755)
	must(t, os.MkdirAll(filepath.Join(dir, "scripts", "dir"), 0o755))
	must(t, os.Symlink("/bin/true", filepath.Join(dir, "scripts", "out")))
	k, err := Load(dir)
	must(t, err)
	for id, want := range map[string]Script{
		"plain":    {Path: "scripts/plain"},
		"both":     {Path: "scripts/both"},
		"sh":       {Path: "scripts/sh.sh"},
		"sh-plain": {Path: "scripts/sh-plain.sh", Shell: true},
		"sh-bare":  {Path: "scripts/sh-bare.sh", Shell: true},
	} {
		if got, err := k.Script(protocol.CapabilityID(id)); err != nil || got != want {
			t.Errorf("%s: %+v, %v", id, got, err)
		}
	}
	for id, want := range map[string]string{
		"off":        "4006: scripts/off is not executable: chmod +x it, or name it scripts/off.sh",
		"missing":    "4006: the capability missing has no script: neither scripts/missing nor scripts/missing.sh exists",
		"dir":        "4006: scripts/dir is not a regular file",
		"out":        "4006: scripts/out is a link that leads outside",
		"undeclared": "3001: the skill a has no capability undeclared",
		"../x":       "3001: the skill a has no capability ../x",
	} {
		if _, err := k.Script(protocol.CapabilityID(id)); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", id, err, want)
		}
	}
}

// observed gathers what Watch tells.
type observed struct {
	mu   sync.Mutex
	seen []string
}

func (o *observed) apply(c Changes) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.seen = append(o.seen, summary(c))
}

func (o *observed) await(t *testing.T, want ...string) {
	t.Helper()
	var seen []string
	for end := time.Now().Add(eventually.Patience); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		o.mu.Lock()
		seen = slices.Clone(o.seen)
		o.mu.Unlock()
		if slices.Equal(seen, want) {
			return
		}
	}
	t.Fatalf("saw %q, want %q", seen, want)
}

func TestWatchSeesChangesWithoutWaitingForARescan(t *testing.T) {
	t.Parallel()
	s := newSkills(t)
	s.write("a/skill.yaml", skillYAML("a", "D"))
	ctx, cancel := context.WithCancel(t.Context())
	var o observed
	done := make(chan error, 1)
	go func() {
		done <- s.lib.Watch(ctx, WatchOptions{Debounce: 20 * time.Millisecond, Rescan: time.Hour}, o.apply)
	}()
	defer func() {
		cancel()
		must(t, <-done)
	}()
	o.await(t, "+a")
	s.write("a/skill.yaml", skillYAML("a", "E"))
	o.await(t, "+a", "~a")
	must(t, os.MkdirAll(filepath.Join(s.dir, "b"), 0o755))
	s.write("b/skill.yaml", skillYAML("b", "D"))
	o.await(t, "+a", "~a", "+b")
	// As editors save: write beside, rename over.
	s.write("b/.skill.yaml.swp", skillYAML("b", "E"))
	must(t, os.Rename(filepath.Join(s.dir, "b", ".skill.yaml.swp"), filepath.Join(s.dir, "b", "skill.yaml")))
	o.await(t, "+a", "~a", "+b", "~b")
	must(t, os.RemoveAll(filepath.Join(s.dir, "a")))
	o.await(t, "+a", "~a", "+b", "~b", "-a")
	s.write("b/SKILL.md", "# B")
	o.await(t, "+a", "~a", "+b", "~b", "-a", "~b")
}

func TestWatchFindsByRescanWhatNobodyTells(t *testing.T) {
	t.Parallel()
	s := newSkills(t)
	s.write("a/skill.yaml", skillYAML("a", "D"))
	first := s.dir
	s.dir = filepath.Join(t.TempDir(), "skills")
	must(t, os.Symlink(first, s.dir))
	s.lib = NewLibrary(s.dir, slog.New(slog.NewTextHandler(&s.log, nil)))
	ctx, cancel := context.WithCancel(t.Context())
	var o observed
	done := make(chan error, 1)
	go func() {
		done <- s.lib.Watch(ctx, WatchOptions{Debounce: 5 * time.Millisecond, Rescan: 20 * time.Millisecond}, o.apply)
	}()
	defer func() {
		cancel()
		must(t, <-done)
	}()
	o.await(t, "+a")
	// The directory is another one now: the notifications are of the old.
	other := t.TempDir()
	write(t, filepath.Join(other, "b", "skill.yaml"), skillYAML("b", "D"), 0o644)
	must(t, os.Symlink(other, s.dir+"~"))
	must(t, os.Rename(s.dir+"~", s.dir)) // at once: there always is one
	o.await(t, "+a", "+b -a")
}

func TestWatchNeedsTheDirectoryAtTheStart(t *testing.T) {
	t.Parallel()
	lib := NewLibrary(filepath.Join(t.TempDir(), "none"), slog.New(slog.DiscardHandler))
	if err := lib.Watch(t.Context(), WatchOptions{}, func(Changes) {}); err == nil || !strings.Contains(err.Error(), "open the skills directory") {
		t.Errorf("got %v", err)
	}
}
