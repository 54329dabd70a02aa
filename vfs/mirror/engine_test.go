package mirror

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/vfs/mirror/tree"
)

func TestFilesTravelBothWays(t *testing.T) {
	w := newWorld(t)
	w.write("a.txt", "from here")
	w.write("deep/er/b.txt", "from here too")
	w.write("large.bin", strings.Repeat("0123456789", 100_000))
	w.vfs.set("c.txt", "from there")
	w.sync()
	w.same(files("a.txt", "from here", "deep/er/b.txt", "from here too", "c.txt", "from there",
		"large.bin", strings.Repeat("0123456789", 100_000)))

	w.write("a.txt", "changed here")
	w.vfs.set("c.txt", "changed there")
	w.removeHere("deep/er/b.txt")
	w.vfs.remove("large.bin")
	w.sync()
	w.same(files("a.txt", "changed here", "c.txt", "changed there"))
}

func TestNothingTravelsTwice(t *testing.T) {
	w := newWorld(t)
	w.write("a.txt", "a")
	w.write("b.bin", strings.Repeat("b", smallFile+1))
	w.sync()
	sent, puts := w.vfs.sent, w.vfs.count("put")+w.vfs.count("batch")
	w.sync()
	w.restart()
	w.sync()
	if w.vfs.sent != sent || w.vfs.count("put")+w.vfs.count("batch") != puts || w.vfs.count("open") != 0 {
		t.Errorf("sent %d bytes in %d puts, and opened %d, want %d in %d and 0", w.vfs.sent,
			w.vfs.count("put")+w.vfs.count("batch"), w.vfs.count("open"), sent, puts)
	}
}

func TestSameContentAtBothEndsIsNoConflict(t *testing.T) {
	w := newWorld(t)
	w.write("a.txt", "the same")
	w.vfs.set("a.txt", "the same")
	w.sync()
	w.same(files("a.txt", "the same"))
	if n := len(w.engine.Losers()); n != 0 {
		t.Errorf("%d conflicts, want none", n)
	}
}

func TestAVFSThatLostEverythingIsFilledAgain(t *testing.T) {
	for name, instance := range map[string]string{"says so": "two", "does not say so": "one"} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.write("a.txt", "a")
			w.write("b/c.txt", "c")
			w.sync()
			w.vfs.wipe(instance)
			w.sync()
			w.same(files("a.txt", "a", "b/c.txt", "c"))
		})
	}
}

func TestDeletionsBeforeTheLossStayDeletions(t *testing.T) {
	w := newWorld(t)
	w.write("a.txt", "a")
	w.write("b.txt", "b")
	w.sync()
	w.removeHere("b.txt")
	w.vfs.wipe("two")
	w.sync()
	w.same(files("a.txt", "a"))
}

func TestAFolderThatLostItsStateIsFilledAgain(t *testing.T) {
	w := newWorld(t)
	w.write("a.txt", "a")
	w.sync()
	if err := w.engine.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(w.dir); err != nil { // a disk that is not mounted looks like that
		t.Fatal(err)
	}
	w.open()
	w.sync()
	w.same(files("a.txt", "a"))
}

