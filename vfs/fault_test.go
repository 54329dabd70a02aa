package vfs_test

import (
	"context"
	"strings"
	"syscall"
	"testing"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/vfs"
)

// A bad disk fails at one operation and at all that follow, until it is mended.
type badDisk struct {
	vfs.Blobs
	left int  // operations until it fails, less than 0 for never
	full bool // it has failed
}

func (d *badDisk) fails() error {
	if d.left == 0 {
		d.full = true
		return protocol.Wrap(protocol.NoSpace, syscall.ENOSPC, "no space left on the disk")
	}
	d.left--
	return nil
}

func (d *badDisk) New(ctx context.Context) (vfs.Blob, error) {
	if err := d.fails(); err != nil {
		return nil, err
	}
	b, err := d.Blobs.New(ctx)
	return &badBlob{b, d}, err
}

type badBlob struct {
	vfs.Blob
	disk *badDisk
}

func (b *badBlob) Write(p []byte) (int, error) {
	if err := b.disk.fails(); err != nil {
		n, _ := b.Blob.Write(p[:len(p)/2]) // as a disk does that fills up
		return n, err
	}
	return b.Blob.Write(p)
}

func (b *badBlob) Commit(sum vfs.Sum) (string, error) {
	if err := b.disk.fails(); err != nil {
		return "", err
	}
	key, err := b.Blob.Commit(sum)
	if failed := b.disk.fails(); failed != nil {
		return key, failed // it is there, but not durably
	}
	return key, err
}

// Wherever the disk under the store fills up, what was there before stays as it
// was, nothing half is seen, no room is lost, and all goes on once there is
// room again.
func TestADiskThatFillsUpTakesNothingWithIt(t *testing.T) {
	const quota = 1 << 20
	large, larger := strings.Repeat("large ", 50_000), strings.Repeat("larger ", 50_000)
	for step := range 40 {
		disk := &badDisk{left: -1}
		w := open(t, func(o *vfs.StoreOptions) {
			disk.Blobs = o.Blobs
			o.Blobs, o.Quota, o.Versions = disk, quota, 1
		})
		w.put("small", "small")
		w.put("large", large)
		disk.left = step
		failures := 0
		tell := func(err error) bool {
			if err != nil {
				code(t, err, protocol.NoSpace)
				failures++
			}
			return err == nil
		}
		put := func(path, text string) bool {
			_, err := w.files.Put(t.Context(), "g", path, strings.NewReader(text), vfs.PutOptions{Size: -1})
			return tell(err)
		}
		want := map[string]string{"small": "small", "large": large}
		if put("small", "other") {
			want["small"] = "other"
		}
		if put("large", larger) {
			want["large"] = larger
		}
		results, err := w.files.PutBatch(t.Context(), "g", []vfs.Content{{Path: "b/1", Data: []byte("one"), PutOptions: vfs.PutOptions{Size: -1}},
			{Path: "b/2", Data: []byte("two"), PutOptions: vfs.PutOptions{Size: -1}}})
		for i := range results {
			if err == nil && tell(results[i].Err) {
				want[[]string{"b/1", "b/2"}[i]] = []string{"one", "two"}[i]
			}
		}
		if err != nil {
			tell(err)
		}
		if disk.full && failures == 0 {
			t.Fatalf("step %d: the disk was full, and nobody was told", step)
		}
		check := func() {
			t.Helper()
			n := 0
			for f := range w.all() {
				n++
				if text, err := w.read(f.Path, 0); err != nil || text != want[f.Path] {
					t.Fatalf("step %d: %s holds %.20q, %v", step, f.Path, text, err)
				}
			}
			if n != len(want) {
				t.Fatalf("step %d: %d files instead of %d", step, n, len(want))
			}
		}
		check()
		disk.left = -1
		used := 0
		for _, text := range want {
			used += len(text)
		}
		want["rest"] = strings.Repeat("r", quota-used)
		if !put("rest", want["rest"]) {
			t.Fatalf("step %d: room was lost", step)
		}
		w.start(func(o *vfs.StoreOptions) { o.Quota, o.Versions = quota, 1 }) // what is on the disk is what was there
		check()
		if !disk.full {
			return // the disk did not fill up any more
		}
	}
	t.Fatal("the disk always filled up")
}
