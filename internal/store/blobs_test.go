package store

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

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

// TestAnObjectIsNotKeptUnlessEveryChunkWasTaken has NATS take nothing for a
// moment, as when another server of a cluster takes over: what was sent then
// must not come to stand behind what was sent later.
func TestAnObjectIsNotKeptUnlessEveryChunkWasTaken(t *testing.T) {
	n, s, _ := external(t)
	blobs, err := s.OpenBlobs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Repeat("0123456789", 3*blobChunk/10)
	w, err := blobs.New(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(w, text[:blobChunk]); err != nil {
		t.Fatal(err)
	}
	if err := n.DisableJetStream(); err != nil {
		t.Fatal(err)
	}
	_, failed := io.WriteString(w, text[blobChunk:])
	if err := s.state.conn.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := n.EnableJetStream(&server.JetStreamConfig{StoreDir: n.dir}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Commit(vfs.Sum{}); protocol.CodeOf(errors.Join(failed, err)) != protocol.VFSUnavailable {
		t.Errorf("chunks that nobody took: %v, %v", failed, err)
	}
	if empty, err := blobs.Empty(t.Context()); !empty || err != nil {
		t.Errorf("half an object is there, %v", err)
	}
	info, err := inspect(t.Context(), s.state, "OBJ_aibridge-files")
	if err != nil || info.State.Messages > 1 { // NATS now and then stores one that it said nobody takes
		t.Errorf("%d chunks of it are there, %v", info.State.Messages, err)
	}
	// The same is done again by whoever wanted it.
	w, err = blobs.New(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(text); i += 1000 { // in pieces of any size
		if _, err := io.WriteString(w, text[i:min(i+1000, len(text))]); err != nil {
			t.Fatal(err)
		}
	}
	key, err := w.Commit(vfs.Sum{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := blobs.bucket.GetBytes(t.Context(), key) // NATS checks its sum
	if err != nil || string(r) != text {
		t.Errorf("read %d bytes, %v", len(r), err)
	}
}
