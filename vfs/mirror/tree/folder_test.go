package tree

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/vfs"
)

func newFolder(t testing.TB) *Folder {
	t.Helper()
	f, err := Open(filepath.Join(t.TempDir(), "folder"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// place puts a file where one with the stamp is.
func place(t testing.TB, f *Folder, name, content string, seen Stamp) (Stamp, error) {
	t.Helper()
	u, err := f.Create()
	if err != nil {
		t.Fatal(err)
	}
	defer u.Discard()
	if _, err := u.Write([]byte(content)); err != nil {
		t.Fatal(err)
	}
	return u.Replace(name, seen)
}

func read(t testing.TB, f *Folder, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(f.Dir(), name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// left are the files that a folder's own writes left behind.
func left(t testing.TB, f *Folder) int {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(f.Dir(), unfinished))
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

var tricks = []string{
	"", ".", "..", "/", "/etc/passwd", "../f", "a/../../f", "a/..", "./f", "a//b", "a/", "a\x00b", "a\\..\\b", "C:/f", "c:f",
	"NUL", "com1.txt", "a/Aux", "a.", "a ", "e\u0301", "a\nb", "a\u202eb", "\xff", strings.Repeat("n", 256), strings.Repeat("n", 4096),
	strings.Repeat("d/", 600) + "f", Private, Private + "/journal", ".AIBRIDGE-SYNC/lock",
}

func TestPathTricksLeadNowhere(t *testing.T) {
	f := newFolder(t)
	stranger := filepath.Join(filepath.Dir(f.Dir()), "f")
	if err := os.WriteFile(stranger, []byte("a stranger's"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range tricks {
		var bad BadPathError
		if _, err := f.Stat(name); !errors.As(err, &bad) {
			t.Errorf("stat of %.40q: %v", name, err)
		}
		if _, _, err := f.Open(name); !errors.As(err, &bad) {
			t.Errorf("open of %.40q: %v", name, err)
		}
		if _, err := place(t, f, name, "x", Stamp{}); !errors.As(err, &bad) {
			t.Errorf("write of %.40q: %v", name, err)
		}
		if err := f.Remove(name, Stamp{}); !errors.As(err, &bad) {
			t.Errorf("removal of %.40q: %v", name, err)
		}
		if s := f.Scan(name, 0, nil); name != "." && len(s.Files) != 0 {
			t.Errorf("scan of %.40q: %v", name, s.Files)
		}
	}
	if data, err := os.ReadFile(stranger); err != nil || string(data) != "a stranger's" || left(t, f) != 0 {
		t.Fatalf("%q, %v, %d left", data, err, left(t, f))
	}
}

// No link is followed: neither at the end of a path nor in the middle, neither
// out of the folder nor inside it.
func TestLinksLeadNowhere(t *testing.T) {
	f := newFolder(t)
	outside := t.TempDir()
	if err := os.WriteFile(filepath.Join(outside, "f"), []byte("a stranger's"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := place(t, f, "real/f", "mine", Stamp{}); err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{"out": outside, "in": "real", "up": "..", "file": filepath.Join(outside, "f"), "round": "round"} {
		if err := os.Symlink(target, filepath.Join(f.Dir(), name)); err != nil {
			t.Skip("no links here")
		}
	}
	for _, name := range []string{"out/f", "in/f", "up/folder/real/f", "file", "round", "round/f", "out/new", "in/new"} {
		if _, err := f.Stat(name); !errors.Is(err, ErrNotRegular) {
			t.Errorf("stat of %s: %v", name, err)
		}
		if file, _, err := f.Open(name); err == nil {
			_ = file.Close()
			t.Errorf("%s was opened", name)
		}
		if _, err := place(t, f, name, "x", Stamp{}); err == nil {
			t.Errorf("%s was written", name)
		}
		if err := f.Remove(name, Stamp{Size: 12}); err == nil {
			t.Errorf("%s was removed", name)
		}
	}
	s := f.Scan(".", 0, nil)
	if len(s.Files) != 1 || len(s.Refused) != 5 || s.Covers("out/f") || s.Covers("file") || !s.Covers("real/gone") {
		t.Errorf("found %v, refused %v", s.Files, s.Refused)
	}
	entries, err := os.ReadDir(outside)
	if err != nil || len(entries) != 1 || read(t, f, "real/f") != "mine" {
		t.Fatalf("%v, %v", entries, err)
	}
}

// Only the file that was seen is replaced or removed.
func TestSomebodyElsesChangeIsNotOverwritten(t *testing.T) {
	f := newFolder(t)
	first, err := place(t, f, "d/f", "first", Stamp{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := place(t, f, "d/f", "x", Stamp{}); !errors.Is(err, ErrChanged) {
		t.Errorf("where nothing was seen: %v", err)
	}
	if err := os.WriteFile(filepath.Join(f.Dir(), "d/f"), []byte("somebody else's"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := place(t, f, "d/f", "x", first); !errors.Is(err, ErrChanged) {
		t.Errorf("where another was seen: %v", err)
	}
	if err := f.Remove("d/f", first); !errors.Is(err, ErrChanged) {
		t.Errorf("removal where another was seen: %v", err)
	}
	if _, err := place(t, f, "none", "x", first); !errors.Is(err, ErrChanged) {
		t.Errorf("where one was seen that is gone: %v", err)
	}
	if got := read(t, f, "d/f"); got != "somebody else's" || left(t, f) != 0 {
		t.Fatalf("%q, %d left", got, left(t, f))
	}
	now, err := f.Stat("d/f")
	if err != nil {
		t.Fatal(err)
	}
	stamp, err := place(t, f, "d/f", "second", now)
	if err != nil || read(t, f, "d/f") != "second" {
		t.Fatal(err)
	}
	if again, err := f.Stat("d/f"); err != nil || again != stamp {
		t.Fatalf("%+v is not %+v, %v", again, stamp, err)
	}
	info, err := os.Stat(filepath.Join(f.Dir(), "d/f"))
	if err != nil || info.Mode()&0o111 != 0 {
		t.Fatalf("mode %v, %v", info.Mode(), err)
	}
	if err := f.Remove("d/f", stamp); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(f.Dir(), "d")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the empty folder is still there: %v", err)
	}
}

// Where the system cannot exchange files in one step, the same holds.
func TestFilesAreExchangedPlainlyAsWell(t *testing.T) {
	f := newFolder(t)
	swap := func(content string, seen Stamp) error {
		u, err := f.Create()
		if err != nil {
			t.Fatal(err)
		}
		defer u.Discard()
		if _, err := u.Write([]byte(content)); err != nil {
			t.Fatal(err)
		}
		return f.swapInPlainly(u.name, "f", seen)
	}
	if err := swap("first", Stamp{}); err != nil {
		t.Fatal(err)
	}
	if err := swap("x", Stamp{}); !errors.Is(err, ErrChanged) {
		t.Errorf("where nothing was seen: %v", err)
	}
	seen, err := f.Stat("f")
	if err != nil {
		t.Fatal(err)
	}
	if err := swap("second", seen); err != nil || read(t, f, "f") != "second" {
		t.Fatalf("%v, %q", err, read(t, f, "f"))
	}
	if err := swap("x", seen); !errors.Is(err, ErrChanged) {
		t.Errorf("where another was seen: %v", err)
	}
	if read(t, f, "f") != "second" || left(t, f) != 0 {
		t.Fatalf("%q, %d left", read(t, f, "f"), left(t, f))
	}
}

func TestWhatIsNoFileOrHasATwinIsRefused(t *testing.T) {
	f := newFolder(t)
	for _, name := range []string{"a", "A", "NUL", "trailing.", "stra\u00dfe", "STRASSE", "ok"} {
		if err := os.WriteFile(filepath.Join(f.Dir(), name), nil, 0o644); err != nil {
			t.Skip(err)
		}
	}
	pipe(t, filepath.Join(f.Dir(), "pipe"))
	s := f.Scan(".", 0, nil)
	if s.Refused["a"] == "" || s.Refused["NUL"] == "" || s.Refused["trailing."] == "" || s.Refused["stra\u00dfe"] == "" || s.Refused["pipe"] == "" {
		t.Errorf("refused are %v", s.Refused)
	}
	if len(s.Files) != 3 {
		t.Errorf("found are %v", s.Files)
	}
	if _, err := f.Stat("pipe"); !errors.Is(err, ErrNotRegular) {
		t.Errorf("stat of a pipe: %v", err)
	}
	if _, _, err := f.Open("pipe"); !errors.Is(err, ErrNotRegular) {
		t.Errorf("a pipe was opened: %v", err) // and held nobody up
	}
	if _, _, err := f.Open("none/f"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what is not there: %v", err)
	}
	if stamp, err := f.Stat("a/f"); err != nil || !stamp.Absent() {
		t.Errorf("below a file: %+v, %v", stamp, err)
	}
	if _, err := place(t, f, "a/f", "x", Stamp{}); err == nil {
		t.Error("a file was written below a file")
	}
}

func TestLosersAreKeptOnce(t *testing.T) {
	f := newFolder(t)
	name, err := f.Keep(strings.NewReader("loser"), "abcdef")
	if err != nil {
		t.Fatal(err)
	}
	again, err := f.Keep(strings.NewReader("not read"), "abcdef")
	if err != nil || again != name || read(t, f, name) != "loser" {
		t.Fatalf("%s, %v", again, err)
	}
	for _, bad := range []string{"", "..", "a/b", "a\\b"} {
		if _, err := f.Keep(strings.NewReader("x"), bad); err == nil {
			t.Errorf("kept as %q", bad)
		}
	}
	if s := f.Scan(".", 0, nil); len(s.Files) != 0 {
		t.Errorf("%v are mirrored", s.Files)
	}
}

// Files that get their places together stand each for itself, are durable
// before they have them, and cost one look at each folder.
func TestManyFilesGetTheirPlaceTogether(t *testing.T) {
	f := newFolder(t)
	old, err := place(t, f, "d/changed", "old", Stamp{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := place(t, f, "folder/f", "f", Stamp{}); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(f.Dir(), "d/changed"), []byte("by somebody else"), 0o644); err != nil {
		t.Fatal(err)
	}
	synced := make(map[string]int)
	f.dirs.sync = func(dir string) error { synced[dir]++; return f.syncDir(dir) }
	var list []*Replacement
	for _, r := range []Replacement{{Name: "d/one"}, {Name: "d/changed", Seen: old}, {Name: "e/f/two"}, {Name: "folder"}, {Name: "../three"}, {Name: "d/four"}} {
		if r.File, err = f.Create(); err != nil {
			t.Fatal(err)
		}
		defer r.File.Discard()
		if _, err := r.File.Write([]byte("new")); err != nil {
			t.Fatal(err)
		}
		if len(list)%2 == 0 { // else it is saved on the way
			if err := errors.Join(r.File.Save(), r.File.Save()); err != nil {
				t.Fatal(err)
			}
		}
		list = append(list, &r)
	}
	f.ReplaceAll(list)
	for i, want := range []func(error) bool{
		isNil, func(err error) bool { return errors.Is(err, ErrChanged) }, isNil,
		func(err error) bool { var o *ObstacleError; return errors.As(err, &o) },
		func(err error) bool { var bad BadPathError; return errors.As(err, &bad) }, isNil,
	} {
		r := list[i]
		if !want(r.Err) {
			t.Errorf("%s: %v", r.Name, r.Err)
		}
		stamp, _ := f.Stat(r.Name)
		if r.Err == nil && (read(t, f, r.Name) != "new" || stamp != r.Stamp || stamp.Absent()) {
			t.Errorf("%s: %q, %+v, stamp %+v", r.Name, read(t, f, r.Name), stamp, r.Stamp)
		}
		r.File.Discard()
	}
	if read(t, f, "d/changed") != "by somebody else" || read(t, f, "folder/f") != "f" || left(t, f) != 0 {
		t.Errorf("%q, %q, %d files left", read(t, f, "d/changed"), read(t, f, "folder/f"), left(t, f))
	}
	if want := map[string]int{".": 1, "d": 1, "e": 1, "e/f": 1}; !maps.Equal(synced, want) {
		t.Errorf("synced %v, want %v", synced, want)
	}
}

func isNil(err error) bool { return err == nil }

// Whoever waits for a folder that cannot be synced learns that nothing is sure.
func TestAFolderThatCannotBeSyncedFailsAllOfABatch(t *testing.T) {
	f := newFolder(t)
	f.dirs.sync = func(string) error { return fs.ErrInvalid }
	var list []*Replacement
	for _, name := range []string{"one", "two"} {
		u, err := f.Create()
		if err != nil {
			t.Fatal(err)
		}
		defer u.Discard()
		list = append(list, &Replacement{File: u, Name: name})
	}
	f.ReplaceAll(list)
	for _, r := range list {
		if !errors.Is(r.Err, fs.ErrInvalid) {
			t.Errorf("%s: %v", r.Name, r.Err)
		}
	}
}

func TestWhatACrashLeftUnfinishedIsThrownAway(t *testing.T) {
	f := newFolder(t)
	u, err := f.Create()
	if err != nil {
		t.Fatal(err)
	}
	defer u.Discard()
	if left(t, f) != 1 {
		t.Fatal("nothing is being written")
	}
	if err := f.RemoveUnfinished(); err != nil || left(t, f) != 0 {
		t.Fatalf("%v, %d left", err, left(t, f))
	}
}

func TestAFolderWhoseStateIsNoFolderIsNotOpened(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, Private), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if f, err := Open(dir); err == nil {
		_ = f.Close()
		t.Fatal("it was")
	}
}

// Whatever is accepted as a path is a file below the folder, and found there
// under that name.
func FuzzPaths(f *testing.F) {
	for _, name := range append(tricks, "f", "d/f", "ä/ß", "a b/c-d_e.f", strings.Repeat("n", 255)) {
		f.Add(name)
	}
	folder := newFolder(f)
	f.Fuzz(func(t *testing.T, name string) {
		stamp, err := place(t, folder, name, "content", Stamp{})
		if err != nil {
			if CheckPath(name) == "" {
				t.Fatalf("%q is a path, but %v", name, err)
			}
			return
		}
		if CheckPath(name) != "" || !filepath.IsLocal(name) {
			t.Fatalf("%q was accepted", name)
		}
		if got, ok := folder.Scan(".", 1, nil).Files[name]; !ok || got != stamp {
			t.Fatalf("%q is not found: %+v", name, got)
		}
		if err := folder.Remove(name, stamp); err != nil || left(t, folder) != 0 {
			t.Fatal(err)
		}
	})
}

// The copy of a loser has a name that can be had, and stays in its folder.
func FuzzConflictNames(f *testing.F) {
	f.Add("d/plan.txt", "hall", "0123456789abcdef")
	f.Add(strings.Repeat("n", 255), "a very long name of a device in a very long house", "00")
	f.Add("a.tar.gz", "../..", "ff")
	f.Add(".hidden", "\u202e", "ab")
	f.Add(strings.Repeat("d/", 500)+"f", "x", "ab")
	f.Fuzz(func(t *testing.T, name, origin, sum string) {
		if CheckPath(name) != "" || strings.Trim(sum, "0123456789abcdef") != "" || sum == "" {
			return
		}
		copied := ConflictName(name, origin, sum)
		if copied == name {
			t.Fatalf("%q is its own copy", name)
		}
		if reason := CheckPath(copied); reason != "" && len(filepath.Dir(name)) < vfs.MaxPath-vfs.MaxSegment {
			t.Fatalf("%q of %q %s", copied, name, reason)
		}
		if filepath.Dir(copied) != filepath.Dir(name) && CheckPath(copied) == "" {
			t.Fatalf("%q leaves the folder of %q", copied, name)
		}
	})
}
