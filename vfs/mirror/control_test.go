package mirror

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/vfs/mirror/tree"
)

func TestPatternsOfIgnoredFiles(t *testing.T) {
	for _, c := range []struct {
		patterns      string
		ignored, kept []string
	}{
		{"*.tmp", []string{"a.tmp", "d/e/a.tmp"}, []string{"a.tmpx", "tmp"}},
		{"build/", []string{"build/a", "d/build/e/f"}, []string{"build", "rebuild/a"}},
		{"/top", []string{"top", "top/a"}, []string{"d/top"}},
		{"d/*.log", []string{"d/a.log"}, []string{"a.log", "d/e/a.log", "x/d/a.log"}},
		{"d/**/z", []string{"d/z", "d/a/z", "d/a/b/z/y"}, []string{"z", "d/a"}},
		{"**/node_modules/", []string{"node_modules/a", "a/b/node_modules/c"}, []string{"node_modules"}},
		{"cache/**", []string{"cache/a", "cache/b/c"}, []string{"cache", "a/cache/b"}},
		{"*.log\n!keep.log", []string{"a.log"}, []string{"keep.log", "d/keep.log"}},
		{"logs/\n!logs/keep", []string{"logs/a", "logs/keep"}, nil},
		{"# comment\n\n   \n[bad\n\\#odd\n\\!odd", []string{"#odd", "!odd"}, []string{"[bad", "# comment"}},
		{"*", []string{"a", "d/e"}, []string{IgnoreFile}},
		{"**/**/a/**/**/b", []string{"a/b", "x/a/y/z/b"}, []string{"b", "a", "a/c"}},
	} {
		p := parsePatterns("", []byte(c.patterns))
		inside := parsePatterns("disk/", []byte(c.patterns))
		for _, path := range c.ignored {
			if !p.match(path) || !inside.match("disk/"+path) {
				t.Errorf("%q does not ignore %s", c.patterns, path)
			}
		}
		for _, path := range c.kept {
			if p.match(path) || inside.match("disk/"+path) {
				t.Errorf("%q ignores %s", c.patterns, path)
			}
		}
		if inside.match("other/a.tmp") {
			t.Errorf("%q ignores what is in another folder", c.patterns)
		}
	}
}

// What is ignored stays where it is at both ends, and is mirrored as soon as it
// is not ignored any more.
func TestIgnoredFilesStayWhereTheyAre(t *testing.T) {
	w := newWorld(t)
	w.write("old.tmp", "mirrored before")
	w.write("both", "both")
	w.sync()
	w.write(IgnoreFile, "*.tmp\n/link\n")
	w.write("here.tmp", "only here")
	w.vfs.set("there.tmp", "only there")
	if err := os.Symlink("nowhere", filepath.Join(w.dir, "link")); err != nil {
		t.Fatal(err)
	}
	w.removeHere("old.tmp")
	w.sync()
	if st := w.engine.Status(); st.Standing != Synced || st.Failed+st.Pending != 0 {
		t.Errorf("%+v", st)
	}
	if _, there := w.vfs.content("here.tmp"); there {
		t.Error("an ignored file was sent")
	}
	if _, there := w.vfs.content("old.tmp"); !there {
		t.Error("an ignored file was deleted there")
	}
	if here := w.here(); here["there.tmp"] != "" || here["here.tmp"] == "" {
		t.Errorf("here %v", here)
	}
	if _, err := w.engine.Write(t.Context(), "x.tmp", strings.NewReader("x")); protocol.CodeOf(err) != protocol.InvalidParameter {
		t.Errorf("a write of an ignored file: %v", err)
	}
	w.removeHere("link")
	w.removeHere(IgnoreFile)
	w.sync()
	w.same(files("both", "both", "here.tmp", "only here", "there.tmp", "only there"))
}

// Patterns that come from the VFS hold before other files are fetched.
func TestPatternsComeFirst(t *testing.T) {
	w := newWorld(t)
	w.vfs.set(IgnoreFile, "*.tmp")
	w.vfs.set("a.tmp", "ignored")
	w.vfs.set("z", "mirrored")
	w.sync()
	if here := w.here(); here["a.tmp"] != "" || here["z"] != "mirrored" {
		t.Errorf("here %v", here)
	}
}

