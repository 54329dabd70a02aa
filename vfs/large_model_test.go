package vfs_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/aibridge/aibridge/internal/records/recordstest"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/vfs"
	"github.com/aibridge/aibridge/vfs/vfstest"
)

// An edit makes the next content of a large file.
type edit struct {
	kind int
	at   int
	fill byte
	// how it is stored
	delta bool
	// the disk fails at this write, or never if it is negative
	fails int
	// the record cannot be written
	unrecorded bool
}

func drawEdit(t *rapid.T) edit {
	e := edit{
		kind: rapid.IntRange(0, 8).Draw(t, "kind"), at: rapid.IntRange(0, 1<<18).Draw(t, "at"), fill: rapid.Byte().Draw(t, "fill"),
		delta: rapid.Bool().Draw(t, "delta"), fails: -1,
	}
	if rapid.IntRange(0, 3).Draw(t, "disk fails") == 0 {
		e.fails = rapid.IntRange(0, 8).Draw(t, "at write")
	}
	e.unrecorded = rapid.IntRange(0, 7).Draw(t, "unrecorded") == 0
	return e
}

// to is the content after the edit.
func (e edit) to(old []byte) []byte {
	fresh := bytes.Clone(old)
	at := 0
	if len(old) > 0 {
		at = e.at % len(old)
	}
	switch e.kind {
	case 0: // something else
		return noise(e.fill, 4*vfs.ChunkSize+e.at)
	case 1: // more
		return append(fresh, bytes.Repeat([]byte{e.fill}, 1+e.at%(vfs.ChunkSize+100))...)
	case 2: // less
		return fresh[:len(fresh)-at/2]
	case 3: // in between
		return append(append(append([]byte{}, old[:at]...), e.fill), old[at:]...)
	case 4: // several places
		for i := range len(fresh)/vfs.ChunkSize/2 + 1 {
			if n := at + i*2*vfs.ChunkSize; n < len(fresh) {
				fresh[n] += e.fill
			}
		}
		return fresh
	}
	if len(fresh) > 0 {
		fresh[at] += e.fill
	}
	return fresh
}

// An author edits one file, and knows what its versions are.
type author struct {
	*world
	path     string
	content  []byte
	last     vfs.File
	versions map[uint64][]byte
}

func (a *author) edit(ctx context.Context, e edit) error {
	fresh := e.to(a.content)
	f, err := a.store(ctx, e, fresh)
	if err != nil {
		return err
	}
	a.content, a.last = fresh, f
	a.versions[f.Version] = fresh
	return nil
}

func (a *author) store(ctx context.Context, e edit, fresh []byte) (vfs.File, error) {
	if !e.delta || a.last.Version == 0 {
		return a.files.Put(ctx, "g", a.path, bytes.NewReader(fresh), vfs.PutOptions{Size: -1})
	}
	d, send := deltaOf(a.last.Version, a.content, fresh)
	sum := vfs.Sum(sha256.Sum256(fresh))
	return vfs.PutChanged(ctx, a.files, "g", a.path, d, bytes.NewReader(send), vfs.PutOptions{Size: int64(len(fresh)), SHA256: &sum})
}

// check reads every version that is kept.
func (a *author) check(t rapid.TB) {
	if a.last.Version != 0 {
		if now, err := a.files.Stat(a.t.Context(), "g", a.path); err != nil || now != a.last {
			t.Fatalf("%s is %+v, %v; was %+v", a.path, now, err, a.last)
		}
	}
	for number, want := range a.versions {
		got, err := a.read(a.path, number)
		if number != a.last.Version && protocol.CodeOf(err) == protocol.FileNotFound {
			continue // which is kept no more
		}
		if err != nil || got != string(want) {
			t.Fatalf("%s at %d reads %d bytes instead of %d, %v", a.path, number, len(got), len(want), err)
		}
	}
}

// A largeWorld is a store in memory that keeps nothing longer than it must.
type largeWorld struct {
	*world
	disk  vfs.Blobs
	ahead atomic.Int64 // of the store's clock, in nanoseconds
}

