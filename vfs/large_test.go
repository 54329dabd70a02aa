package vfs_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/vfs"
)

// noise is content that is nowhere twice.
func noise(seed byte, size int) []byte {
	data := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{seed}).Read(data)
	return data
}

// putBytes stores a content whole.
func (w *world) putBytes(path string, data []byte) vfs.File {
	w.t.Helper()
	return w.put(path, string(data))
}

// deltaOf is the list that makes one content of another, with the parts to send.
func deltaOf(version uint64, old, fresh []byte) (vfs.Delta, []byte) {
	d := vfs.Delta{Base: version, Keep: vfs.Unchanged(chunkSums(old), chunkSums(fresh))}
	var send []byte
	at := int64(0)
	for _, run := range d.Keep {
		send = append(send, fresh[at:run.First*vfs.ChunkSize]...)
		at = min((run.Last+1)*vfs.ChunkSize, int64(len(fresh)))
	}
	return d, append(send, fresh[at:]...)
}

func chunkSums(data []byte) []vfs.Sum {
	var h vfs.ChunkHasher
	_, _ = h.Write(data)
	return h.Sums()
}

// putDelta stores a content as a delta of a version.
func (w *world) putDelta(path string, before vfs.File, old, fresh []byte) (vfs.File, error) {
	d, send := deltaOf(before.Version, old, fresh)
	sum := vfs.Sum(sha256.Sum256(fresh))
	return vfs.PutChanged(w.t.Context(), w.files, "g", path, d, bytes.NewReader(send), vfs.PutOptions{Size: int64(len(fresh)), SHA256: &sum})
}

// has fails if a version has another content, read whole or from the middle.
func (w *world) has(f vfs.File, want []byte) {
	w.t.Helper()
	got, err := w.read(f.Path, f.Version)
	if err != nil || got != string(want) || f.SHA256 != sha256.Sum256(want) {
		w.t.Fatalf("%s at %d reads %d bytes, wanted %d, %v", f.Path, f.Version, len(got), len(want), err)
	}
	r, _, err := w.files.Open(w.t.Context(), "g", f.Path, f.Version)
	if err != nil {
		w.t.Fatal(err)
	}
	defer r.Close()
	for _, at := range []int{len(want) / 2, len(want) - 1, 0, vfs.ChunkSize - 1, len(want)} {
		at = min(at, len(want))
		part := make([]byte, min(2*vfs.ChunkSize+2, len(want)-at))
		if _, err := r.Seek(int64(at), io.SeekStart); err != nil {
			w.t.Fatal(err)
		}
		if _, err := io.ReadFull(r, part); err != nil || !bytes.Equal(part, want[at:at+len(part)]) {
			w.t.Fatalf("%d bytes from %d on are others, %v", len(part), at, err)
		}
	}
}

// disk is the number of bytes that the blobs have.
func (w *world) disk() (n int64) {
	w.t.Helper()
	err := filepath.WalkDir(filepath.Join(w.dir, "blobs"), func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			n += info.Size()
		}
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return n
}

// listed is the most that the list of a content of a few chunks takes.
const listed = 4 << 10

