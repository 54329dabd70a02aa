package smalldisk

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// inside is set in the process that has the disk.
const inside = "AIBRIDGE_SMALL_DISK"

// Run runs a test, which must not be a subtest, in another process that has a
// disk of that many bytes at dir. It is skipped where the system does not let all
// users mount file systems for themselves.
func Run(t *testing.T, bytes int64, test func(t *testing.T, d *Disk)) {
	t.Helper()
	if os.Getenv(inside) != "" {
		dir := t.TempDir()
		if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d,mode=0700", bytes)); err != nil {
			t.Skipf("no disk of our own: %v", err)
		}
		t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
		test(t, &Disk{Dir: dir})
		return
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), inside+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
	out, err := cmd.CombinedOutput()
	if failed := (*exec.ExitError)(nil); err != nil && !errors.As(err, &failed) {
		t.Skipf("no disk of our own: %v", err)
	}
	t.Logf("%s", out)
	if err != nil {
		t.Error(err)
	}
}

// A Disk is a small disk.
type Disk struct {
	Dir string // where it is mounted
}

// Fill takes all that is left of the disk.
func (d *Disk) Fill(t testing.TB) {
	t.Helper()
	f, err := os.Create(d.filler())
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for chunk := make([]byte, 1<<20); len(chunk) > 0; { // smaller and smaller
		if _, err := f.Write(chunk); err != nil {
			if !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, io.ErrShortWrite) {
				t.Fatal(err)
			}
			chunk = chunk[:len(chunk)/2]
		}
	}
}

// Free gives it back.
func (d *Disk) Free(t testing.TB) {
	t.Helper()
	if err := os.Remove(d.filler()); err != nil {
		t.Fatal(err)
	}
}

func (d *Disk) filler() string { return filepath.Join(d.Dir, "filler") }
