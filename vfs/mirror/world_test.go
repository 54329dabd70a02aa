package mirror

import (
	"context"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/internal/leaks"
	"github.com/aibridge/aibridge/vfs/mirror/tree"
)

func TestMain(m *testing.M) { leaks.Verify(m) }

// A world is a folder, a VFS and an engine between them.
type world struct {
	t       testing.TB
	dir     string
	vfs     *fake
	breaker *Breaker
	engine  *Engine
	change  func(*Options)
}

func newWorld(t testing.TB, change ...func(*Options)) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir(), vfs: newFake(), change: func(o *Options) {
		for _, f := range change {
			f(o)
		}
	}}
	w.open()
	return w
}

func (w *world) open() {
	w.t.Helper()
	w.breaker = NewBreaker(func(ctx context.Context) error {
		_, err := w.vfs.Instance(ctx)
		return err
	}, BreakerOptions{})
	o := Options{Dir: w.dir, Remote: w.vfs, Breaker: w.breaker, Origin: "here", Log: slog.New(slog.DiscardHandler)}
	w.change(&o)
	engine, err := Open(o)
	if err != nil {
		w.t.Fatal(err)
	}
	w.engine = engine
	w.t.Cleanup(func() { _ = engine.Close() }) // again, perhaps
}

// restart is a crash, and a new start.
func (w *world) restart() {
	w.t.Helper()
	if err := w.engine.Close(); err != nil {
		w.t.Fatal(err)
	}
	w.open()
}

func (w *world) sync() {
	w.t.Helper()
	if err := w.engine.Sync(w.t.Context()); err != nil {
		w.t.Fatalf("sync: %v", err)
	}
}

func (w *world) write(path, content string) {
	w.t.Helper()
	writeFile(w.t, w.dir, path, content)
}

func writeFile(t testing.TB, dir, path, content string) {
	t.Helper()
	at := filepath.Join(dir, filepath.FromSlash(path))
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(at, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func (w *world) removeHere(path string) {
	w.t.Helper()
	if err := os.Remove(filepath.Join(w.dir, filepath.FromSlash(path))); err != nil {
		w.t.Fatal(err)
	}
}

// here is the content of the folder.
func (w *world) here() map[string]string { return filesBelow(w.t, w.dir) }

func filesBelow(t testing.TB, dir string) map[string]string {
	t.Helper()
	m := make(map[string]string)
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == tree.Private || strings.HasPrefix(path, tree.Private+"/") || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(filepath.Join(dir, path))
		m[path] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// same fails unless both ends have exactly the files.
func (w *world) same(want map[string]string) {
	w.t.Helper()
	for end, got := range map[string]map[string]string{"folder": w.here(), "VFS": w.vfs.all()} {
		for path, content := range want {
			if g, ok := got[path]; !ok || g != content {
				w.t.Errorf("%s: %s holds %q (there: %t), want %q", end, path, g, ok, content)
			}
		}
		for path, content := range got {
			if _, ok := want[path]; !ok {
				w.t.Errorf("%s: unexpected %s with %q", end, path, content)
			}
		}
	}
	if s := w.engine.Status(); s.Standing != Synced {
		w.t.Errorf("status %+v, want synced", s)
	}
}

// files is short for what both ends should have.
func files(pairs ...string) map[string]string {
	m := make(map[string]string)
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = pairs[i+1]
	}
	return m
}