func TestConflictsAreDecidedByTheRule(t *testing.T) {
	const here, there = "changed here", "changed there"
	for _, c := range []struct {
		rule          Rule
		here, there   string // "" is a deletion
		wins          string
		keptHere      bool
		keptBeside    bool
		remoteIsLater bool
	}{
		{rule: RemoteWins, here: here, there: there, wins: there, keptHere: true},
		{rule: RemoteWins, here: here, there: "", wins: "", keptHere: true},
		{rule: RemoteWins, here: "", there: there, wins: there},
		{rule: LocalWins, here: here, there: there, wins: here},
		{rule: LocalWins, here: here, there: "", wins: here},
		{rule: LocalWins, here: "", there: there, wins: ""},
		{rule: LatestWins, here: here, there: there, wins: there, keptHere: true, remoteIsLater: true},
		{rule: LatestWins, here: here, there: there, wins: here},
		{rule: KeepBoth, here: here, there: there, wins: there, keptBeside: true},
		{rule: KeepBoth, here: here, there: "", wins: here},
		{rule: KeepBoth, here: "", there: there, wins: there},
	} {
		name := string(c.rule) + " " + c.here + " against " + c.there
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(o *Options) { o.Rule = c.rule })
			w.write("dir/f.txt", "base")
			w.sync()
			if !c.remoteIsLater {
				w.vfs.now = func() time.Time { return time.Now().Add(-time.Minute) }
			} else {
				w.vfs.now = func() time.Time { return time.Now().Add(time.Minute) }
			}
			if c.there == "" {
				w.vfs.remove("dir/f.txt")
			} else {
				w.vfs.set("dir/f.txt", c.there)
			}
			if c.here == "" {
				w.removeHere("dir/f.txt")
			} else {
				w.write("dir/f.txt", c.here)
			}
			w.sync()
			w.sync() // what was kept beside travels now
			want := files()
			if c.wins != "" {
				want["dir/f.txt"] = c.wins
			}
			losers := w.engine.Losers()
			if len(losers) != 1 {
				t.Fatalf("%d losers, want 1: %+v", len(losers), losers)
			}
			l := losers[0]
			if c.keptBeside {
				want[l.Kept] = c.here
				if !strings.HasPrefix(l.Kept, "dir/f (conflict here ") || !strings.HasSuffix(l.Kept, ").txt") {
					t.Errorf("kept as %q", l.Kept)
				}
			}
			w.same(want)
			if c.keptHere {
				if data, err := os.ReadFile(filepath.Join(w.dir, l.Kept)); err != nil || string(data) != c.here {
					t.Errorf("kept %q, %v, want %q", data, err, c.here)
				}
			}
		})
	}
}

// A path that has no room for a mark keeps its loser among the versions.
func TestBothAreKeptOfAPathThatIsAsLongAsCanBe(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Rule = KeepBoth })
	path := strings.Repeat("d/", 505) + "f"
	w.write(path, "mine")
	w.vfs.set(path, "theirs")
	w.sync()
	losers := w.engine.Losers()
	if len(losers) != 1 || w.here()[path] != "theirs" {
		t.Fatalf("%+v, %q", losers, w.here()[path])
	}
	if data, err := os.ReadFile(filepath.Join(w.dir, losers[0].Kept)); err != nil || string(data) != "mine" {
		t.Fatalf("%q, %v", data, err)
	}
}

func TestWritesGoOnWithoutTheVFSAndAreReplayedInOrder(t *testing.T) {
	w := newWorld(t)
	w.write("a.txt", "a")
	w.sync()
	down := true
	w.vfs.fault = func(string, bool) error {
		if down {
			return errDown
		}
		return nil
	}
	ctx := t.Context()
	for _, name := range []string{"z.txt", "m.txt", "a.txt", "z.txt"} {
		if _, err := w.engine.Write(ctx, name, strings.NewReader("offline "+name)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.engine.Remove(ctx, "m.txt"); err != nil {
		t.Fatal(err)
	}
	file, status, err := w.engine.Read(ctx, "a.txt")
	if err != nil || status.Standing != Pending {
		t.Fatalf("read: %+v, %v", status, err)
	}
	_ = file.Close()
	if s := w.engine.Status(); s.Circuit != CircuitOpen || s.Pending != 3 || s.Standing != Pending {
		t.Errorf("status %+v", s)
	}

	w.restart() // the journal has it all
	down = false
	if err := w.breaker.Probe(ctx); err != nil {
		t.Fatal(err)
	}
	before := w.vfs.last
	w.sync()
	w.same(files("a.txt", "offline a.txt", "z.txt", "offline z.txt"))
	if a, z := w.vfs.files["a.txt"], w.vfs.files["z.txt"]; a[len(a)-1].Version != before+1 || z[len(z)-1].Version != before+2 {
		t.Errorf("versions a %d, z %d: not in the order of the last writes", a[len(a)-1].Version, z[len(z)-1].Version)
	}
}

func TestAHangingVFSHoldsNobodyUp(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Patience = 50 * time.Millisecond })
	w.vfs.fault = func(string, bool) error { return errHang }
	status, err := w.engine.Write(t.Context(), "a.txt", strings.NewReader("a"))
	if err != nil || status.Standing != Pending {
		t.Fatalf("write: %+v, %v", status, err)
	}
	w.vfs.fault = nil
	eventually.Holds(t, "it is carried over", func() bool { // nor is it waited for where it is merely slow
		w.sync()
		return w.engine.Status().Standing == Synced
	})
	w.same(files("a.txt", "a"))
}

