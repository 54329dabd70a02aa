package vfstest

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"math/rand/v2"
	"slices"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/vfs"
)

// large changes a large file a little, again and again, by deltas and as a whole.
// Every version keeps its content.
func (w *world) large() {
	content := make([]byte, 5*vfs.ChunkSize+17)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(content)
	contents := map[uint64][]byte{}
	f, err := w.Put(w.ctx, g, "large", bytes.NewReader(content), unknown)
	if err != nil {
		w.Fatal(err)
	}
	contents[f.Version] = content
	edits := []func(old []byte) []byte{
		func(old []byte) []byte { old[3*vfs.ChunkSize]++; return old },
		func(old []byte) []byte { return append(old, "and more"...) },
		func(old []byte) []byte { old[0]++; old[len(old)-1]++; return old },
		func(old []byte) []byte { return old[:len(old)-vfs.ChunkSize/2] },
	}
	for i, edit := range slices.Concat(edits, edits) {
		fresh := edit(bytes.Clone(content))
		if f, err = w.edit(f, content, fresh, i%2 == 0); err != nil {
			w.Fatal(err)
		}
		content, contents[f.Version] = fresh, fresh
	}
	for version, want := range contents {
		if w.read("large", version) != string(want) {
			w.Fatalf("version %d has another content", version)
		}
	}
	w.ranges(content)
	w.sums(f, content)
	other := bytes.Clone(content)
	other[0]++
	_, err = w.edit(vfs.File{Version: f.Version + 1000}, content, other, false)
	w.fails(protocol.FileNotFound, "a change of a version that never was", err)
	if w.read("large", 0) != string(content) {
		w.Fatal("a refused change did something")
	}
	if _, err := vfs.PutCopy(w.ctx, w.Files, g, "copy", vfs.Source{Path: "large", Version: f.Version}, vfs.PutOptions{Size: f.Size, SHA256: &f.SHA256}); err != nil {
		w.Fatal(err)
	}
	if w.read("copy", 0) != string(content) {
		w.Fatal("the copy has another content")
	}
}

// edit stores a content as a whole, or as a delta to a version.
func (w *world) edit(before vfs.File, old, fresh []byte, whole bool) (vfs.File, error) {
	sum := vfs.Sum(sha256.Sum256(fresh))
	o := vfs.PutOptions{Size: int64(len(fresh)), SHA256: &sum}
	if whole {
		return w.Put(w.ctx, g, "large", bytes.NewReader(fresh), o)
	}
	d := vfs.Delta{Base: before.Version, Keep: vfs.Unchanged(chunkSums(old), chunkSums(fresh))}
	var send []byte
	at := int64(0)
	for _, run := range d.Keep {
		send = append(send, fresh[at:run.First*vfs.ChunkSize]...)
		at = min((run.Last+1)*vfs.ChunkSize, int64(len(fresh)))
	}
	return vfs.PutChanged(w.ctx, w.Files, g, "large", d, bytes.NewReader(append(send, fresh[at:]...)), o)
}

func chunkSums(data []byte) []vfs.Sum {
	var h vfs.ChunkHasher
	_, _ = h.Write(data)
	return h.Sums()
}

// ranges reads parts across the borders of chunks.
func (w *world) ranges(want []byte) {
	r, _, err := w.Open(w.ctx, g, "large", 0)
	if err != nil {
		w.Fatal(err)
	}
	defer r.Close()
	for _, at := range []int{3*vfs.ChunkSize - 1, 0, len(want) - 10, vfs.ChunkSize + 5, len(want)} {
		part := make([]byte, min(vfs.ChunkSize+2, len(want)-at))
		if _, err := r.Seek(int64(at), io.SeekStart); err != nil {
			w.Fatal(err)
		}
		if _, err := io.ReadFull(r, part); err != nil || !bytes.Equal(part, want[at:at+len(part)]) {
			w.Fatalf("%d bytes from %d on are others, %v", len(part), at, err)
		}
	}
}

// sums asks for the sums of chunks.
func (w *world) sums(f vfs.File, content []byte) {
	c, ok := w.Files.(vfs.Chunked)
	if !ok {
		return
	}
	sums, err := c.Chunks(w.ctx, g, "large", f.Version)
	if err != nil && !errors.Is(err, errors.ErrUnsupported) || err == nil && !slices.Equal(sums, chunkSums(content)) {
		w.Fatalf("%d sums of chunks are others, %v", len(sums), err)
	}
}