// What is written of a new version are the chunks that changed, whether all of
// it was sent or only those.
func TestOfALargeVersionOnlyWhatChangedIsWritten(t *testing.T) {
	const size = 9*vfs.ChunkSize + 100
	old := noise(1, size)
	edited := func(at int) []byte {
		data := bytes.Clone(old)
		data[at]++
		return data
	}
	for what, change := range map[string]struct {
		to     []byte
		chunks int64 // that are written
	}{
		"a byte at the start":          {edited(0), 1},
		"a byte in the middle":         {edited(size / 2), 1},
		"a byte of the last chunk":     {edited(size - 1), 1},
		"a byte more":                  {append(bytes.Clone(old), 1), 1},
		"two chunks more":              {append(bytes.Clone(old), noise(2, 2*vfs.ChunkSize)...), 3},
		"an end at a chunk":            {old[:7*vfs.ChunkSize], 0},
		"an end in a chunk":            {old[:7*vfs.ChunkSize-10], 1},
		"a byte less":                  {old[:size-1], 1},
		"two chunks swapped":           {append(append(bytes.Clone(old[vfs.ChunkSize:2*vfs.ChunkSize]), old[:vfs.ChunkSize]...), old[2*vfs.ChunkSize:]...), 2},
		"too small to have a list":     {old[:3*vfs.ChunkSize], 3},
		"something else":               {noise(3, size), 10},
		"mostly something else":        {append(noise(4, 7*vfs.ChunkSize), old[7*vfs.ChunkSize:]...), 10},
		"the same":                     {old, 0},
		"a byte inserted at the start": {append([]byte{1}, old...), 10},
	} {
		for _, way := range []string{"whole", "delta"} {
			t.Run(what+" "+way, func(t *testing.T) {
				t.Parallel()
				w := open(t)
				first := w.putBytes("f", old)
				before := w.disk()
				var second vfs.File
				var err error
				if way == "whole" {
					second = w.putBytes("f", change.to)
				} else if second, err = w.putDelta("f", first, old, change.to); err != nil {
					t.Fatal(err)
				}
				if grown := w.disk() - before; grown > change.chunks*vfs.ChunkSize+listed {
					t.Errorf("%d bytes were written, which are more than %d chunks", grown, change.chunks)
				}
				for range 2 {
					w.has(first, old)
					w.has(second, change.to)
					w.start() // what is on the disk is what was there
				}
				if sums, err := w.files.Chunks(t.Context(), "g", "f", second.Version); err == nil {
					want := chunkSums(change.to)
					for i := range want {
						if sums[i] != want[i] {
							t.Fatalf("chunk %d has another sum", i)
						}
					}
				} else if !errors.Is(err, errors.ErrUnsupported) || len(change.to) >= 4*vfs.ChunkSize {
					t.Error(err)
				}
			})
		}
	}
}

// A delta that is not what was announced leaves nothing behind.
func TestADeltaThatIsWrongLeavesNothing(t *testing.T) {
	w := open(t)
	old := noise(1, 8*vfs.ChunkSize)
	first := w.putBytes("f", old)
	fresh := bytes.Clone(old)
	fresh[5*vfs.ChunkSize]++
	d, send := deltaOf(first.Version, old, fresh)
	sum, other := vfs.Sum(sha256.Sum256(fresh)), vfs.Sum{1}
	o := vfs.PutOptions{Size: int64(len(fresh)), SHA256: &sum}
	before := w.disk()
	for what, bad := range map[string]struct {
		delta vfs.Delta
		body  []byte
		o     vfs.PutOptions
		code  protocol.Code
	}{
		"another sum":           {d, send, vfs.PutOptions{Size: o.Size, SHA256: &other}, protocol.SyncFailed},
		"other bytes":           {d, noise(9, len(send)), o, protocol.SyncFailed},
		"too little":            {d, send[1:], o, protocol.SyncFailed},
		"too much":              {d, append(bytes.Clone(send), 1), o, protocol.SyncFailed},
		"no sum":                {d, send, vfs.PutOptions{Size: o.Size}, protocol.InvalidParameter},
		"no size":               {d, send, vfs.PutOptions{Size: -1, SHA256: &sum}, protocol.InvalidParameter},
		"chunks behind the end": {vfs.Delta{Base: d.Base, Keep: []vfs.Run{{First: 0, Last: 8}}}, nil, vfs.PutOptions{Size: 9 * vfs.ChunkSize, SHA256: &sum}, protocol.InvalidParameter},
		"another version":       {vfs.Delta{Base: 1, Keep: d.Keep}, send, o, protocol.FileNotFound},
	} {
		if _, err := vfs.PutChanged(t.Context(), w.files, "g", "f", bad.delta, bytes.NewReader(bad.body), bad.o); protocol.CodeOf(err) != bad.code {
			t.Errorf("%s: %v, want a %s", what, err, bad.code)
		}
	}
	if now, err := w.files.Stat(t.Context(), "g", "f"); err != nil || now != first || w.disk() != before {
		t.Fatalf("there is %+v, %v, on %d bytes instead of %d", now, err, w.disk(), before)
	}
	if left, err := filepath.Glob(filepath.Join(w.dir, "tmp", "*")); err != nil || left != nil {
		t.Errorf("what was refused is left: %v, %v", left, err)
	}
}

