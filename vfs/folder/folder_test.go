package folder

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/vfs"
)

func open(t *testing.T, dir string) *Blobs {
	t.Helper()
	b, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

func keys(t *testing.T, b *Blobs) (all []string) {
	t.Helper()
	if err := b.All(t.Context(), func(key string, modified time.Time) bool {
		if age := time.Since(modified); age < -time.Minute || age > time.Hour {
			t.Errorf("%s is %v old", key, age)
		}
		all = append(all, key)
		return true
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

func TestABlobIsSeenOnceItIsWhole(t *testing.T) {
	dir := t.TempDir()
	b := open(t, dir)
	w, err := b.New(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte("content")); err != nil {
		t.Fatal(err)
	}
	if got := keys(t, b); got != nil {
		t.Fatalf("seen before it is committed: %v", got)
	}
	sum := sha256.Sum256([]byte("content"))
	key, err := w.Commit(vfs.Sum(sum))
	if err != nil || key != hex.EncodeToString(sum[:]) {
		t.Fatalf("committed as %q, %v", key, err)
	}
	w.Abort()
	r, err := b.Open(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if data, err := io.ReadAll(r); string(data) != "content" || err != nil {
		t.Fatalf("read %q, %v", data, err)
	}
	if got := keys(t, b); len(got) != 1 || got[0] != key {
		t.Fatalf("there are %v", got)
	}
	for range 2 {
		if err := b.Remove(t.Context(), key); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := b.Open(t.Context(), key); protocol.CodeOf(err) != protocol.FileNotFound {
		t.Fatalf("opened a removed blob: %v", err)
	}
}

func TestWhatACrashLeavesBehindIsRemoved(t *testing.T) {
	dir := t.TempDir()
	b := open(t, dir)
	if w, err := b.New(t.Context()); err != nil {
		t.Fatal(err)
	} else if _, err := w.Write([]byte("half")); err != nil {
		t.Fatal(err)
	}
	again := open(t, dir)
	if got := keys(t, again); got != nil {
		t.Fatalf("half a blob is seen: %v", got)
	}
	if left, err := os.ReadDir(filepath.Join(dir, "tmp")); err != nil || len(left) != 0 {
		t.Fatalf("tmp holds %v, %v", left, err)
	}
}

func TestNothingOutsideTheFolderIsReached(t *testing.T) {
	b := open(t, t.TempDir())
	for _, key := range []string{"", "..", "../../../../etc/passwd", "ab/../../x", string(make([]byte, 64))} {
		if _, err := b.Open(t.Context(), key); protocol.CodeOf(err) != protocol.FileNotFound {
			t.Errorf("open %q: %v", key, err)
		}
		if err := b.Remove(t.Context(), key); err != nil {
			t.Errorf("remove %q: %v", key, err)
		}
	}
}

func TestALinkDoesNotLeadOut(t *testing.T) {
	outside := t.TempDir()
	dir := t.TempDir()
	if err := os.Symlink(outside, filepath.Join(dir, "blobs")); err != nil {
		t.Skip("no links here")
	}
	if b, err := Open(dir); err == nil {
		b.Close()
		t.Fatal("a folder of blobs was made outside")
	}
}
