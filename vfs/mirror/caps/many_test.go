package caps

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/aibridge/aibridge/internal/records/recordstest"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/vfs"
	"github.com/aibridge/aibridge/vfs/vfstest"
)

// many declares Caps and waits until all are mirrored.
func (h *house) many(count int) {
	h.t.Helper()
	for i := range count {
		h.declare(capNumber(i), `{}`)
	}
	h.until("all are mirrored", func() bool {
		files := 0
		for cursor := ""; ; {
			list, next, err := h.kept.List(h.t.Context(), vfs.MirrorGroup, "", cursor, vfs.MaxLimit, false)
			if err != nil {
				h.t.Fatal(err)
			}
			if files += len(list); next == "" {
				return files >= count*len(documents)
			}
			cursor = next
		}
	})
}

func capNumber(i int) protocol.CapID { return protocol.CapID(fmt.Sprintf("cap%d", i)) }

// openFiles is the number of descriptors that the process has, 0 where nobody can tell.
func openFiles() int {
	list, _ := os.ReadDir("/proc/self/fd")
	return len(list)
}

// put has a program write a file in the folder of a Cap.
func (h *house) put(id protocol.CapID, name, content string) {
	h.t.Helper()
	at := filepath.Join(h.dir, "default", string(id), Disk, name)
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		h.t.Fatal(err)
	}
	if err := os.WriteFile(at, []byte(content), 0o644); err != nil {
		h.t.Fatal(err)
	}
}

// idle waits until no turn is under way and all engines but a few are closed.
func (h *house) idle(open int) {
	h.t.Helper()
	h.until("the mirrors rest", func() bool {
		h.Service.mu.Lock()
		defer h.Service.mu.Unlock()
		return h.engines <= open && len(h.turns.free) == 0
	})
}

// A Cap with nothing to do costs neither a descriptor nor a goroutine, and is
// mirrored in real time all the same. AIBRIDGE_CAPS says how many are tried.
func TestManyCapsCostLittle(t *testing.T) {
	count, err := strconv.Atoi(os.Getenv("AIBRIDGE_CAPS"))
	if err != nil {
		count = 300
	}
	store := vfs.NewStore(vfs.StoreOptions{Records: recordstest.New[vfs.Record](), Blobs: vfstest.NewBlobs()}).Space(protocol.DefaultSpace)
	h := newHouse(t, func(o *Options) {
		o.Open, o.Poll, o.Files = 4, time.Second, func(protocol.SpaceID) vfs.Files { return store }
	})
	h.kept = store
	h.set.Interval, h.patience = time.Hour, time.Duration(count)*20*time.Millisecond
	files, goroutines := openFiles(), runtime.NumGoroutine()
	began := time.Now()
	h.many(count)
	t.Logf("%d Caps mirrored after %v", count, time.Since(began))
	h.idle(4)
	h.until("few descriptors are open", func() bool { return openFiles()-files <= 4*4+8 })
	h.until("few goroutines run", func() bool { return runtime.NumGoroutine()-goroutines <= 16 })
	t.Logf("%d descriptors, %d goroutines, %d watched folders", openFiles()-files, runtime.NumGoroutine()-goroutines, h.watcher.Watched())
	for _, i := range []int{0, count / 2, count - 1} {
		id := capNumber(i)
		began := time.Now()
		h.put(id, "d/plan", string(id))
		h.until("it arrives", func() bool { return h.there(string(id)+"/disk/d/plan") == string(id) })
		t.Logf("a file of %s arrives after %v", id, time.Since(began))
	}
}

// Where the system tells of no more folders, they are scanned, and that is said.
func TestFoldersThatAreNotWatchedAreScanned(t *testing.T) {
	h := newHouse(t, func(o *Options) { o.Watches, o.Scan = 4, 50*time.Millisecond })
	h.set.Interval = time.Hour
	h.many(10)
	var scanned protocol.CapID
	h.until("some are scanned", func() bool {
		watched := 0
		for i := range 10 {
			st, err := h.Status(t.Context(), call(owner), StatusParams{Cap: capNumber(i)})
			switch {
			case err != nil:
				t.Fatal(err)
			case st.Noticed == "at_once" && st.Degraded == "":
				watched++
			case st.Noticed == "by_scan" && st.Degraded != "":
				scanned = capNumber(i)
			default:
				t.Fatalf("%+v", st)
			}
		}
		return watched > 0 && scanned != ""
	})
	h.put(scanned, "plan", "found by a scan")
	h.until("it arrives", func() bool { return h.there(string(scanned)+"/disk/plan") == "found by a scan" })
}

// Mirrors come and go while others work; nothing is left of those that went.
func TestMirrorsComeAndGo(t *testing.T) {
	h := newHouse(t, func(o *Options) { o.Open = 2 })
	h.many(20)
	for round := range 5 {
		for i := range 20 {
			if i%5 == round {
				h.remove(capNumber(i))
				h.declare(capNumber(i), fmt.Sprintf(`{"round":%d}`, round))
			}
		}
	}
	for i := range 20 {
		path := string(capNumber(i)) + "/cap.json"
		h.until("the last declaration arrives", func() bool { return h.there(path) == fmt.Sprintf(`{"round":%d}`, i%5) })
	}
	for i := range 20 {
		h.remove(capNumber(i))
	}
	h.until("all have ended", func() bool {
		h.Service.mu.Lock()
		defer h.Service.mu.Unlock()
		return len(h.mirrors)+len(h.ending)+h.engines+len(h.turns.queue) == 0
	})
	if n := h.watcher.Watched(); n != 0 {
		t.Errorf("%d folders are still watched", n)
	}
}

// What waits for a VFS that is away is sent when it is back, by mirrors that
// rest as well.
func TestMirrorsThatRestCatchUp(t *testing.T) {
	h := newHouse(t, func(o *Options) { o.Open = 1 })
	h.many(5)
	h.vfs.Fail(vfstest.Outage)
	for i := range 5 {
		h.put(capNumber(i), "plan", "written meanwhile")
	}
	h.until("the VFS is found to be away", func() bool {
		st, err := h.Status(context.Background(), call(owner), StatusParams{Cap: capNumber(0)})
		return err == nil && st.Circuit != "closed"
	})
	h.vfs.Fail(vfstest.Healthy)
	for i := range 5 {
		h.until("it arrives", func() bool { return h.there(string(capNumber(i))+"/disk/plan") == "written meanwhile" })
	}
}
