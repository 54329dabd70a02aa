package policy

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aibridge/aibridge/internal/eventually"
)

func write(t *testing.T, path, text string) {
	t.Helper()
	beside := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(beside, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(beside, path); err != nil { // so that no half of it is seen
		t.Fatal(err)
	}
}

const bell = `permit (principal, action == Action::"skill:invoke", resource == Skill::"bell");`

func mayRing(e *Engine) bool { return allowed(e, lamp, "skill:invoke", "skill", "bell") }

func TestFilesAreFollowed(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "bell.cedar")
	write(t, path, bell)
	write(t, filepath.Join(dir, "notes.txt"), "not a policy")
	write(t, filepath.Join(dir, ".hidden.cedar"), "not a policy")
	var mu sync.Mutex
	var events []string
	e := newEngine(t, func(o *Options) {
		o.Notify = func(ev Event) {
			mu.Lock()
			defer mu.Unlock()
			events = append(events, ev.Name+" "+ev.Policy)
		}
	})
	files, err := OpenFiles(e, dir)
	if err != nil {
		t.Fatal(err)
	}
	if !mayRing(e) {
		t.Fatal("not in force at the start")
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- files.Run(ctx) }()

	write(t, path, strings.ReplaceAll(bell, "bell", "gong"))
	eventually.Holds(t, "a change is followed", func() bool { return !mayRing(e) })
	write(t, path, `permit (principal, action == Action::"skill:invok", resource);`)
	eventually.Holds(t, "a broken file is noticed", func() bool { return e.broken() == 1 })
	if !allowed(e, lamp, "skill:invoke", "skill", "gong") {
		t.Error("a broken file replaced a working one")
	}
	// The way careful programs write: aside, then renamed.
	write(t, filepath.Join(dir, "new"), bell)
	if err := os.Rename(filepath.Join(dir, "new"), path); err != nil {
		t.Fatal(err)
	}
	eventually.Holds(t, "a mended file is followed", func() bool { return mayRing(e) && e.broken() == 0 })
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	eventually.Holds(t, "a removed file is followed", func() bool { return !mayRing(e) })
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	mu.Lock()
	defer mu.Unlock()
	if all := strings.Join(events, ", "); !strings.Contains(all, "policy.broken bell.cedar") || !strings.Contains(all, "policy.removed bell.cedar") {
		t.Errorf("told %s", all)
	}
}

// TestARenamedFolderIsNoticedAtOnce is how a set of policies is replaced as a
// whole.
func TestARenamedFolderIsNoticedAtOnce(t *testing.T) {
	root := t.TempDir()
	folder := func(name string) string { return filepath.Join(root, name) }
	for name, text := range map[string]string{"policies": bell, "next": strings.ReplaceAll(bell, "bell", "gong")} {
		if err := os.Mkdir(folder(name), 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(folder(name), "p.cedar"), text)
	}
	e := newEngine(t)
	files, err := OpenFiles(e, folder("policies"))
	if err != nil {
		t.Fatal(err)
	}
	files.anyway = time.Hour // nothing is found by looking now and then
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- files.Run(ctx) }()
	rename := func(from, to string) {
		t.Helper()
		if err := os.Rename(folder(from), folder(to)); err != nil {
			t.Fatal(err)
		}
	}
	rename("policies", "old")
	rename("next", "policies")
	eventually.Holds(t, "the new folder is followed", func() bool { return !mayRing(e) })
	write(t, filepath.Join(folder("policies"), "p.cedar"), bell)
	eventually.Holds(t, "a file in it is followed", func() bool { return mayRing(e) })
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestABrokenFileAtTheStartIsAnError(t *testing.T) {
	path := filepath.Join(t.TempDir(), "p.cedar")
	write(t, path, "permit (principal);")
	if _, err := OpenFiles(newEngine(t), path); err == nil || !strings.Contains(err.Error(), "p.cedar") {
		t.Errorf("got %v", err)
	}
	if _, err := OpenFiles(newEngine(t), filepath.Join(t.TempDir(), "nowhere")); err == nil {
		t.Error("a missing file is none")
	}
}

func TestAFolderThatVanishesTakesNothingAway(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "policies")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "bell.cedar"), bell)
	e := newEngine(t)
	files, err := OpenFiles(e, dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	files.Reload()
	if !mayRing(e) {
		t.Error("the policies went with the folder")
	}
}

func TestSourcesDoNotHideEachOther(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "operator.cedar"), bell)
	e := newEngine(t)
	if _, err := OpenFiles(e, dir); err != nil {
		t.Fatal(err)
	}
	put(t, e, "operator.cedar", `forbid (principal, action == Action::"skill:invoke", resource == Skill::"bell");`)
	if mayRing(e) || !allowed(e, operator, "skill:invoke", "skill", "x") {
		t.Error("one source took the place of another")
	}
}