func TestLinksAndOddFilesAreLeftAlone(t *testing.T) {
	w := newWorld(t)
	outside := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(outside, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.write("plain.txt", "plain")
	w.write("Twin.txt", "one")
	w.write("twin.txt", "other")
	for name, target := range map[string]string{"link.txt": outside, "folder": filepath.Dir(outside), "loop": "."} {
		if err := os.Symlink(target, filepath.Join(w.dir, name)); err != nil {
			t.Skip("no links here")
		}
	}
	w.sync()
	if got := w.vfs.all(); len(got) != 2 || got["plain.txt"] != "plain" {
		t.Errorf("the VFS has %v", got)
	}
	for _, name := range []string{"link.txt", "folder", "loop", "twin.txt"} {
		if f, ok := w.engine.File(name); !ok || f.Standing != Failed || f.Reason == "" {
			t.Errorf("%s: %+v", name, f)
		}
	}

	// A link where a file is to be stored is not followed.
	w.vfs.set("link.txt", "overwritten")
	w.vfs.set("folder/x", "escaped")
	w.sync()
	if data, _ := os.ReadFile(outside); string(data) != "secret" {
		t.Errorf("the file outside holds %q", data)
	}
	if _, err := os.Lstat(filepath.Join(filepath.Dir(outside), "x")); err == nil {
		t.Error("a file was written outside")
	}
}

func TestAFileThatBecomesALinkIsNotDeletedElsewhere(t *testing.T) {
	w := newWorld(t)
	w.write("a.txt", "a")
	w.sync()
	w.removeHere("a.txt")
	if err := os.Symlink("/etc/hostname", filepath.Join(w.dir, "a.txt")); err != nil {
		t.Skip("no links here")
	}
	w.sync()
	if got, ok := w.vfs.content("a.txt"); !ok || got != "a" {
		t.Errorf("the VFS has %q, %t", got, ok)
	}
}

func TestBadPathsFromTheVFSAreRefused(t *testing.T) {
	w := newWorld(t)
	for _, path := range []string{"../out", "/abs", "a/../../b", "nul", "x\x00y", tree.Private + "/journal", strings.Repeat("n", 4096)} {
		w.vfs.set(path, "bad")
	}
	w.vfs.set("good", "good")
	w.sync()
	if got := w.here(); len(got) != 1 || got["good"] != "good" {
		t.Errorf("the folder has %v", got)
	}
}

func TestSyncedFilesAreNotExecutable(t *testing.T) {
	w := newWorld(t)
	w.write("mine.sh", "#!/bin/sh")
	if err := os.Chmod(filepath.Join(w.dir, "mine.sh"), 0o755); err != nil {
		t.Fatal(err)
	}
	w.sync()
	w.vfs.set("mine.sh", "#!/bin/sh\nrm -rf /")
	w.vfs.set("theirs.sh", "#!/bin/sh")
	w.sync()
	for _, name := range []string{"mine.sh", "theirs.sh"} {
		info, err := os.Stat(filepath.Join(w.dir, name))
		if err != nil || info.Mode()&0o111 != 0 {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
}

func TestWrongContentIsNotStored(t *testing.T) {
	w := newWorld(t)
	w.vfs.set("a.txt", "right")
	w.vfs.garbage = func(call string) bool { return call == "read" }
	_ = w.engine.Sync(t.Context())
	if got := w.here(); len(got) != 0 {
		t.Fatalf("stored %v", got)
	}
	if s := w.engine.Status(); s.Pending != 1 {
		t.Errorf("status %+v", s)
	}
	w.vfs.garbage = nil
	w.engine.work.hasten(time.Now())
	_ = w.breaker.Probe(t.Context())
	w.sync()
	w.same(files("a.txt", "right"))
}

func TestFailuresAreTriedAgainLaterAndLater(t *testing.T) {
	now := time.Now()
	w := newWorld(t, func(o *Options) { o.Now = func() time.Time { return now } })
	w.write("a.txt", "a")
	puts := 0
	w.vfs.fault = func(call string, _ bool) error {
		if call == "put" || call == "batch" {
			puts++
			return protocol.Errorf(protocol.NoSpace, "full")
		}
		return nil
	}
	_ = w.engine.Sync(t.Context())
	tries := puts
	for range 1000 { // seconds
		now = now.Add(time.Second)
		_ = w.engine.Sync(t.Context())
	}
	if tried := puts - tries; tried < 5 || tried > 40 {
		t.Errorf("%d attempts in 1000 seconds", tried)
	}
	if s := w.engine.Status(); s.Standing != Failed || s.Failed != 1 {
		t.Errorf("status %+v", s)
	}
	f, _ := w.engine.File("a.txt")
	if f.Standing != Failed || !strings.Contains(f.Reason, "full") {
		t.Errorf("file %+v", f)
	}
	w.vfs.fault = nil
	now = now.Add(retryUntil)
	w.sync()
	w.same(files("a.txt", "a"))
}

func TestOnlyOneEngineHasAFolder(t *testing.T) {
	w := newWorld(t)
	_, err := Open(Options{Dir: w.dir, Remote: w.vfs, Breaker: w.breaker})
	if !errors.Is(err, ErrInUse) {
		t.Errorf("error %v, want ErrInUse", err)
	}
}

func TestRunCarriesChangesOverAsTheyHappen(t *testing.T) {
	w := newWorld(t, func(o *Options) {
		o.RealTime, o.Poll, o.Interval = true, 10*time.Millisecond, time.Hour
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- w.engine.Run(ctx) }()
	defer func() { cancel(); <-done }()

	eventually.Holds(t, "the first look is over", func() bool { return w.engine.Status().Standing == Synced })
	w.write("new/folder/a.txt", "a")
	eventually.Holds(t, "a file in a new folder arrives", func() bool { got, _ := w.vfs.content("new/folder/a.txt"); return got == "a" })
	w.vfs.set("b.txt", "b")
	eventually.Holds(t, "a file from the VFS arrives", func() bool { return w.here()["b.txt"] == "b" })
	w.removeHere("new/folder/a.txt")
	eventually.Holds(t, "a deletion arrives", func() bool { _, there := w.vfs.content("new/folder/a.txt"); return !there })
	w.vfs.remove("b.txt")
	eventually.Holds(t, "a deletion from the VFS arrives", func() bool { return len(w.here()) == 0 })
}

func TestTheCircuitClosesByItself(t *testing.T) {
	w := newWorld(t, func(o *Options) {
		o.RealTime, o.Poll, o.Interval = true, 10*time.Millisecond, time.Hour
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 2)
	go func() { done <- w.engine.Run(ctx) }()
	go func() { done <- w.breaker.Run(ctx) }()
	defer func() { cancel(); <-done; <-done }()
	eventually.Holds(t, "the first look is over", func() bool { return w.engine.Status().Standing == Synced })

	w.vfs.mu.Lock()
	w.vfs.fault = func(string, bool) error { return errDown }
	w.vfs.mu.Unlock()
	eventually.Holds(t, "the circuit opens", func() bool { return w.engine.Status().Circuit != CircuitClosed })
	w.write("a.txt", "meanwhile")
	eventually.Holds(t, "the change waits", func() bool { return w.engine.Status().Pending > 0 })
	w.vfs.mu.Lock()
	w.vfs.fault = nil
	w.vfs.mu.Unlock()
	eventually.Holds(t, "the change arrives", func() bool { got, _ := w.vfs.content("a.txt"); return got == "meanwhile" })
	eventually.Holds(t, "all is well", func() bool { return w.engine.Status().Standing == Synced })
}