// However often a file changes, its versions keep few blobs from being
// collected, and those have no more than twice what the versions have.
func TestManyChangesDoNotPileUp(t *testing.T) {
	w := open(t, func(o *vfs.StoreOptions) { o.Versions, o.Grace = 2, time.Nanosecond })
	data := noise(1, 34*vfs.ChunkSize)
	f := w.putBytes("f", data)
	dice := rand.New(rand.NewPCG(1, 2))
	written := int64(0)
	const changes = 36
	for i := range changes {
		old := data
		data = bytes.Clone(data)
		data[dice.IntN(len(data))]++
		before := w.disk()
		next, err := w.putDelta("f", f, old, data)
		if err != nil {
			t.Fatal(err)
		}
		f = next
		written += w.disk() - before
		w.CollectGarbage(t.Context())
		for _, r := range w.records.All() {
			for _, v := range r.Versions {
				if v.List != nil && len(v.List.Shared) > 16 {
					t.Fatalf("version %d shares %d blobs", i, len(v.List.Shared))
				}
			}
		}
		if disk := w.disk(); disk > 2*2*int64(len(data)) {
			t.Fatalf("two versions of %d bytes take %d after %d changes", len(data), disk, i+1)
		}
	}
	w.has(f, data)
	if most := int64(changes) * 8 * vfs.ChunkSize; written > most {
		t.Errorf("%d changes of a byte wrote %d bytes", changes, written)
	}
	if _, err := w.files.Delete(t.Context(), "g", "f", 0); err != nil {
		t.Fatal(err)
	}
}

// What an earlier release stored has no list. It is read, copied and shared as
// before, and its next version has one.
func TestVersionsOfEarlierReleasesStay(t *testing.T) {
	w := open(t)
	old := noise(1, 8*vfs.ChunkSize)
	first := w.putBytes("f", old)
	for key, r := range w.records.All() {
		name := filepath.Join(w.dir, "blobs", r.Versions[0].Blob[:2], r.Versions[0].Blob)
		if err := os.Truncate(name, int64(len(old))); err != nil {
			t.Fatal(err)
		}
		before := *r
		before.Versions = []vfs.Version{r.Versions[0]}
		before.Versions[0].List = nil
		if _, err := w.records.Put(t.Context(), key, &before); err != nil {
			t.Fatal(err)
		}
	}
	w.start()
	w.has(first, old)
	if _, err := w.files.Chunks(t.Context(), "g", "f", 0); !errors.Is(err, errors.ErrUnsupported) {
		t.Fatalf("sums of chunks: %v", err)
	}
	fresh := bytes.Clone(old)
	fresh[0]++
	second, err := w.putDelta("f", first, old, fresh)
	if err != nil {
		t.Fatal(err)
	}
	before := w.disk()
	newest := bytes.Clone(fresh)
	newest[1]++
	third := w.putBytes("f", newest)
	if grown := w.disk() - before; grown > vfs.ChunkSize+listed {
		t.Errorf("%d bytes were written for a byte", grown)
	}
	w.has(first, old)
	w.has(second, fresh)
	w.has(third, newest)
}

