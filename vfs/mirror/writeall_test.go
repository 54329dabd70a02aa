package mirror

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/aibridge/aibridge/protocol"
)

// Files that are written together are durable orders when that returns, each for
// itself, and get to the VFS when it is there.
func TestFilesAreWrittenTogether(t *testing.T) {
	w := newWorld(t)
	w.write(IgnoreFile, "*.tmp\n")
	w.write("same", "same")
	w.write("other", "before")
	w.write("folder/f", "f")
	w.sync()
	w.vfs.fault = func(string, bool) error { return errDown }
	want := files(IgnoreFile, "*.tmp\n", "folder/f", "f")
	var list []*Writing
	write := func(path, content string) *Writing {
		one := &Writing{Path: path, Content: []byte(content), Mtime: 1_700_000_000_000}
		list = append(list, one)
		return one
	}
	for i := range 100 {
		path := fmt.Sprintf("d%d/f%d", i%3, 99-i)
		want[path] = "content of " + path
		write(path, want[path])
	}
	for path, content := range files("same", "same", "other", "after", "empty", "") {
		want[path] = content
		write(path, content)
	}
	bad := map[*Writing]protocol.Code{
		write("../f", "x"): protocol.InvalidParameter, write("x.tmp", "x"): protocol.InvalidParameter, write("folder", "x"): protocol.AlreadyExists,
	}
	if err := w.engine.WriteAll(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	for _, one := range list {
		if got := protocol.CodeOf(one.Err); got != bad[one] {
			t.Errorf("%s: %v", one.Path, one.Err)
		}
	}
	if info, err := os.Stat(filepath.Join(w.dir, "d0", "f99")); err != nil || info.ModTime().UnixMilli() != 1_700_000_000_000 {
		t.Errorf("%v, %v", info, err)
	}
	w.restart() // what is ordered survives that
	if got := len(w.engine.state.waiting()); got != 103 {
		t.Errorf("%d orders", got)
	}
	if left, err := os.ReadDir(filepath.Join(w.dir, ".aibridge-sync", "tmp")); err != nil || len(left) != 0 {
		t.Errorf("%d files left, %v", len(left), err)
	}
	w.vfs.fault = nil
	if err := w.breaker.Probe(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.sync()
	w.same(want)
	for path := range want {
		if f, ok := w.engine.File(path); !ok || f.Standing != Synced || f.Path != path {
			t.Errorf("%s: %+v", path, f)
		}
	}
	if f, ok := w.engine.File("none"); ok {
		t.Errorf("%+v", f)
	}
}
