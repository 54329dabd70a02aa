package store

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/vfs"
)

// TestWhatTheDiskOfNATSDamagedIsWrittenAnew changes a byte of a content in the
// bucket's file while NATS is down.
func TestWhatTheDiskOfNATSDamagedIsWrittenAnew(t *testing.T) {
	t.Parallel() // it waits for a chunk that does not come
	dir := t.TempDir()
	text := strings.Repeat("0123456789", 30_000)
	start := func() (files vfs.Files, bucket string, stop func()) {
		n := embedded(t, dir)
		s := open(t, n, Options{})
		blobs, err := s.OpenBlobs(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		store := vfs.NewStore(vfs.StoreOptions{Records: NewTable[vfs.Record](s, "vfsfile"), Blobs: blobs})
		load(t, s)
		return store.Space(protocol.DefaultSpace), blobs.name, func() { s.Close(); n.Close() }
	}
	read := func(files vfs.Files, path string) (string, error) {
		r, _, err := files.Open(t.Context(), "g", path, 0)
		if err != nil {
			return "", err
		}
		defer r.Close()
		data, err := io.ReadAll(r)
		return string(data), err
	}
	put := func(files vfs.Files, path string) vfs.File {
		t.Helper()
		f, err := files.Put(t.Context(), "g", path, strings.NewReader(text), vfs.PutOptions{Size: -1})
		if err != nil {
			t.Fatal(err)
		}
		return f
	}

	files, bucket, stop := start()
	put(files, "f")
	stop()
	block := filepath.Join(dir, "state", "jetstream", "$G", "streams", "OBJ_"+bucket, "msgs", "1.blk")
	data, err := os.ReadFile(block)
	if err != nil {
		t.Fatal(err)
	}
	data[bytes.Index(data, []byte("0123456789012345"))+5] ^= 1
	if err := os.WriteFile(block, data, 0o600); err != nil {
		t.Fatal(err)
	}

	files, _, stop = start()
	if got, err := read(files, "f"); protocol.CodeOf(err) != protocol.SyncFailed || got == text {
		t.Fatalf("damaged, it reads %d bytes, %v", len(got), err)
	}
	stop()
	files, _, _ = start() // it is remembered
	for _, path := range []string{"new", "f"} {
		put(files, path)
		if got, err := read(files, path); err != nil || got != text {
			t.Errorf("%s reads %d bytes of %d, %v", path, len(got), len(text), err)
		}
	}
	if f, again := put(files, "f"), put(files, "f"); f != again {
		t.Errorf("whole again, it is stored once more: %+v after %+v", again, f)
	}
}
