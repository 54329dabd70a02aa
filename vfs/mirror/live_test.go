package mirror

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/aibridge/aibridge/internal/eventually"
)

// live runs an engine that has looked at everything once.
func live(t testing.TB, w *world) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- w.engine.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	eventually.Holds(t, "the first look is over", func() bool { return w.engine.Status().Standing == Synced })
}

// Files that arrive while the engine runs travel together, as at the start.
func TestFilesThatArriveTravelTogether(t *testing.T) {
	const count = 1000
	w := newWorld(t, func(o *Options) { o.RealTime, o.Interval = true, time.Hour })
	live(t, w)
	for i := range count {
		w.write(fmt.Sprintf("d%d/f%d", i%7, i), "content")
		if i%100 == 0 {
			w.engine.Suspect() // the VFS has another revision, because of what was sent
		}
	}
	eventually.Holds(t, "all are there", func() bool { return len(w.vfs.all()) == count })
	if puts, stats := w.vfs.count("put"), w.vfs.count("stat"); puts+stats > count/10 {
		t.Errorf("%d puts of single files and %d questions", puts, stats)
	}
}

// So do those that are moved in, folder and all, and those that go.
func TestAFolderThatIsMovedInTravelsTogether(t *testing.T) {
	const count = 1000
	w := newWorld(t, func(o *Options) { o.RealTime, o.Interval = true, time.Hour })
	live(t, w)
	aside := t.TempDir()
	for i := range count {
		writeFile(t, aside, fmt.Sprintf("in/d%d/f%d", i%7, i), "content")
	}
	if err := os.Rename(filepath.Join(aside, "in"), filepath.Join(w.dir, "in")); err != nil {
		t.Fatal(err)
	}
	eventually.Holds(t, "all are there", func() bool { return len(w.vfs.all()) == count })
	if puts, stats := w.vfs.count("put"), w.vfs.count("stat"); puts+stats > count/10 {
		t.Errorf("%d puts of single files and %d questions", puts, stats)
	}
	if err := os.Rename(filepath.Join(w.dir, "in"), filepath.Join(aside, "out")); err != nil {
		t.Fatal(err)
	}
	eventually.Holds(t, "all are gone", func() bool { return len(w.vfs.all()) == 0 })
}

// BenchmarkLive measures files that arrive one by one, until the VFS has them.
func BenchmarkLive(b *testing.B) {
	const count = 3000
	for b.Loop() {
		b.StopTimer()
		w := newWorld(b, func(o *Options) { o.RealTime, o.Interval = true, time.Hour })
		live(b, w)
		b.StartTimer()
		for i := range count {
			w.write(fmt.Sprintf("d%d/f%d", i%7, i), "content")
		}
		eventually.Holds(b, "all are there", func() bool { return w.vfs.size() == count })
	}
	b.ReportMetric(float64(count)*float64(b.N)/b.Elapsed().Seconds(), "files/s")
}
