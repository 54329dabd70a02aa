package mirror

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// A file has the time at every end at which it was changed, whichever way it
// travels.
func TestTimesOfFilesAreKept(t *testing.T) {
	at := time.UnixMilli(1_234_567_890_123)
	for name, size := range map[string]int{"small": 10, "large": 100 << 10} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			data := noise(size)
			date := func(path string, at time.Time) {
				t.Helper()
				if err := os.Chtimes(filepath.Join(w.dir, path), at, at); err != nil {
					t.Fatal(err)
				}
			}
			sent := func(what, path string, at time.Time) {
				t.Helper()
				w.sync()
				if f, err := w.vfs.Stat(t.Context(), path); err != nil || f.Mtime != at.UnixMilli() {
					t.Errorf("%s: %+v, %v", what, f, err)
				}
				// Another end gets it.
				other := newWorld(t, func(o *Options) { o.Remote = w.vfs })
				other.sync()
				if info, err := os.Stat(filepath.Join(other.dir, path)); err != nil || !info.ModTime().Equal(at) {
					t.Errorf("%s: the other end has it from %v, %v", what, info.ModTime(), err)
				}
				if other.sync(); other.engine.Status().Standing != Synced {
					t.Errorf("%s: %+v", what, other.engine.Status())
				}
			}
			w.write("f", string(data))
			date("f", at)
			sent("new", "f", at)
			data[5]++
			w.write("f", string(data))
			date("f", at.Add(time.Hour))
			sent("changed", "f", at.Add(time.Hour))
			w.rename("f", "g")
			sent("renamed", "g", at.Add(time.Hour))
		})
	}
}
