package store

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/vfs"
	"github.com/aibridge/aibridge/vfs/vfstest"
)

func TestFilesInABucketKeepThePromises(t *testing.T) {
	vfstest.Run(t, func(t *testing.T) vfs.Files {
		s := open(t, embedded(t, t.TempDir()), Options{})
		blobs, err := s.OpenBlobs(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		records := NewTable[vfs.Record](s, "vfsfile")
		files := vfs.NewStore(vfs.StoreOptions{Records: records, Blobs: blobs, Atomic: func(ctx context.Context, changes []vfs.Change) error {
			ops := make([]Op, len(changes))
			for i, c := range changes {
				if ops[i] = records.PutOp(c.Key, c.Record, c.Revision); c.Revision == 0 {
					ops[i] = records.CreateOp(c.Key, c.Record)
				}
			}
			return s.Atomic(ctx, ops...)
		}})
		load(t, s)
		return files.Space(protocol.DefaultSpace)
	})
}

func TestABucketsBlobIsSeenOnceItIsWhole(t *testing.T) {
	s := open(t, embedded(t, t.TempDir()), Options{})
	blobs, err := s.OpenBlobs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	keys := func() (all []string) {
		if err := blobs.All(t.Context(), func(key string, _ time.Time) bool { all = append(all, key); return true }); err != nil {
			t.Fatal(err)
		}
		return all
	}
	text := strings.Repeat("0123456789", 50_000)
	for _, commit := range []bool{false, true} {
		w, err := blobs.New(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, text); err != nil {
			t.Fatal(err)
		}
		if got := keys(); len(got) != 0 {
			t.Fatalf("seen before it is committed: %v", got)
		}
		if !commit {
			w.Abort()
			continue
		}
		key, err := w.Commit(vfs.Sum{})
		if err != nil {
			t.Fatal(err)
		}
		if got := keys(); len(got) != 1 || got[0] != key {
			t.Fatalf("there are %v", got)
		}
		r, err := blobs.Open(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		if data, err := io.ReadAll(r); string(data) != text || err != nil {
			t.Fatalf("read %d bytes, %v", len(data), err)
		}
		for range 2 {
			if err := blobs.Remove(t.Context(), key); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := blobs.Open(t.Context(), key); protocol.CodeOf(err) != protocol.FileNotFound {
			t.Fatalf("opened a removed blob: %v", err)
		}
	}
}
