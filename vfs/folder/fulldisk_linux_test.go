package folder

import (
	"crypto/sha256"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/aibridge/aibridge/internal/smalldisk"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/vfs"
)

// keep writes a blob as far as that goes.
func keep(t *testing.T, b *Blobs, content []byte) error {
	t.Helper()
	w, err := b.New(t.Context())
	if err != nil {
		return err
	}
	defer w.Abort()
	if _, err := w.Write(content); err != nil {
		return err
	}
	_, err = w.Commit(vfs.Sum(sha256.Sum256(content)))
	return err
}

// TestBlobsAreKeptAgainOnceTheDiskTakesThem has the disk full, and the process
// out of descriptors. What fails leaves nothing behind.
func TestBlobsAreKeptAgainOnceTheDiskTakesThem(t *testing.T) {
	smalldisk.Run(t, 16<<20, func(t *testing.T, d *smalldisk.Disk) {
		b := open(t, filepath.Join(d.Dir, "blobs"))
		content := make([]byte, 1<<20)
		d.Fill(t)
		if err := keep(t, b, content); protocol.CodeOf(err) != protocol.NoSpace {
			t.Errorf("on a full disk: %v", err)
		}
		d.Free(t)
		var limit syscall.Rlimit
		if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
			t.Fatal(err)
		}
		none := limit
		none.Cur = 3
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &none); err != nil {
			t.Fatal(err)
		}
		err := keep(t, b, content)
		if e := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); e != nil {
			t.Fatal(e)
		}
		if protocol.CodeOf(err) != protocol.VFSUnavailable {
			t.Errorf("without descriptors: %v", err)
		}
		if got := keys(t, b); got != nil {
			t.Errorf("what failed is there: %v", got)
		}
		if left, _ := filepath.Glob(filepath.Join(b.dir, "tmp", "*")); left != nil {
			t.Errorf("what failed is left: %v", left)
		}
		if err := keep(t, b, content); err != nil {
			t.Error(err)
		}
	})
}
