package vfs_test

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/aibridge/aibridge/internal/records/recordstest"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/vfs"
	"github.com/aibridge/aibridge/vfs/vfstest"
)

// inMemory opens a store with contents in memory.
func inMemory(t testing.TB) *world {
	w := &world{t: t, records: recordstest.New[vfs.Record]()}
	w.start(func(o *vfs.StoreOptions) { o.Blobs = vfstest.NewBlobs() })
	return w
}

// contents are the files of a group, by path.
func contents(t testing.TB, files vfs.Files, group string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := vfs.Walk(t.Context(), vfs.Located{Files: files, Group: group}, func(f vfs.File) error {
		r, _, err := files.Open(t.Context(), group, f.Path, 0)
		if err != nil {
			return err
		}
		defer r.Close()
		text, err := io.ReadAll(r)
		all[f.Path] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// flaky are files of which one write fails, as if there were no room.
type flaky struct {
	vfs.Files
	left int // writes before that, negative for none
}

func (f *flaky) fails() error {
	f.left--
	if f.left == -1 {
		return vfs.NoRoom("the group's quota is used up")
	}
	return nil
}

// Put implements [vfs.Files].
func (f *flaky) Put(ctx context.Context, group, path string, r io.Reader, o vfs.PutOptions) (vfs.File, error) {
	if err := f.fails(); err != nil {
		return vfs.File{}, err
	}
	return f.Files.Put(ctx, group, path, r, o)
}

// Delete implements [vfs.Files].
func (f *flaky) Delete(ctx context.Context, group, path string, version uint64) (vfs.File, error) {
	if err := f.fails(); err != nil {
		return vfs.File{}, err
	}
	return f.Files.Delete(ctx, group, path, version)
}

// drawTree draws files below a folder, or the file itself, without twins.
func drawTree(rt *rapid.T, label, at string) (paths []string) {
	var names vfs.Collisions
	for _, p := range rapid.SliceOfN(rapid.SampledFrom([]string{"", "a", "A", "a/b", "a/b/c", "b", "b/a", "c/a"}), 1, 5).Draw(rt, label) {
		if p != "" {
			p = "/" + p
		}
		if p = at + p; names.Check(p) == nil && !slices.Contains(paths, p) {
			names.Add(p)
			paths = append(paths, p)
		}
	}
	return paths
}

// A replaced place is a copy of the source. After a failure at any write it has all
// that it had, replaced in part, and so has the source.
func TestAReplacementIsWholeOrLosesNothing(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := inMemory(t)
		source, target := drawTree(rt, "source", "from"), drawTree(rt, "target", "to")
		for _, path := range append(slices.Clone(source), target...) {
			if _, err := w.files.Put(t.Context(), "g", path, strings.NewReader("old "+path), vfs.PutOptions{Size: -1}); err != nil {
				rt.Fatal(err)
			}
		}
		before := contents(t, w.files, "g")
		after := map[string]string{} // expected at the target
		for _, path := range source {
			after["to"+strings.TrimPrefix(path, "from")] = before[path]
		}
		moves := rapid.Bool().Draw(rt, "moves")
		files := &flaky{w.files, rapid.IntRange(-1, 12).Draw(rt, "writes before one fails")}
		at := func(path string) vfs.Located { return vfs.Located{Files: files, Group: "g", Path: path} }
		err := vfs.Replace(t.Context(), at("from"), at("to"), moves)
		now := contents(t, w.files, "g")
		if err == nil {
			want := maps.Clone(after)
			if !moves {
				for _, path := range source {
					want[path] = before[path]
				}
			}
			if !maps.Equal(now, want) {
				rt.Fatalf("there is %v, want %v", now, want)
			}
			return
		}
		if protocol.CodeOf(err) != protocol.NoSpace {
			rt.Fatal(err)
		}
		kept := slices.Collect(maps.Values(now))
		for _, path := range source {
			if !slices.Contains(kept, before[path]) {
				rt.Fatalf("%q of the source is lost: %v", path, now)
			}
		}
		for _, path := range target {
			replaced := after[path] != "" && now[path] == after[path]
			// The files that go last of a whole replacement may be gone.
			if whole := contain(now, after); !replaced && !whole && now[path] != before[path] && !slices.Contains(kept, before[path]) {
				rt.Fatalf("%q of the target is lost: %v", path, now)
			}
		}
	})
}

// contain reports whether some files are all among others.
func contain(all, some map[string]string) bool {
	for path, text := range some {
		if all[path] != text {
			return false
		}
	}
	return true
}

// A folder that finds no room for its files leaves the files in its way where they
// were, be they of another kind.
func TestAReplacementWithoutRoomPutsBackWhatWasInItsWay(t *testing.T) {
	for name, x := range map[string]struct{ source, target []string }{
		"a folder over a file":            {[]string{"from/1", "from/2", "from/3"}, []string{"to"}},
		"a file over a folder":            {[]string{"from"}, []string{"to/1", "to/2", "to/3"}},
		"deep in it":                      {[]string{"from/a/1", "from/a/2", "from/b"}, []string{"to/a", "to/b/1", "to/c"}},
		"names of another case":           {[]string{"from/A", "from/b", "from/c"}, []string{"to/a", "to/B/x"}},
		"the same names and another file": {[]string{"from/1", "from/2"}, []string{"to/1", "to/4"}},
	} {
		for fails := range 12 {
			t.Run(fmt.Sprint(name, " ", fails), func(t *testing.T) {
				w := inMemory(t)
				for _, path := range append(slices.Clone(x.source), x.target...) {
					if _, err := w.files.Put(t.Context(), "g", path, strings.NewReader("old "+path), vfs.PutOptions{Size: -1}); err != nil {
						t.Fatal(err)
					}
				}
				files := &flaky{w.files, fails}
				err := vfs.Replace(t.Context(), vfs.Located{Files: files, Group: "g", Path: "from"}, vfs.Located{Files: files, Group: "g", Path: "to"}, false)
				now := contents(t, w.files, "g")
				for _, path := range x.source {
					if now[path] != "old "+path {
						t.Errorf("the source %q is %q", path, now[path])
					}
				}
				var whole bool
				if whole = true; err != nil {
					for _, path := range x.source {
						whole = whole && now["to"+strings.TrimPrefix(path, "from")] == "old "+path
					}
				}
				for _, path := range x.target {
					if replaced := now[path] == "old from"+strings.TrimPrefix(path, "to"); !whole && !replaced && now[path] != "old "+path {
						t.Errorf("%v: %q is not in its place: %v", err, path, now)
					}
				}
			})
		}
	}
}

func TestAWholeGroupIsReplaced(t *testing.T) {
	w := inMemory(t)
	at := func(group, path string) vfs.Located { return vfs.Located{Files: w.files, Group: group, Path: path} }
	put := func(group string, paths ...string) {
		for _, path := range paths {
			if _, err := w.files.Put(t.Context(), group, path, strings.NewReader(group+" "+path), vfs.PutOptions{Size: -1}); err != nil {
				t.Fatal(err)
			}
		}
	}
	put("one", "a/b", "c")
	put("two", "a", "d")
	if err := vfs.Replace(t.Context(), at("one", ""), at("two", ""), false); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(contents(t, w.files, "two")); got != "map[a/b:one a/b c:one c]" {
		t.Errorf("there is %s", got)
	}
	if err := vfs.Replace(t.Context(), at("one", "a"), at("two", ""), true); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(contents(t, w.files, "two"), contents(t, w.files, "one")); got != "map[b:one a/b] map[c:one c]" {
		t.Errorf("there is %s", got)
	}
	if err := vfs.ReplaceByFolder(t.Context(), at("two", "b")); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(contents(t, w.files, "two")); got != "map[b/.folder:]" {
		t.Errorf("there is %s", got)
	}
	for _, x := range []struct{ from, to string }{{"b", "b/c"}, {"b", ""}, {"", "b"}} {
		if err := vfs.Replace(t.Context(), at("two", x.from), at("two", x.to), false); protocol.CodeOf(err) != protocol.InvalidParameter {
			t.Errorf("%q by %q: %v", x.to, x.from, err)
		}
	}
	if err := vfs.Replace(t.Context(), at("two", "none"), at("one", ""), false); protocol.CodeOf(err) != protocol.FileNotFound {
		t.Errorf("of nothing: %v", err)
	}
}