// A copy of a version made of chunks of others outlives all of them.
func TestACopyKeepsSharedChunks(t *testing.T) {
	now := time.Now()
	w := open(t, func(o *vfs.StoreOptions) {
		o.Versions, o.Grace, o.Remember = 1, time.Nanosecond, time.Hour
		o.Now = func() time.Time { return now }
	})
	old := noise(1, 8*vfs.ChunkSize)
	fresh := bytes.Clone(old)
	fresh[0]++
	second, err := w.putDelta("f", w.putBytes("f", old), old, fresh)
	if err != nil {
		t.Fatal(err)
	}
	copied, err := w.files.PutCopy(t.Context(), "g", "copy", vfs.Source{Path: "f", Version: second.Version}, vfs.PutOptions{Size: -1})
	if err != nil {
		t.Fatal(err)
	}
	w.put("f", "something else")
	if _, err := w.files.Delete(t.Context(), "g", "f", 0); err != nil {
		t.Fatal(err)
	}
	now = now.Add(2 * time.Hour)
	w.CollectGarbage(t.Context())
	w.CollectGarbage(t.Context())
	w.has(copied, fresh)
	if _, err := w.files.Delete(t.Context(), "g", "copy", 0); err != nil {
		t.Fatal(err)
	}
	now = now.Add(2 * time.Hour)
	w.CollectGarbage(t.Context())
	if n := w.blobs(); n != 0 {
		t.Errorf("%d blobs are left of nothing", n)
	}
}

// A group pays for every version as if it shared nothing, so what it may still
// store depends on nothing that others have.
func TestSharedChunksCountForEveryVersion(t *testing.T) {
	w := open(t, func(o *vfs.StoreOptions) { o.Quota = 20 * vfs.ChunkSize })
	old := noise(1, 8*vfs.ChunkSize)
	fresh := bytes.Clone(old)
	fresh[0]++
	first := w.putBytes("f", old)
	if _, err := w.putDelta("f", first, old, fresh); err != nil {
		t.Fatal(err)
	}
	if u, err := w.files.Usage(t.Context()); err != nil || u.Used != 16*vfs.ChunkSize {
		t.Fatalf("usage is %+v, %v", u, err)
	}
	_, err := w.files.Put(t.Context(), "g", "other", strings.NewReader(string(noise(2, 15*vfs.ChunkSize))), vfs.PutOptions{Size: -1})
	code(t, err, protocol.NoSpace)
	w.putBytes("other", noise(2, 12*vfs.ChunkSize)) // for which the first version gives way
	w.has(vfs.File{Path: "f", SHA256: sha256.Sum256(fresh)}, fresh)
}

// A disk with less room than the file takes a change of it.
func TestAChangeNeedsRoomForWhatChanged(t *testing.T) {
	var disk *narrow
	w := open(t, func(o *vfs.StoreOptions) {
		disk = &narrow{o.Blobs, 1 << 40}
		o.Blobs = disk
	})
	old := noise(1, 8*vfs.ChunkSize)
	fresh := bytes.Clone(old)
	fresh[0]++
	first := w.putBytes("f", old)
	disk.room = vfs.ChunkSize
	second, err := w.putDelta("f", first, old, fresh)
	if err != nil {
		t.Fatal(err)
	}
	w.has(second, fresh)
	if _, err := w.files.PutCopy(t.Context(), "g", "copy", vfs.Source{Path: "f", Version: second.Version}, vfs.PutOptions{Size: second.Size}); err != nil {
		t.Error(err)
	}
	d, send := deltaOf(second.Version, fresh, noise(2, len(fresh)))
	d.Keep = []vfs.Run{{First: 0, Last: 0}}
	_, err = w.files.PutDelta(t.Context(), "g", "f", d, bytes.NewReader(send), vfs.PutOptions{Size: second.Size, SHA256: &second.SHA256})
	code(t, err, protocol.NoSpace)
}

// A narrow disk has little room.
type narrow struct {
	vfs.Blobs
	room int64
}

func (n *narrow) Room() int64 { return n.room }

// A meddler does something before the first byte of a content is read.
type meddler struct {
	io.Reader
	meddle func()
}

func (m *meddler) Read(p []byte) (int, error) {
	if m.meddle != nil {
		m.meddle()
		m.meddle = nil
	}
	return m.Reader.Read(p)
}

