package store

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/aibridge/aibridge/vfs"
)

var _ vfs.Sweeper = (*Blobs)(nil)

// TestChunksThatACrashLeftAreSweptAway leaves chunks as a killed bridge does,
// while another bridge is in the middle of an upload.
func TestChunksThatACrashLeftAreSweptAway(t *testing.T) {
	t.Parallel()
	n := embedded(t, t.TempDir())
	blobs, err := open(t, n, Options{}).OpenBlobs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	other, err := open(t, n, Options{}).OpenBlobs(t.Context()) // of another bridge
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Repeat("0123456789", 3*blobChunk/10)
	begin := func(b *Blobs) *object {
		t.Helper()
		w, err := b.New(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		o := w.(*object)
		if _, err := io.WriteString(o, text); err != nil {
			t.Fatal(err)
		}
		for o.acked < o.sent {
			if err := o.take(); err != nil {
				t.Fatal(err)
			}
		}
		return o
	}
	commit := func(o *object) string {
		t.Helper()
		key, err := o.Commit(vfs.Sum{})
		if err != nil {
			t.Fatal(err)
		}
		return key
	}
	chunks := func(o *object) bool {
		t.Helper()
		m, err := lastMessage(t.Context(), blobs.store.state, "OBJ_"+blobs.name, o.chunks())
		if err != nil {
			t.Fatal(err)
		}
		return m != nil
	}
	sweep := func(before time.Time, want int) {
		t.Helper()
		if n, err := blobs.Sweep(t.Context(), before); n != want || err != nil {
			t.Fatalf("swept %d away, want %d; %v", n, want, err)
		}
	}
	later := time.Now().Add(time.Hour) // than everything here

	whole := commit(begin(blobs))
	var left []*object
	for range 3 {
		o := begin(other)
		o.end() // and nobody aborts it
		left = append(left, o)
	}
	going := begin(other)
	sweep(time.Now().Add(-time.Hour), 0)
	sweep(time.Now().Add(-time.Hour), 0) // all is young
	sweep(later, 0)                      // for the first time
	if _, err := io.WriteString(going, text); err != nil {
		t.Fatal(err)
	}
	for going.acked < going.sent {
		if err := going.take(); err != nil {
			t.Fatal(err)
		}
	}
	for _, o := range left {
		if !chunks(o) {
			t.Fatal("swept away too early")
		}
	}
	sweep(later, len(left))
	for _, o := range left {
		if chunks(o) {
			t.Error("chunks are still there")
		}
	}
	for key, want := range map[string]string{whole: text, commit(going): text + text} {
		got, err := blobs.bucket.GetBytes(t.Context(), key) // NATS checks its sum
		if err != nil || string(got) != want {
			t.Errorf("read %d bytes of %d, %v", len(got), len(want), err)
		}
	}
	sweep(later, 0)
	sweep(later, 0)
	if _, err := blobs.bucket.GetBytes(t.Context(), whole); err != nil {
		t.Error(err)
	}
}