func openLarge(t *testing.T, disk vfs.Blobs) *largeWorld {
	w := &largeWorld{world: &world{t: t, records: recordstest.New[vfs.Record]()}, disk: disk}
	w.restart()
	return w
}

// restart opens the store, as after a crash if it was open.
func (w *largeWorld) restart() {
	w.start(func(o *vfs.StoreOptions) {
		o.Blobs, o.Grace, o.Remember, o.Versions = w.disk, time.Nanosecond, time.Minute, 3
		o.Now = func() time.Time { return time.Now().Add(time.Duration(w.ahead.Load())) }
	})
}

// Whatever happens to a large file, at whichever write the disk fails or the
// process ends, its versions are what a plain memory of them says.
func TestVersionsOfALargeFileAreWhatWasStored(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		disk := &badDisk{Blobs: vfstest.NewBlobs(), left: -1}
		w := openLarge(t, disk)
		a := &author{world: w.world, path: "f", versions: map[uint64][]byte{}}
		edits := rapid.SliceOfN(rapid.Custom(drawEdit), 1, 3).Draw(rt, "edits")
		for i, e := range append([]edit{{fails: -1}}, edits...) {
			disk.left = e.fails
			if e.unrecorded {
				w.records.BreakNext(1)
			}
			err := a.edit(t.Context(), e)
			disk.left = -1
			w.records.BreakNext(0)
			if err != nil && e.fails < 0 && !e.unrecorded {
				rt.Fatalf("edit %d: %v", i, err)
			}
			if err != nil { // as if the process had ended there
				w.restart()
			}
			if i%3 == 0 {
				w.CollectGarbage(t.Context())
			}
		}
		w.CollectGarbage(t.Context())
		a.check(rt)
		w.restart()
		w.CollectGarbage(t.Context())
		a.check(rt)
		w.empty(rt)
	})
}

// empty deletes everything, after which no blob may be left.
func (w *largeWorld) empty(rt rapid.TB) {
	for f := range w.all() {
		if _, err := w.files.Delete(w.t.Context(), "g", f.Path, 0); err != nil {
			rt.Fatal(err)
		}
	}
	w.ahead.Add(int64(time.Hour))
	w.CollectGarbage(w.t.Context())
	if err := w.disk.All(w.t.Context(), func(key string, _ time.Time) bool {
		rt.Fatalf("blob %s is left of nothing", key)
		return false
	}); err != nil {
		rt.Fatal(err)
	}
}

// Authors of several files, copies of them and somebody who collects garbage,
// all at the same time: no chunk is collected that somebody is about to share.
func TestNoChunkIsCollectedThatIsBeingShared(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			w := openLarge(t, vfstest.NewBlobs())
			w.records.Yield()
			var authors []*author
			var working, collecting sync.WaitGroup
			changed := make(chan struct{}, 1)
			for i := range uint64(3) {
				a := &author{world: w.world, path: fmt.Sprint("f", i), versions: map[uint64][]byte{}}
				authors = append(authors, a)
				dice := rand.New(rand.NewPCG(seed, i))
				working.Go(func() {
					for n := range 6 {
						e := edit{kind: dice.IntN(9), at: dice.IntN(1 << 20), fill: byte(dice.Uint32()), delta: dice.IntN(2) == 0}
						if n == 0 {
							e = edit{fill: 7} // which all have in common
						}
						if err := a.edit(t.Context(), e); err != nil {
							t.Error(err)
						}
						select {
						case changed <- struct{}{}:
						default:
						}
						_, _ = w.files.PutCopy(t.Context(), "g", "copy", vfs.Source{Path: a.path, Version: a.last.Version}, vfs.PutOptions{Size: -1})
					}
				})
			}
			collecting.Go(func() {
				for range changed {
					w.CollectGarbage(t.Context())
				}
			})
			working.Wait()
			close(changed)
			collecting.Wait()
			check := func() {
				for _, a := range authors {
					a.check(t)
				}
				w.everythingReads(t)
			}
			check()
			w.restart()
			w.CollectGarbage(t.Context())
			check()
			w.empty(t)
		})
	}
}
