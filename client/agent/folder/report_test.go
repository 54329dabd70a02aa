package folder

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/vfs/mirror"
	"github.com/aibridge/aibridge/vfs/vfstest"
)

// A desk takes reports, and gives orders.
type desk struct {
	mu     sync.Mutex
	orders Orders
	err    error
	last   Report
	count  int
}

func (d *desk) take(_ context.Context, r Report) (Orders, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.last = r
	d.count++
	return d.orders, d.err
}

func (d *desk) order(o Orders) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.orders = o
}

func (d *desk) heard() (Report, int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.last, d.count
}

func reporting(t *testing.T, d *desk) (*Folder, string) {
	t.Helper()
	dir := t.TempDir()
	f, err := Open(Options{Dir: dir, Cap: "home", Files: vfstest.NewMemory(), Interval: 20 * time.Millisecond, Origin: "hall"})
	if err != nil {
		t.Fatal(err)
	}
	f.ReportTo(d.take)
	f.every = 20 * time.Millisecond
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return f, dir
}

// What is wrong in a device's folder is told, and what the bridge wants is done.
func TestAFolderIsReported(t *testing.T) {
	var d desk
	f, dir := reporting(t, &d)
	eventually.Holds(t, "it is told that all is well", func() bool {
		r, _ := d.heard()
		return r.Name == "hall" && r.Status == string(mirror.Synced) && r.Free != 0
	})
	if err := os.WriteFile(filepath.Join(dir, "good"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "NUL"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	eventually.Holds(t, "a file that cannot be mirrored is told of", func() bool {
		r, _ := d.heard()
		return r.Failed == 1 && len(r.Problems) == 1 && r.Problems[0].Path == "NUL" && r.Problems[0].Reason != ""
	})
	d.order(Orders{Paused: true})
	eventually.Holds(t, "it pauses", func() bool { return f.Status().Paused })
	d.order(Orders{Rescan: Rescan{Time: 7, Contents: true}})
	eventually.Holds(t, "it goes on", func() bool { return !f.Status().Paused && f.Status().Pending == 0 })
}

// A bridge that knows no reports gets one.
func TestAnOlderBridgeIsToldOnce(t *testing.T) {
	d := desk{err: protocol.Errorf(protocol.UnknownCommand, "no such command")}
	f, dir := reporting(t, &d)
	eventually.Holds(t, "it is told", func() bool { _, n := d.heard(); return n == 1 })
	if err := os.WriteFile(filepath.Join(dir, "good"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	eventually.Holds(t, "it goes on", func() bool { files, _ := f.engine.Files("", 10); return len(files) == 1 })
	if _, n := d.heard(); n != 1 {
		t.Errorf("told %d times", n)
	}
}

func TestReasonsAreShort(t *testing.T) {
	if s := shorten(strings.Repeat("ä", 400), maxReason); len(s) > maxReason+2 || s == "" {
		t.Errorf("%d bytes", len(s))
	}
	if shorten("", 5) == "" {
		t.Error("no reason")
	}
}