func TestAPausedMirrorCarriesNothingOver(t *testing.T) {
	w := newWorld(t)
	w.write("f", "first")
	w.sync()
	if err := w.engine.Pause(); err != nil {
		t.Fatal(err)
	}
	w.restart()
	w.write("f", "second")
	w.vfs.set("g", "from there")
	if err := w.engine.Sync(t.Context()); !errors.Is(err, errPaused) {
		t.Errorf("sync: %v", err)
	}
	if st, err := w.engine.Write(t.Context(), "h", strings.NewReader("written")); err != nil || st.Standing != Pending {
		t.Errorf("write: %+v, %v", st, err)
	}
	if st, err := w.engine.SyncNow(t.Context(), "f"); err != nil || st.Standing != Pending {
		t.Errorf("sync of a file: %+v, %v", st, err)
	}
	if next := w.engine.Turn(t.Context()); time.Until(next) < time.Second {
		t.Errorf("the next turn is in %s", time.Until(next))
	}
	if there := w.vfs.all(); there["f"] != "first" || there["h"] != "" || w.here()["g"] != "" {
		t.Errorf("there %v, here %v", there, w.here())
	}
	if st := w.engine.Status(); !st.Paused || st.Standing != Pending || st.Pending != 2 {
		t.Errorf("%+v", st)
	}
	if err := w.engine.Resume(); err != nil {
		t.Fatal(err)
	}
	w.engine.Turn(t.Context())
	w.same(files("f", "second", "g", "from there", "h", "written"))
}

// A change that size and times do not tell of is found by reading.
func TestARescanReadsContents(t *testing.T) {
	w := newWorld(t)
	w.write("f", "before")
	w.sync()
	known := w.engine.state.get("f")
	w.write("f", "behind")
	stamp, err := w.engine.folder.Stat("f")
	if err != nil {
		t.Fatal(err)
	}
	// As if size and times were what they had been.
	known.print.stamp, known.print.read = stamp, known.print.read+int64(time.Hour)
	if err := w.engine.state.setPrint("f", known); err != nil {
		t.Fatal(err)
	}
	w.sync()
	if got, _ := w.vfs.content("f"); got != "before" {
		t.Skip("it was noticed anyway")
	}
	if err := w.engine.Rescan(true); err != nil {
		t.Fatal(err)
	}
	w.engine.Turn(t.Context())
	w.same(files("f", "behind"))
}

func TestALostCopyIsRestored(t *testing.T) {
	for _, rule := range []Rule{RemoteWins, LocalWins, KeepBoth} {
		w := newWorld(t, func(o *Options) { o.Rule = rule })
		w.write("f", "here")
		w.vfs.set("f", "there")
		w.sync()
		w.sync() // sends the copy of keep_both
		l := w.engine.Losers()[0]
		if _, err := w.engine.Restore(t.Context(), "f", Sum{1}); protocol.CodeOf(err) != protocol.FileNotFound {
			t.Errorf("%s: what never was: %v", rule, err)
		}
		winner := w.here()["f"]
		if st, err := w.engine.Restore(t.Context(), "f", l.SHA256); err != nil || st.Standing == Failed {
			t.Fatalf("%s: %+v, %v", rule, st, err)
		}
		got, _ := w.vfs.content("f")
		if sha256.Sum256([]byte(got)) != l.SHA256 || w.here()["f"] != got {
			t.Errorf("%s: restored %q, here %q", rule, got, w.here()["f"])
		}
		// What it replaced is kept in turn.
		if _, err := w.engine.Restore(t.Context(), "f", sha256.Sum256([]byte(winner))); err != nil || w.here()["f"] != winner {
			t.Errorf("%s: %q, %v", rule, w.here()["f"], err)
		}
	}
}

// Kept copies go when they are too old, and the oldest when they are too many;
// the conflicts that they lost are forgotten with them.
func TestKeptCopiesAreBounded(t *testing.T) {
	now := time.Now()
	w := newWorld(t, func(o *Options) {
		o.Now = func() time.Time { return now }
		o.KeepBytes = 25
	})
	sums := make(map[string]string)
	for i, name := range []string{"a", "b", "c"} {
		content := strings.Repeat(name, 10)
		w.write(name, content)
		w.vfs.set(name, "there "+name)
		w.sync()
		sum := sha256.Sum256([]byte(content))
		sums[name] = hex.EncodeToString(sum[:])
		at := now.Add(time.Duration(i-3) * 24 * time.Hour)
		if err := os.Chtimes(filepath.Join(w.dir, tree.Private, "versions", sums[name]), at, at); err != nil {
			t.Fatal(err)
		}
	}
	kept := func() (list string) {
		for _, name := range []string{"a", "b", "c"} {
			if _, err := os.Stat(filepath.Join(w.dir, tree.Private, "versions", sums[name])); err == nil {
				list += name
			}
		}
		for _, l := range w.engine.Losers() {
			list += " " + l.Path
		}
		return list
	}
	now = now.Add(2 * trimEvery)
	w.sync()
	if got := kept(); got != "bc b c" {
		t.Errorf("kept %q", got)
	}
	w.restart()
	now = now.Add(w.engine.o.KeepAge - 36*time.Hour)
	w.sync()
	if got := kept(); got != "c c" {
		t.Errorf("kept %q", got)
	}
}
