package mirror

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/vfs/mirror/tree"
)

// A file at one end and a folder of the same name at the other: the folder
// stays, the file goes beside it, under every rule.
func TestAFolderStaysWhereAFileIs(t *testing.T) {
	for _, rule := range []Rule{RemoteWins, LocalWins, LatestWins, KeepBoth} {
		for _, large := range []bool{false, true} {
			content := "a file"
			if large {
				content = strings.Repeat("a file", smallFile)
			}
			t.Run(string(rule)+" file here", func(t *testing.T) {
				w := newWorld(t, func(o *Options) { o.Rule = rule })
				w.write("plan", content)
				w.vfs.set("plan/monday", "in a folder")
				w.vfs.set("plan/tuesday", "in a folder too")
				w.sync()
				w.sync() // sends the copy
				kept := loser(t, w, "plan")
				w.same(files("plan/monday", "in a folder", "plan/tuesday", "in a folder too", kept, content))
			})
			t.Run(string(rule)+" file there", func(t *testing.T) {
				w := newWorld(t, func(o *Options) { o.Rule = rule })
				w.vfs.set("plan", content)
				w.write("plan/deep/monday", "in a folder")
				w.sync()
				kept := loser(t, w, "plan")
				w.same(files("plan/deep/monday", "in a folder", kept, content))
			})
		}
	}
}

// loser is the only copy of the content that lost a conflict.
func loser(t *testing.T, w *world, path string) string {
	t.Helper()
	losers := w.engine.Losers()
	if len(losers) != 1 || losers[0].Path != path || losers[0].Rule != FolderStays || !strings.HasPrefix(losers[0].Winner.Path, path+"/") {
		t.Fatalf("losers %+v", losers)
	}
	if !strings.HasPrefix(losers[0].Kept, path+" (conflict ") {
		t.Errorf("kept as %q", losers[0].Kept)
	}
	return losers[0].Kept
}

// Who replaces a file by a folder, or a folder by a file, has no conflict.
func TestAFileBecomesAFolderAndBack(t *testing.T) {
	w := newWorld(t)
	w.write("plan", "a file")
	w.sync()
	w.removeHere("plan")
	w.write("plan/monday", "in a folder")
	w.sync()
	w.same(files("plan/monday", "in a folder"))
	w.vfs.remove("plan/monday")
	w.vfs.set("plan", "a file again")
	w.sync()
	w.same(files("plan", "a file again"))
	w.vfs.remove("plan")
	w.vfs.set("plan/deep/tuesday", "from there")
	w.sync()
	w.same(files("plan/deep/tuesday", "from there"))
	if err := os.RemoveAll(filepath.Join(w.dir, "plan")); err != nil {
		t.Fatal(err)
	}
	w.write("plan", "a file at last")
	w.sync()
	w.same(files("plan", "a file at last"))
	w.removeHere("plan")
	w.write("PLAN", "in capitals")
	w.sync()
	w.same(files("PLAN", "in capitals"))
	if losers := w.engine.Losers(); len(losers) != 0 {
		t.Errorf("conflicts: %+v", losers)
	}
}

// An empty folder is not mirrored, and not in the way.
func TestAnEmptyFolderMakesWay(t *testing.T) {
	w := newWorld(t)
	if err := os.MkdirAll(filepath.Join(w.dir, "plan/a/b"), 0o755); err != nil {
		t.Fatal(err)
	}
	w.vfs.set("plan", "a file")
	w.sync()
	w.same(files("plan", "a file"))
}

// What is not mirrored is never removed to make way, and the reason names both.
func TestWhatIsInTheWayIsNamed(t *testing.T) {
	w := newWorld(t)
	if err := os.MkdirAll(filepath.Join(w.dir, "plan"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc/hostname", filepath.Join(w.dir, "plan/link")); err != nil {
		t.Skip("no links here")
	}
	w.vfs.set("plan", "a file")
	w.write("Other", "from here")
	w.vfs.set("other", "from there")
	_ = w.engine.Sync(t.Context())
	if _, err := os.Lstat(filepath.Join(w.dir, "plan/link")); err != nil {
		t.Fatal(err)
	}
	for path, names := range map[string][]string{"plan": {`"plan"`, `"plan/"`}, "Other": {"Other", "other"}} {
		f, _ := w.engine.File(path)
		for _, name := range names {
			if f.Standing != Failed || !strings.Contains(f.Reason, name) {
				t.Errorf("%s: %+v, want %s named", path, f, name)
			}
		}
	}
	if got := w.here(); got["Other"] != "from here" || got["other"] != "from there" {
		t.Errorf("the folder has %v", got)
	}

	obstacle := new(tree.ObstacleError)
	if _, err := w.engine.Write(t.Context(), "Other/f", strings.NewReader("x")); protocol.CodeOf(err) != protocol.AlreadyExists {
		t.Errorf("a write below a file: %v", err)
	}
	if _, _, err := w.engine.folder.Open("Other/f"); !errors.As(err, &obstacle) || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file below a file: %v", err)
	}
}

// What a scan refused is said until it is gone, or mirrored after all.
func TestWhatAScanRefusedStaysRefused(t *testing.T) {
	w := newWorld(t)
	w.write("Plan", "one")
	w.write("plan", "the other")
	w.sync()
	refused := func() bool {
		f, ok := w.engine.File("plan")
		return ok && f.Standing == Failed
	}
	if !refused() {
		t.Fatalf("%+v", w.engine.Status())
	}
	w.vfs.set("other", "something to do")
	w.engine.work.add("plan")
	if err := w.engine.round(t.Context(), scope{}); err != nil || !refused() {
		t.Errorf("it is not said any more: %v", err)
	}
	w.removeHere("plan")
	if w.engine.Touch("plan"); refused() {
		t.Error("it is said of what is gone")
	}
	if err := os.Symlink("nowhere", filepath.Join(w.dir, "link")); err != nil {
		t.Skip(err)
	}
	w.sync()
	w.removeHere("link")
	w.write("link", "now a file")
	w.engine.Touch("link")
	if err := w.engine.round(t.Context(), scope{}); err != nil {
		t.Fatal(err)
	}
	if f, _ := w.engine.File("link"); f.Standing != Synced {
		t.Errorf("%+v", f)
	}
}

// While a file is refused because of another one's name, the folder is looked
// at more often: the other one may go.
func TestTwinsAreLookedAtAgain(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.RealTime, o.Rarely = true, time.Hour })
	watcher, err := NewWatcher(0, w.engine.o.Log)
	if err != nil {
		t.Skip(err)
	}
	defer watcher.Close()
	watch := watcher.Watch(w.dir, nil, func() {})
	defer watch.Close()
	w.write("Plan", "one")
	w.write("plan", "the other")
	w.sync()
	if wait := w.engine.interval(watch); wait > w.engine.o.Scan {
		t.Errorf("looked at after %s", wait)
	}
	w.removeHere("Plan")
	w.sync()
	w.sync()
	if wait := w.engine.interval(watch); wait <= w.engine.o.Interval {
		t.Errorf("still looked at after %s", wait)
	}
	w.same(files("plan", "the other"))
}
