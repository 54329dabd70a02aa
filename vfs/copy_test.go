package vfs_test

import (
	"crypto/sha256"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/aibridge/aibridge/internal/records/recordstest"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/vfs"
	"github.com/aibridge/aibridge/vfs/vfstest"
)

// A copy shares the blob of what it was made of, and outlives it.
func TestACopySharesTheBlob(t *testing.T) {
	for _, size := range []int{0, 10, 200 << 10} {
		blobs := vfstest.NewBlobs()
		now := time.Now()
		w := open(t, func(o *vfs.StoreOptions) {
			o.Blobs, o.Versions, o.Remember = blobs, 1, time.Hour
			o.Grace = time.Nanosecond
			o.Now = func() time.Time { return now }
		})
		content := strings.Repeat("x", size)
		put := func(path, content string) vfs.File {
			t.Helper()
			f, err := w.files.Put(t.Context(), "g", path, strings.NewReader(content), vfs.PutOptions{Size: -1})
			if err != nil {
				t.Fatal(err)
			}
			return f
		}
		old := put("old", content)
		sum := vfs.Sum(sha256.Sum256([]byte(content)))
		f, err := w.files.PutCopy(t.Context(), "g", "new", vfs.Source{Path: "old", Version: old.Version}, vfs.PutOptions{Size: int64(size), SHA256: &sum})
		if err != nil || f.SHA256 != sum || f.Size != int64(size) {
			t.Fatalf("%+v, %v", f, err)
		}
		put("old", "something else")
		if _, err := w.files.Delete(t.Context(), "g", "old", 0); err != nil {
			t.Fatal(err)
		}
		now = now.Add(2 * time.Hour)
		w.CollectGarbage(t.Context())
		w.CollectGarbage(t.Context())
		r, _, err := w.files.Open(t.Context(), "g", "new", 0)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(r); err != nil || string(got) != content {
			t.Errorf("%d bytes, %v", len(got), err)
		}
		_ = r.Close()
		if _, err := w.files.PutCopy(t.Context(), "g", "again", vfs.Source{Path: "old", Version: old.Version}, vfs.PutOptions{Size: -1}); protocol.CodeOf(err) != protocol.FileNotFound {
			t.Errorf("of what is gone: %v", err)
		}
		if _, err := w.files.PutCopy(t.Context(), "other", "f", vfs.Source{Path: "new", Version: f.Version}, vfs.PutOptions{Size: -1}); protocol.CodeOf(err) != protocol.FileNotFound {
			t.Errorf("from another group: %v", err)
		}
	}
}

// homes has two Caps, of which each principal takes part in the one it is
// called like.
type homes struct{ vfs.Members }

func (homes) MayUseChannel(who *protocol.Principal, id protocol.CapID, _ bool) bool {
	return who.ID == string(id)
}

// In the mirror, who may write to one Cap's disk copies nothing of another Cap.
func TestACopyStaysWithinWhatMayBeRead(t *testing.T) {
	w := open(t)
	s := vfs.New(vfs.Options{Store: w.Store, Groups: recordstest.New[vfs.Group](), Remotes: recordstest.New[vfs.Remote](), Members: homes{}})
	secret, err := w.files.Put(t.Context(), vfs.MirrorGroup, "theirs/disk/f", strings.NewReader("secret"), vfs.PutOptions{Size: -1})
	if err != nil {
		t.Fatal(err)
	}
	for who, want := range map[string]protocol.Code{"mine": protocol.FileNotFound, "theirs": ""} {
		files, err := s.For(t.Context(), &protocol.Principal{ID: who, Space: protocol.DefaultSpace}, vfs.MirrorGroup, true)
		if err != nil {
			t.Fatal(err)
		}
		_, err = vfs.PutCopy(t.Context(), files, vfs.MirrorGroup, who+"/disk/copy", vfs.Source{Path: "theirs/disk/f", Version: secret.Version},
			vfs.PutOptions{Size: secret.Size, SHA256: &secret.SHA256})
		if err == nil && want != "" || err != nil && protocol.CodeOf(err) != want {
			t.Errorf("%s: %v, want %q", who, err, want)
		}
	}
}
