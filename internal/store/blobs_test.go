package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/aibridge/aibridge/internal/eventually"
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

// A jump in an object reads what is there and not what is in between, also when
// others wrote into the bucket meanwhile.
func TestAJumpInABucketsBlobReadsNothingInBetween(t *testing.T) {
	s := open(t, embedded(t, t.TempDir()), Options{})
	blobs, err := s.OpenBlobs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	const chunks = 64
	data := make([]byte, chunks*blobChunk+100)
	for i := range data {
		data[i] = byte(i>>17) ^ byte(i*7)
	}
	var keys []string
	for range 2 { // whose chunks are between each other
		w, err := blobs.New(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer w.Abort()
		other, err := blobs.New(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer other.Abort()
		for i := 0; i < len(data); i += blobChunk {
			part := data[i:min(i+blobChunk, len(data))]
			for n := range 1 + i/blobChunk%3 {
				if _, err := other.Write(part[:len(part)/(n+1)]); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := w.Write(part); err != nil {
				t.Fatal(err)
			}
		}
		key, err := w.Commit(vfs.Sum{})
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, key)
	}
	for _, key := range keys {
		r, err := blobs.Open(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		for _, at := range []int{len(data) - 1, 0, 28*blobChunk + 5, 29 * blobChunk, chunks*blobChunk - 1, (chunks - 1) * blobChunk, 3} {
			want := data[at:min(at+1000, len(data))]
			got := make([]byte, len(want))
			var read uint64
			eventually.Holds(t, fmt.Sprintf("little is read for %d bytes from %d on", len(want), at), func() bool { // what is late is asked for again
				before := s.state.conn.Stats().InBytes
				if _, err := r.Seek(int64(at), io.SeekStart); err != nil {
					t.Fatal(err)
				}
				if _, err := io.ReadFull(r, got); err != nil || !bytes.Equal(got, want) {
					t.Fatalf("from %d on it is something else, %v", at, err)
				}
				read = s.state.conn.Stats().InBytes - before
				return read <= 4*blobAhead*blobChunk
			}, &read)
		}
		if _, err := r.Seek(0, io.SeekStart); err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, data) {
			t.Errorf("the whole has %d bytes instead of %d, %v", len(got), len(data), err)
		}
	}
}

// An object of an earlier release, or of another client, is read from anywhere.
func TestAJumpInAnObjectWithoutNumbers(t *testing.T) {
	s := open(t, embedded(t, t.TempDir()), Options{})
	blobs, err := s.OpenBlobs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	data := bytes.Repeat([]byte("0123456789"), 300_000)
	if _, err := blobs.bucket.PutBytes(t.Context(), "old", data); err != nil {
		t.Fatal(err)
	}
	r, err := blobs.Open(t.Context(), "old")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for _, at := range []int{len(data) - 5, 7, 2_000_003} {
		if _, err := r.Seek(int64(at), io.SeekStart); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, 5)
		if _, err := io.ReadFull(r, got); err != nil || !bytes.Equal(got, data[at:at+5]) {
			t.Fatalf("from %d on it is %q, %v", at, got, err)
		}
	}
}
