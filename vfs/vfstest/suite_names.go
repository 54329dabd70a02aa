package vfstest

import (
	"errors"
	"fmt"
	"strings"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/vfs"
)

func (w *world) deletion() {
	w.put("a", "stays")
	first := w.put("f", "one")
	gone, err := w.Delete(w.ctx, g, "f", 0)
	if err != nil {
		w.Fatal(err)
	}
	if !gone.Deleted || gone.ID != first.ID || gone.Path != "f" || gone.Version <= first.Version || gone.Size != 0 {
		w.Fatalf("the deletion is %+v", gone)
	}
	w.missing("f")
	_, err = w.Delete(w.ctx, g, "f", 0)
	w.fails(protocol.FileNotFound, "delete twice", err)
	if paths := w.paths("", 0, false); paths != "a" {
		w.Fatalf("listed: %s", paths)
	}
	if paths := w.paths("", 0, true); paths != "a f-" {
		w.Fatalf("listed with deleted files: %s", paths)
	}
	if again := w.put("f", "one"); again.ID != first.ID || again.Version <= gone.Version {
		w.Fatalf("put again: %+v", again)
	}
	if w.read("f", first.Version) != "one" {
		w.Fatal("the version before the deletion is lost")
	}
}

// paths lists page by page.
func (w *world) paths(prefix string, limit int, deleted bool) string {
	w.Helper()
	var all []string
	for cursor := ""; ; {
		files, next, err := w.List(w.ctx, g, prefix, cursor, limit, deleted)
		if err != nil {
			w.Fatalf("list %q from %q: %v", prefix, cursor, err)
		}
		if limit > 0 && len(files) > limit {
			w.Fatalf("a page of %d has %d files", limit, len(files))
		}
		for _, f := range files {
			mark := ""
			if f.Deleted {
				mark = "-"
			}
			all = append(all, f.Path+mark)
		}
		if cursor = next; next == "" {
			return strings.Join(all, " ")
		}
	}
}

func (w *world) lists() {
	if paths := w.paths("", 0, true); paths != "" {
		w.Fatalf("new files are not empty: %s", paths)
	}
	for _, path := range []string{"b/2", "a", "b/10", "c", "b.x", "b/1", "ä", "bb"} {
		w.put(path, path)
	}
	if _, err := w.Delete(w.ctx, g, "c", 0); err != nil {
		w.Fatal(err)
	}
	for _, limit := range []int{0, 1, 2, 3, 1000, 5000} {
		for prefix, want := range map[string]string{
			"": "a b.x b/1 b/10 b/2 bb ä", "b/": "b/1 b/10 b/2", "b/1": "b/1 b/10", "zz": "", "c": "",
		} {
			if got := w.paths(prefix, limit, false); got != want {
				w.Fatalf("list %q by %d: %s, want %s", prefix, limit, got, want)
			}
		}
		if got := w.paths("c", limit, true); got != "c-" {
			w.Fatalf("deleted files by %d: %s", limit, got)
		}
	}
	files, _, err := w.List(w.ctx, g, "b/10", "", 0, false)
	if stat, _ := w.Stat(w.ctx, g, "b/10"); err != nil || len(files) != 1 || !w.same(files[0], stat) {
		w.Fatalf("listed %+v, stat says %+v (%v)", files, stat, err)
	}
}

func (w *world) groups() {
	w.put("f", "mine")
	other, err := w.Put(w.ctx, "other", "f", strings.NewReader("theirs"), unknown)
	if err != nil || other.Group != "other" {
		w.Fatalf("put into another group: %+v, %v", other, err)
	}
	if w.read("f", 0) != "mine" {
		w.Fatal("groups are mixed up")
	}
	if _, err := w.Delete(w.ctx, "other", "f", 0); err != nil {
		w.Fatal(err)
	}
	if w.read("f", 0) != "mine" {
		w.Fatal("groups are mixed up by a deletion")
	}
}

