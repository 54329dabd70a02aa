package vfs_test

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/vfs"
)

// blobOf is the file of a version's own blob.
func (w *world) blobOf(f vfs.File) string {
	w.t.Helper()
	for _, r := range w.records.All() {
		for _, v := range r.Versions {
			if v.Number == f.Version && r.Path == f.Path {
				return filepath.Join(w.dir, "blobs", v.Blob[:2], v.Blob)
			}
		}
	}
	w.t.Fatalf("%+v has no blob", f)
	return ""
}

// rot changes a byte of a file.
func rot(t *testing.T, name string, at int) {
	t.Helper()
	data, err := os.ReadFile(name)
	if err == nil {
		data[at] ^= 1
		err = os.WriteFile(name, data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A chunk that a disk has damaged is not shared with whoever sends all of a new
// version, and is seen by whoever sends only what changed before it.
func TestADamagedChunkIsNotShared(t *testing.T) {
	old := noise(1, 8*vfs.ChunkSize)
	fresh := bytes.Clone(old)
	fresh[0]++
	t.Run("sent whole", func(t *testing.T) {
		w := open(t)
		first := w.putBytes("f", old)
		rot(t, w.blobOf(first), 5*vfs.ChunkSize)
		before := w.disk()
		second := w.putBytes("f", fresh)
		w.has(second, fresh)
		if grown := w.disk() - before; grown > 2*vfs.ChunkSize+listed {
			t.Errorf("%d bytes were written for the chunk that changed and the damaged one", grown)
		}
	})
	t.Run("delta", func(t *testing.T) {
		w := open(t)
		first := w.putBytes("f", old)
		rot(t, w.blobOf(first), 5*vfs.ChunkSize)
		_, err := w.putDelta("f", first, old, fresh)
		code(t, err, protocol.SyncFailed)
		w.has(w.putBytes("f", fresh), fresh)
	})
	t.Run("delta of what is cut", func(t *testing.T) {
		w := open(t)
		first := w.putBytes("f", old)
		if err := os.Truncate(w.blobOf(first), 5*vfs.ChunkSize); err != nil {
			t.Fatal(err)
		}
		_, err := w.putDelta("f", first, old, fresh)
		code(t, err, protocol.SyncFailed)
		w.has(w.putBytes("f", fresh), fresh)
	})
}

// Damage that a reader has found keeps everybody from sharing the blobs of the
// version, over a restart too, until it is stored anew.
func TestADamagedVersionIsStoredAnew(t *testing.T) {
	old := noise(1, 8*vfs.ChunkSize)
	fresh, newest := bytes.Clone(old), bytes.Clone(old)
	fresh[0]++
	newest[3*vfs.ChunkSize]++
	for what, harm := range map[string]func(t *testing.T, w *world, first, second vfs.File){
		"a shared chunk": func(t *testing.T, w *world, first, second vfs.File) { rot(t, w.blobOf(first), 5*vfs.ChunkSize) },
		"an own chunk":   func(t *testing.T, w *world, first, second vfs.File) { rot(t, w.blobOf(second), 5) },
		"the list":       func(t *testing.T, w *world, first, second vfs.File) { rot(t, w.blobOf(second), vfs.ChunkSize+30) },
		"a lost blob": func(t *testing.T, w *world, first, second vfs.File) {
			if err := os.Remove(w.blobOf(first)); err != nil {
				t.Fatal(err)
			}
		},
		"a lost list": func(t *testing.T, w *world, first, second vfs.File) {
			if err := os.Remove(w.blobOf(second)); err != nil {
				t.Fatal(err)
			}
		},
	} {
		for _, restart := range []bool{false, true} {
			t.Run(what, func(t *testing.T) {
				w := open(t)
				first := w.putBytes("f", old)
				second, err := w.putDelta("f", first, old, fresh)
				if err != nil {
					t.Fatal(err)
				}
				harm(t, w, first, second)
				if got, err := w.read("f", 0); protocol.CodeOf(err) != protocol.SyncFailed || len(got) == len(fresh) {
					t.Fatalf("damaged, it reads %d bytes, %v", len(got), err)
				}
				if restart {
					w.start()
				}
				if f, err := w.putDelta("f", second, fresh, newest); err == nil {
					w.has(f, newest)
				} else if code(t, err, protocol.SyncFailed); true {
					w.has(w.putBytes("f", newest), newest)
				}
				w.has(w.putBytes("f", fresh), fresh)
				w.has(w.putBytes("copy", fresh), fresh)
			})
		}
	}
}

// What is found damaged while a content comes that shares chunks with it, is not
// relied on.
func TestAnUploadUnderWayDoesNotShareWhatIsFoundDamaged(t *testing.T) {
	w := open(t)
	old := noise(1, 8*vfs.ChunkSize)
	fresh := bytes.Clone(old)
	fresh[len(fresh)-1]++
	first := w.putBytes("f", old)
	meddle := func() {
		rot(t, w.blobOf(first), 10)
		if _, err := w.read("f", 0); err == nil {
			t.Error("the damage was not found")
		}
	}
	content := io.MultiReader(bytes.NewReader(fresh[:6*vfs.ChunkSize]), &meddler{bytes.NewReader(fresh[6*vfs.ChunkSize:]), meddle})
	_, err := w.files.Put(t.Context(), "g", "f", content, vfs.PutOptions{Size: int64(len(fresh))})
	code(t, err, protocol.SyncFailed)
	w.has(w.putBytes("f", fresh), fresh)
}
