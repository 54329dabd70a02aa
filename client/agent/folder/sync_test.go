package folder

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/internal/leaks"
	"github.com/aibridge/aibridge/vfs"
	"github.com/aibridge/aibridge/vfs/mirror"
	"github.com/aibridge/aibridge/vfs/vfstest"
)

func TestMain(m *testing.M) { leaks.Verify(m) }

// A device has a folder that is kept the same as the disk of the Cap "home".
type device struct {
	t      *testing.T
	dir    string
	memory *vfstest.Memory
	files  *vfstest.Faulty
	*Folder
	stop func()
}

func newDevice(t *testing.T, memory *vfstest.Memory) *device {
	t.Helper()
	d := &device{t: t, dir: t.TempDir(), memory: memory, files: vfstest.NewFaulty(memory)}
	d.start()
	t.Cleanup(func() { d.stop() })
	return d
}

func (d *device) start() {
	d.t.Helper()
	f, err := Open(Options{Dir: d.dir, Cap: "home", Files: d.files, Interval: 50 * time.Millisecond})
	if err != nil {
		d.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f.Run(ctx) }()
	d.Folder = f
	d.stop = func() {
		cancel()
		if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
			d.t.Error(err)
		}
		d.stop = func() {}
	}
}

func (d *device) write(path, content string) {
	d.t.Helper()
	at := filepath.Join(d.dir, path)
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		d.t.Fatal(err)
	}
	if err := os.WriteFile(at, []byte(content), 0o755); err != nil {
		d.t.Fatal(err)
	}
}

func (d *device) holds(path, content string) func() bool {
	return func() bool {
		data, err := os.ReadFile(filepath.Join(d.dir, path))
		return err == nil && string(data) == content
	}
}

func (d *device) there(path, content string) func() bool {
	return func() bool {
		r, _, err := d.memory.Open(d.t.Context(), vfs.MirrorGroup, "home/disk/"+path, 0)
		if err != nil {
			return false
		}
		defer r.Close()
		data, err := io.ReadAll(r)
		return err == nil && string(data) == content
	}
}

func TestTheFilesOfADeviceFollowIt(t *testing.T) {
	memory := vfstest.NewMemory()
	hall, attic := newDevice(t, memory), newDevice(t, memory)
	hall.write("plans/today", "21 degrees")
	eventually.Holds(t, "it is in the VFS", hall.there("plans/today", "21 degrees"))
	eventually.Holds(t, "it is on the other device", attic.holds("plans/today", "21 degrees"))
	if info, err := os.Stat(filepath.Join(attic.dir, "plans/today")); err != nil || info.Mode()&0o111 != 0 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}

	// One device loses its way to the bridge, goes on, and is restarted.
	attic.files.Fail(vfstest.Outage)
	eventually.Holds(t, "the outage is noticed", func() bool { return attic.Status().Circuit != mirror.CircuitClosed })
	attic.write("log", "written alone")
	hall.write("plans/today", "22 degrees")
	eventually.Holds(t, "the other goes on", hall.there("plans/today", "22 degrees"))
	attic.stop()
	attic.write("log", "written alone, and more while nothing ran")
	attic.start()
	attic.files.Fail(vfstest.Healthy)
	eventually.Holds(t, "it catches up", attic.holds("plans/today", "22 degrees"))
	eventually.Holds(t, "so do the others", hall.holds("log", "written alone, and more while nothing ran"))

	if err := os.Remove(filepath.Join(hall.dir, "log")); err != nil {
		t.Fatal(err)
	}
	eventually.Holds(t, "a deletion arrives", func() bool {
		_, err := os.Stat(filepath.Join(attic.dir, "log"))
		return errors.Is(err, os.ErrNotExist)
	})
	eventually.Holds(t, "both are synced", func() bool {
		return hall.Status().Standing == mirror.Synced && attic.Status().Standing == mirror.Synced
	})
}

// A liar lists files that nobody may write.
type liar struct {
	vfs.Files
	told atomic.Bool
}

func (l *liar) List(_ context.Context, group, prefix, _ string, _ int, _ bool) (list []vfs.File, _ string, _ error) {
	for i, path := range []string{"../evil", "a/../../evil", "/tmp/evil", "evil\x00", "x\\evil", "NUL", ".aibridge-sync/evil"} {
		list = append(list, vfs.File{ID: "i", Group: group, Path: prefix + path, Version: uint64(i + 1), Size: 4})
	}
	l.told.Store(true)
	return list, "", nil
}

func (l *liar) Open(_ context.Context, group, path string, version uint64) (io.ReadSeekCloser, vfs.File, error) {
	return nil, vfs.File{}, vfs.NoFile(group, path)
}

// Whatever the VFS calls a file, nothing is written outside the folder.
func TestABridgeThatLiesDoesNotReachTheDevice(t *testing.T) {
	d := newDevice(t, vfstest.NewMemory())
	d.stop()
	lying := &liar{Files: d.memory}
	f, err := Open(Options{Dir: d.dir, Cap: "home", Files: lying, Interval: 10 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- f.Run(ctx) }()
	eventually.Holds(t, "the lies are heard", func() bool { return f.Status().Failed > 0 && lying.told.Load() })
	cancel()
	<-done
	_ = filepath.WalkDir(filepath.Dir(d.dir), func(path string, e os.DirEntry, err error) error {
		if err == nil && strings.Contains(e.Name(), "evil") {
			t.Errorf("%s was written", path)
		}
		return nil
	})
}
