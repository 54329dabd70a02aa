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
	"github.com/aibridge/aibridge/vfs"
	"github.com/aibridge/aibridge/vfs/mirror"
	"github.com/aibridge/aibridge/vfs/vfstest"
)

// A desk takes reports, and gives orders.
type desk struct {
	mu     sync.Mutex
	orders Orders
	err    error
	last   Report
	obeyed []Obeyed
	count  int
}

func (d *desk) take(_ context.Context, r Report, done []Obeyed) (Orders, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.last, d.obeyed = r, done
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
	return reportingOn(t, d, vfstest.NewMemory())
}

func reportingOn(t *testing.T, d *desk, files vfs.Files) (*Folder, string) {
	t.Helper()
	dir := t.TempDir()
	f, err := Open(Options{Dir: dir, Cap: "home", Files: files, Interval: 20 * time.Millisecond, Origin: "hall"})
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

// A copy that lost on a device is told of, and brought back once when the bridge
// orders it, however often it does.
func TestALostCopyIsRestoredByOrder(t *testing.T) {
	var d desk
	files := vfstest.NewMemory()
	f, dir := reportingOn(t, &d, files)
	name := filepath.Join(dir, "plan.txt")
	put := func(content string) {
		if _, err := files.Put(t.Context(), vfs.MirrorGroup, "home/disk/plan.txt", strings.NewReader(content), vfs.PutOptions{Size: -1}); err != nil {
			t.Error(err)
		}
	}
	write := func(content string) {
		if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
			t.Error(err)
		}
	}
	holds := func(content string) func() bool {
		return func() bool { data, _ := os.ReadFile(name); return string(data) == content }
	}
	d.order(Orders{Paused: true})
	eventually.Holds(t, "it pauses", func() bool { return f.Status().Paused })
	write("mine")
	put("theirs")
	d.order(Orders{})
	eventually.Holds(t, "the copy that lost is told of", func() bool { r, _ := d.heard(); return len(r.Lost) == 1 && holds("theirs")() })
	lost, _ := d.heard()
	copied := lost.Lost[0]
	if copied.Path != "plan.txt" || copied.Size != 4 || copied.Time == 0 {
		t.Errorf("%+v", copied)
	}
	again := Restore{ID: 7, Path: copied.Path, Checksum: copied.Checksum}
	d.order(Orders{Restore: []Restore{again,
		{ID: 8, Path: "plan.txt", Checksum: strings.Repeat("0", 64)}, {ID: 9, Path: "../plan.txt", Checksum: copied.Checksum}, {ID: 10, Path: "plan.txt", Checksum: "x"}}})
	confirmed := func() []Obeyed {
		d.mu.Lock()
		defer d.mu.Unlock()
		return d.obeyed
	}
	eventually.Holds(t, "it is confirmed", func() bool { return len(confirmed()) == 4 })
	for i, result := range confirmed() {
		if result.ID != int64(7+i) || (result.Reason == "") != (i == 0) {
			t.Errorf("%+v", result)
		}
	}
	eventually.Holds(t, "it is at both ends", func() bool {
		r, err := vfs.GetAll(t.Context(), files, vfs.MirrorGroup, []string{"home/disk/plan.txt"})
		return err == nil && string(r[0].Data) == "mine" && holds("mine")()
	})
	write("edited since")
	_, before := d.heard()
	eventually.Holds(t, "it is ordered again", func() bool { _, n := d.heard(); return n > before+2 })
	if !holds("edited since")() {
		t.Error("the order was carried out twice")
	}
	d.order(Orders{})
	eventually.Holds(t, "the order is over", func() bool { return len(confirmed()) == 0 })
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