func (w *world) twins() {
	w.put("Dir/File.txt", "first")
	for path, twin := range map[string]string{
		"Dir/file.TXT": "Dir/File.txt", "dir/other": "Dir", "Dir/File.txt/below": "Dir/File.txt", "Dir": "Dir", "DIR": "Dir",
	} {
		_, err := w.Put(w.ctx, g, path, strings.NewReader("second"), unknown)
		w.fails(protocol.AlreadyExists, "put "+path, err)
		if e := new(protocol.Error); !errors.As(err, &e) || e.Details["twin"] != twin {
			w.Fatalf("the twin of %s is not named: %v", path, err)
		}
		w.missing(path)
	}
	if _, err := w.Delete(w.ctx, g, "Dir/File.txt", 0); err != nil {
		w.Fatal(err)
	}
	w.put("dir/file.txt", "now there is room")
}

func (w *world) badNames() {
	for _, path := range []string{"", "/a", "../a", "a/../b", "a//b", "a/", ".", "a\\b", "nul", "a\x00", "a.", "e\u0301", "\xff", strings.Repeat("x", 4096)} {
		_, err := w.Put(w.ctx, g, path, strings.NewReader("x"), unknown)
		w.fails(protocol.InvalidParameter, fmt.Sprintf("put %.20q", path), err)
		_, err = w.Stat(w.ctx, g, path)
		w.fails(protocol.InvalidParameter, fmt.Sprintf("stat %.20q", path), err)
		_, _, err = w.Open(w.ctx, g, path, 0)
		w.fails(protocol.InvalidParameter, fmt.Sprintf("open %.20q", path), err)
		_, err = w.Delete(w.ctx, g, path, 0)
		w.fails(protocol.InvalidParameter, fmt.Sprintf("delete %.20q", path), err)
	}
	for _, group := range []string{"", "a/b", "..", "$x", "a#", strings.Repeat("x", 65)} {
		_, err := w.Put(w.ctx, group, "f", strings.NewReader("x"), unknown)
		w.fails(protocol.InvalidParameter, fmt.Sprintf("put into %.20q", group), err)
		_, _, err = w.List(w.ctx, group, "", "", 0, false)
		w.fails(protocol.InvalidParameter, fmt.Sprintf("list %.20q", group), err)
	}
}

func (w *world) snapshots() {
	s, ok := w.Files.(vfs.Snapshots)
	if !ok {
		w.Skip("it has no snapshots")
	}
	at := func(snapshot uint64) string {
		w.Helper()
		var all []string
		for cursor := ""; ; {
			files, next, err := s.ListAt(w.ctx, g, "", snapshot, cursor, 2)
			if err != nil {
				w.Fatalf("list at %d: %v", snapshot, err)
			}
			for _, f := range files {
				all = append(all, f.Path+"="+w.read(f.Path, f.Version))
			}
			if cursor = next; next == "" {
				return strings.Join(all, " ")
			}
		}
	}
	take := func() uint64 {
		w.Helper()
		snapshot, err := s.Snapshot(w.ctx, g)
		if err != nil {
			w.Fatal(err)
		}
		return snapshot
	}
	w.put("a", "1")
	w.put("b", "1")
	w.put("c", "1")
	first := take()
	w.put("a", "2")
	if _, err := w.Delete(w.ctx, g, "b", 0); err != nil {
		w.Fatal(err)
	}
	w.put("d", "1")
	second := take()
	w.put("b", "3")
	if got, want := at(first), "a=1 b=1 c=1"; got != want {
		w.Fatalf("the first snapshot shows %s, want %s", got, want)
	}
	if got, want := at(second), "a=2 c=1 d=1"; got != want {
		w.Fatalf("the second snapshot shows %s, want %s", got, want)
	}
	if got, want := at(take()), "a=2 b=3 c=1 d=1"; got != want {
		w.Fatalf("a snapshot of now shows %s, want %s", got, want)
	}
}