// The version before may be replaced and given up while a content comes that
// shares chunks with it: they stay until the record that needs them is written.
func TestChunksStayThatAnUploadUnderWayShares(t *testing.T) {
	old := noise(1, 8*vfs.ChunkSize)
	fresh := bytes.Clone(old)
	fresh[len(fresh)-1]++
	for _, way := range []string{"whole", "delta"} {
		t.Run(way, func(t *testing.T) {
			w := open(t, func(o *vfs.StoreOptions) { o.Versions, o.Grace = 1, time.Nanosecond })
			first := w.putBytes("f", old)
			blob := w.blobOf(first)
			meddle := func() {
				w.put("f", "something else")
				w.CollectGarbage(t.Context())
				if _, err := os.Stat(blob); err != nil {
					t.Errorf("the version that is shared is gone: %v", err)
				}
			}
			var f vfs.File
			var err error
			if way == "delta" {
				d, send := deltaOf(first.Version, old, fresh)
				sum := vfs.Sum(sha256.Sum256(fresh))
				f, err = w.files.PutDelta(t.Context(), "g", "f", d, &meddler{bytes.NewReader(send), meddle}, vfs.PutOptions{Size: int64(len(fresh)), SHA256: &sum})
			} else {
				content := io.MultiReader(bytes.NewReader(fresh[:vfs.ChunkSize]), &meddler{bytes.NewReader(fresh[vfs.ChunkSize:]), meddle})
				f, err = w.files.Put(t.Context(), "g", "f", content, vfs.PutOptions{Size: int64(len(fresh))})
			}
			if err != nil {
				t.Fatal(err)
			}
			w.CollectGarbage(t.Context())
			w.has(f, fresh)
			if _, err := os.Stat(blob); err != nil {
				t.Errorf("nothing was shared: %v", err)
			}
		})
	}
}

// The state of the hash is kept after so many chunks, where a content may end.
func TestAVersionThatEndsWhereTheHashIsKnown(t *testing.T) {
	w := open(t)
	old := noise(1, 40*vfs.ChunkSize)
	first := w.putBytes("f", old)
	for _, size := range []int{31*vfs.ChunkSize + 100, 32 * vfs.ChunkSize, 32*vfs.ChunkSize + 1, 33 * vfs.ChunkSize} {
		sum := vfs.Sum(sha256.Sum256(old[:size]))
		d := vfs.Delta{Base: first.Version, Keep: []vfs.Run{{First: 0, Last: int64(size-1) / vfs.ChunkSize}}}
		f, err := vfs.PutChanged(t.Context(), w.files, "g", "f", d, bytes.NewReader(nil), vfs.PutOptions{Size: int64(size), SHA256: &sum})
		if err != nil {
			t.Fatalf("%d bytes: %v", size, err)
		}
		w.has(f, old[:size])
	}
}

// Every blob is named after the SHA-256 of what is in it.
func TestLargeBlobsAreNamedAfterWhatIsInThem(t *testing.T) {
	w := open(t)
	data := noise(1, 33*vfs.ChunkSize+5)
	f := w.putBytes("f", data)
	dice := rand.New(rand.NewPCG(1, 2))
	for i := range 8 {
		old := data
		data = bytes.Clone(data)
		switch i % 4 {
		case 0:
			data[dice.IntN(len(data))]++
		case 1:
			data = append(data, noise(byte(i), dice.IntN(vfs.ChunkSize))...)
		case 2:
			data = append(bytes.Clone(data[:len(data)/2]), noise(byte(i), len(data)/2)...)
		case 3:
			data = append(noise(byte(i), len(data)/3), data[len(data)/3:]...)
		}
		if i%3 == 0 {
			f = w.putBytes("f", data)
			continue
		}
		var err error
		if f, err = w.putDelta("f", f, old, data); err != nil {
			t.Fatal(err)
		}
	}
	w.has(f, data)
	found, err := filepath.Glob(filepath.Join(w.dir, "blobs", "*", "*"))
	if err != nil || len(found) < 9 {
		t.Fatal(found, err)
	}
	for _, name := range found {
		data, err := os.ReadFile(name)
		if err != nil || vfs.Sum(sha256.Sum256(data)).String() != filepath.Base(name) {
			t.Errorf("%s is the name of something else, %v", filepath.Base(name), err)
		}
	}
}
