package mirror

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/aibridge/aibridge/protocol"
)

func (w *world) rename(from, to string) {
	w.t.Helper()
	at := filepath.Join(w.dir, filepath.FromSlash(to))
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		w.t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(w.dir, filepath.FromSlash(from)), at); err != nil {
		w.t.Fatal(err)
	}
}

// A file that is renamed or copied is sent by naming the one with its content,
// and fetched from the folder.
func TestARenamedFileDoesNotTravel(t *testing.T) {
	data := string(noise(100 << 10))
	w := newWorld(t)
	w.write("a/old", data)
	w.sync()
	sent, read := w.vfs.sent, w.vfs.read.Load()
	w.rename("a/old", "b/new")
	w.sync()
	w.same(files("b/new", data))
	w.restart()
	w.write("c", data) // a copy
	w.sync()
	w.same(files("b/new", data, "c", data))
	if w.vfs.sent != sent {
		t.Errorf("%d bytes were sent", w.vfs.sent-sent)
	}
	// Somebody else renames it.
	w.vfs.set("d", data)
	w.vfs.remove("b/new")
	w.vfs.remove("c")
	w.sync()
	w.same(files("d", data))
	if got := w.vfs.read.Load(); got != read {
		t.Errorf("%d bytes were fetched", got-read)
	}
}

// A VFS that has not the content, or cannot copy, gets it.
func TestAContentThatTheVFSHasNotIsSent(t *testing.T) {
	data := string(noise(100 << 10))
	for what, spoil := range map[string]func(*world){
		"it has lost the version": func(w *world) {
			w.vfs.mu.Lock()
			defer w.vfs.mu.Unlock()
			w.vfs.forgotten = true
		},
		"it knows no copies": func(w *world) { w.vfs.refuse = protocol.Errorf(protocol.InvalidParameter, "what is copy_of") },
		"it is plain":        func(w *world) { w.engine.o.Remote = plain{w.vfs} },
	} {
		t.Run(what, func(t *testing.T) {
			w := newWorld(t)
			w.write("old", data)
			w.sync()
			spoil(w)
			sent := w.vfs.sent
			w.rename("old", "new")
			w.sync()
			w.same(files("new", data))
			if w.vfs.sent-sent != int64(len(data)) {
				t.Errorf("%d bytes were sent", w.vfs.sent-sent)
			}
		})
	}
}

// What stands here is not taken for what it was without a look.
func TestAChangedFileIsNoSource(t *testing.T) {
	data := string(noise(100 << 10))
	w := newWorld(t)
	w.write("old", data)
	w.sync()
	changed := "x" + data[1:]
	w.write("old", changed)
	w.vfs.set("new", data)
	w.sync()
	w.same(files("old", changed, "new", data))
}
