package mirror

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/vfs/mirror/tree"
)

// many writes small files in the VFS as somebody else would, and returns what
// both ends are to have then.
func many(w *world, count int) map[string]string {
	want := make(map[string]string)
	for i := range count {
		path := fmt.Sprintf("d%d/f%d", i/100, i)
		want[path] = "content of " + path
		w.vfs.set(path, want[path])
	}
	return want
}

// Small files that are new in the VFS come together, and what is there already
// stays.
func TestNewFilesComeTogether(t *testing.T) {
	w := newWorld(t)
	w.write("mine", "mine")
	want := many(w, 1000)
	want["mine"] = "mine"
	want["large"] = strings.Repeat("large", batchOne)
	w.vfs.set("large", want["large"])
	w.sync()
	w.same(want)
	if together, alone := w.vfs.count("get batch"), w.vfs.count("open"); together > 5 || alone != 1 {
		t.Errorf("%d requests for many files, %d for one", together, alone)
	}
	for i := 0; i < 1000; i += 3 {
		path := fmt.Sprintf("d%d/f%d", i/100, i)
		want[path] = "later"
		w.vfs.set(path, want[path])
	}
	w.sync()
	w.same(want)
	if together, alone := w.vfs.count("get batch"), w.vfs.count("open"); together > 8 || alone != 1 {
		t.Errorf("%d requests for many files, %d for one", together, alone)
	}
	if losers := w.engine.Losers(); len(losers) != 0 {
		t.Errorf("conflicts: %+v", losers)
	}
}

// What changes at either end while a batch is on its way is not overwritten,
// and keeps no other file back.
func TestABatchMeetsChanges(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Rule = LocalWins })
	want := many(w, 50)
	w.write("d0/f1", "old")
	w.sync() // which makes it a conflict that the file here wins
	want["d0/f1"] = "old"
	w.same(want)
	for i := range 50 {
		path := fmt.Sprintf("d0/f%d", i)
		want[path] = "new " + path
		w.vfs.set(path, want[path])
	}
	w.vfs.fault = func(call string, after bool) error {
		if call != "get batch" || after {
			return nil
		}
		w.vfs.fault = nil
		w.write("d0/f2", "mine") // after it was decided to fetch the other one
		w.vfs.set("d0/f3", "newer")
		w.vfs.remove("d0/f4")
		return nil
	}
	w.sync()
	w.sync() // sees what happened in the VFS meanwhile
	want["d0/f2"], want["d0/f3"] = "mine", "newer"
	delete(want, "d0/f4")
	w.same(want)
}

// A VFS that cannot hand out files together, or sends nonsense for some, is
// asked for each.
func TestABatchThatFailsIsFetchedOneByOne(t *testing.T) {
	for name, c := range map[string]struct {
		fault   error
		garbage bool
	}{
		"refused": {fault: protocol.Errorf(protocol.InvalidParameter, "no such thing")},
		"garbage": {garbage: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			want := many(w, 20)
			w.vfs.fault = func(call string, _ bool) error {
				if call == "get batch" {
					return c.fault
				}
				return nil
			}
			asked := 0
			w.vfs.garbage = func(call string) bool {
				if call != "read" || !c.garbage {
					return false
				}
				asked++
				return asked == 7
			}
			w.sync()
			w.same(want)
			if alone := w.vfs.count("open"); alone == 0 || c.garbage && alone != 1 {
				t.Errorf("%d files came alone", alone)
			}
		})
	}
}

// Whatever the power takes of a batch that came – records of the journal, places
// of files – what is left is no change of somebody.
func TestWhatACrashLeavesOfABatchIsRecognised(t *testing.T) {
	unsure := 0
	for lost := int64(0); ; lost += 150 {
		for _, placed := range []string{"none", "some", "all"} {
			w := newWorld(t)
			want := many(w, 8)
			w.sync()
			if err := w.engine.Close(); err != nil {
				t.Fatal(err)
			}
			journal := filepath.Join(w.dir, journalName)
			info, err := os.Stat(journal)
			if err != nil {
				t.Fatal(err)
			}
			if info.Size() <= lost {
				if unsure == 0 {
					t.Error("no file was in its place and not noted")
				}
				return
			}
			if err := os.Truncate(journal, info.Size()-lost); err != nil {
				t.Fatal(err)
			}
			known := journalOf(t, w)
			for path := range want {
				agreed := known.entries[path] != nil // which is noted when the place is for good
				intended := len(known.open[path]) > 0
				switch {
				case agreed:
				case !intended || placed == "none" || placed == "some" && path[len(path)-1]%2 == 0:
					w.removeHere(path)
				default: // it stands here, and only the intent tells from where
					unsure++
					want[path] = "the next version"
					w.vfs.set(path, want[path])
				}
			}
			w.open()
			w.sync()
			w.same(want)
			if losers := w.engine.Losers(); len(losers) != 0 {
				t.Fatalf("%d bytes lost, %s placed: conflicts %+v", lost, placed, losers)
			}
			if sent := w.vfs.count("batch") + w.vfs.count("put") + w.vfs.count("delete"); sent != 0 {
				t.Fatalf("%d bytes lost, %s placed: %d changes of the VFS", lost, placed, sent)
			}
			if err := w.engine.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// journalOf reads the journal of a closed engine.
func journalOf(t *testing.T, w *world) *state {
	t.Helper()
	folder, err := tree.Open(w.dir)
	if err != nil {
		t.Fatal(err)
	}
	defer folder.Close()
	s, err := openState(folder.Root(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.close(); err != nil {
		t.Fatal(err)
	}
	return s
}
