package vfs_test

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/aibridge/aibridge/internal/leaks"
	"github.com/aibridge/aibridge/internal/records/recordstest"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/vfs"
	"github.com/aibridge/aibridge/vfs/folder"
	"github.com/aibridge/aibridge/vfs/vfstest"
)

func TestMain(m *testing.M) { leaks.Verify(m) }

// A world is a store on a disk.
type world struct {
	*vfs.Store
	t       testing.TB
	dir     string
	records *recordstest.Memory[vfs.Record]
	files   *vfs.Space
}

func open(t testing.TB, change ...func(*vfs.StoreOptions)) *world {
	w := &world{t: t, dir: t.TempDir(), records: recordstest.New[vfs.Record]()}
	w.start(change...)
	return w
}

// start opens the store, as after a crash if it was open.
func (w *world) start(change ...func(*vfs.StoreOptions)) {
	w.t.Helper()
	w.records.Restart()
	o := vfs.StoreOptions{Records: w.records, Atomic: vfstest.Atomic(w.records), Quota: 1 << 30}
	if w.dir != "" {
		blobs, err := folder.Open(w.dir)
		if err != nil {
			w.t.Fatal(err)
		}
		w.t.Cleanup(func() { blobs.Close() })
		o.Blobs = blobs
	}
	for _, f := range change {
		f(&o)
	}
	w.Store = vfs.NewStore(o)
	w.files = w.Store.Space(protocol.DefaultSpace)
}

func (w *world) put(path, text string) vfs.File {
	w.t.Helper()
	f, err := w.files.Put(w.t.Context(), "g", path, strings.NewReader(text), vfs.PutOptions{Size: -1})
	if err != nil {
		w.t.Fatalf("put %s: %v", path, err)
	}
	return f
}

func (w *world) read(path string, version uint64) (string, error) {
	r, _, err := w.files.Open(w.t.Context(), "g", path, version)
	if err != nil {
		return "", err
	}
	defer r.Close()
	data, err := io.ReadAll(r)
	return string(data), err
}

// blobs counts the blobs on the disk.
func (w *world) blobs() (n int) {
	w.t.Helper()
	found, err := filepath.Glob(filepath.Join(w.dir, "blobs", "*", "*"))
	if err != nil {
		w.t.Fatal(err)
	}
	return len(found)
}

func code(t testing.TB, err error, want protocol.Code) {
	t.Helper()
	if protocol.CodeOf(err) != want {
		t.Fatalf("%v, want a %s", err, want)
	}
}

func TestTheStoreKeepsThePromises(t *testing.T) {
	vfstest.Run(t, func(t *testing.T) vfs.Files { return open(t).files })
}

func TestTheStoreWithoutAtomicChangesKeepsThePromises(t *testing.T) {
	vfstest.Run(t, func(t *testing.T) vfs.Files {
		return open(t, func(o *vfs.StoreOptions) { o.Atomic, o.Blobs = nil, vfstest.NewBlobs() }).files
	})
}

func TestSpacesAreApart(t *testing.T) {
	w := open(t)
	mine := w.put("f", "mine")
	other := w.Store.Space("lab")
	if _, err := other.Stat(t.Context(), "g", "f"); protocol.CodeOf(err) != protocol.FileNotFound {
		t.Fatalf("another space sees the file: %v", err)
	}
	_, err := other.ByID(t.Context(), "g", mine.ID)
	code(t, err, protocol.FileNotFound)
	_, err = w.files.ByID(t.Context(), "other", mine.ID)
	code(t, err, protocol.FileNotFound)
	if f, err := w.files.ByID(t.Context(), "g", mine.ID); err != nil || f.Path != "f" {
		t.Fatalf("by id: %+v, %v", f, err)
	}
}

func TestFilesOutliveTheProcess(t *testing.T) {
	w := open(t)
	small, big := w.put("small", "text"), w.put("big", strings.Repeat("x", 200_000))
	w.put("gone", "x")
	if _, err := w.files.Delete(t.Context(), "g", "gone", 0); err != nil {
		t.Fatal(err)
	}
	w.start()
	for _, f := range []vfs.File{small, big} {
		if now, err := w.files.Stat(t.Context(), "g", f.Path); err != nil || now != f {
			t.Fatalf("after a restart there is %+v, %v; was %+v", now, err, f)
		}
		if _, err := w.read(f.Path, 0); err != nil {
			t.Fatal(err)
		}
	}
	if f := w.put("small", "more"); f.Version <= big.Version || f.ID != small.ID {
		t.Fatalf("the next version is %+v", f)
	}
	if _, err := w.files.Put(t.Context(), "g", "BIG", strings.NewReader("x"), vfs.PutOptions{Size: -1}); protocol.CodeOf(err) != protocol.AlreadyExists {
		t.Fatalf("a twin after a restart: %v", err)
	}
}

func TestOldVersionsAreDropped(t *testing.T) {
	w := open(t, func(o *vfs.StoreOptions) { o.Versions = 3 })
	var versions []uint64
	for i := range 5 {
		versions = append(versions, w.put("f", fmt.Sprint("version ", i)).Version)
	}
	for i, version := range versions {
		text, err := w.read("f", version)
		if kept := i >= 2; kept && (err != nil || text != fmt.Sprint("version ", i)) || !kept && protocol.CodeOf(err) != protocol.FileNotFound {
			t.Errorf("version %d reads %q, %v", i, text, err)
		}
	}
	_, _, err := w.files.ListAt(t.Context(), "g", "", versions[1], "", 0)
	code(t, err, protocol.FileNotFound)
	if files, _, err := w.files.ListAt(t.Context(), "g", "", versions[2], "", 0); err != nil || files[0].Version != versions[2] {
		t.Fatalf("a snapshot of what is kept: %+v, %v", files, err)
	}
	if files, _, err := w.files.ListAt(t.Context(), "g", "", versions[0]-1, "", 0); err != nil || len(files) != 0 {
		t.Fatalf("a snapshot from before the file: %+v, %v", files, err)
	}
}

func TestSameContentIsKeptOnce(t *testing.T) {
	w := open(t)
	text := strings.Repeat("same", 50_000)
	for i := range 5 {
		w.put(fmt.Sprint("f", i), text)
	}
	if n := w.blobs(); n != 1 {
		t.Fatalf("there are %d blobs", n)
	}
}

func TestSmallContentsShareABlob(t *testing.T) {
	w := open(t)
	var batch []vfs.Content
	for i := range 300 {
		batch = append(batch, vfs.Content{Path: fmt.Sprint("f", i), Data: []byte(fmt.Sprint("text ", i)), PutOptions: vfs.PutOptions{Size: -1}})
	}
	results, err := w.files.PutBatch(t.Context(), "g", batch)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range results {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		if text, err := w.read(fmt.Sprint("f", i), 0); err != nil || text != fmt.Sprint("text ", i) {
			t.Fatalf("f%d reads %q, %v", i, text, err)
		}
	}
	if n := w.blobs(); n != 1 {
		t.Fatalf("300 small files take %d blobs", n)
	}
}

func TestDamageIsNoticed(t *testing.T) {
	w := open(t)
	w.put("f", strings.Repeat("x", 100_000))
	found, _ := filepath.Glob(filepath.Join(w.dir, "blobs", "*", "*"))
	data, err := os.ReadFile(found[0])
	if err != nil {
		t.Fatal(err)
	}
	damaged := bytes.Clone(data)
	damaged[77] ^= 1
	for what, content := range map[string][]byte{"a flipped bit": damaged, "a cut": data[:5000], "an empty file": nil} {
		if err := os.WriteFile(found[0], content, 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := w.read("f", 0); protocol.CodeOf(err) != protocol.SyncFailed || len(got) == 100_000 {
			t.Errorf("%s: %d bytes, %v, want a 4002 before the end", what, len(got), err)
		}
	}
	if err := os.Remove(found[0]); err != nil {
		t.Fatal(err)
	}
	_, err = w.read("f", 0)
	code(t, err, protocol.SyncFailed)
}

func TestQuotasHold(t *testing.T) {
	w := open(t, func(o *vfs.StoreOptions) { o.Quota = 100_000; o.MaxFile = 200_000 })
	put := func(path string, size int, announced int64) error {
		data := make([]byte, size)
		rand.Read(data)
		_, err := w.files.Put(t.Context(), "g", path, bytes.NewReader(data), vfs.PutOptions{Size: announced})
		return err
	}
	code(t, put("f", 200_001, 200_001), protocol.PayloadTooLarge)
	code(t, put("f", 150_000, 150_000), protocol.NoSpace)
	code(t, put("f", 150_000, -1), protocol.NoSpace)
	code(t, put("a", 60_000, -1), "")
	code(t, put("b", 60_000, -1), protocol.NoSpace)
	code(t, put("b", 40_000, -1), "")
	code(t, put("c", 1, -1), protocol.NoSpace)
	if _, err := w.files.Put(t.Context(), "other", "c", strings.NewReader("x"), vfs.PutOptions{Size: -1}); err != nil {
		t.Fatalf("the quota of another group: %v", err)
	}
	// Replaced and deleted versions give way.
	if _, err := w.files.Delete(t.Context(), "g", "a", 0); err != nil {
		t.Fatal(err)
	}
	code(t, put("c", 50_000, -1), "")
	code(t, put("c", 50_001, -1), "")
	if u, err := w.files.Usage(t.Context()); err != nil || u.Used > 100_001 || u.Total < u.Used {
		t.Fatalf("usage is %+v, %v", u, err)
	}
}

func TestConcurrentWritersStayWithinTheQuota(t *testing.T) {
	w := open(t, func(o *vfs.StoreOptions) { o.Quota = 1 << 20 })
	var wg sync.WaitGroup
	for i := range 32 {
		wg.Go(func() {
			data := bytes.Repeat([]byte{byte(i)}, 100_000)
			_, err := w.files.Put(t.Context(), "g", fmt.Sprint(i), bytes.NewReader(data), vfs.PutOptions{Size: -1})
			if err != nil && protocol.CodeOf(err) != protocol.NoSpace {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	files, _, err := w.files.List(t.Context(), "g", "", "", 1000, false)
	if err != nil || len(files) != 10 {
		t.Fatalf("%d files of 100 000 bytes in a quota of 1 MiB, %v", len(files), err)
	}
}

func TestDeletedFilesAreForgottenAndTheirContentCollected(t *testing.T) {
	now := time.Now()
	w := open(t, func(o *vfs.StoreOptions) {
		o.Now = func() time.Time { return now }
		o.Grace = time.Nanosecond
		o.Remember = time.Hour
	})
	w.put("f", strings.Repeat("x", 100_000))
	w.put("stays", strings.Repeat("y", 100_000))
	if _, err := w.files.Delete(t.Context(), "g", "f", 0); err != nil {
		t.Fatal(err)
	}
	w.CollectGarbage(t.Context())
	if n := w.blobs(); n != 2 {
		t.Fatalf("%d blobs are left while the file is remembered", n)
	}
	now = now.Add(2 * time.Hour)
	w.CollectGarbage(t.Context())
	if n := w.blobs(); n != 1 {
		t.Fatalf("%d blobs are left", n)
	}
	if files, _, _ := w.files.List(t.Context(), "g", "", "", 0, true); len(files) != 1 || files[0].Path != "stays" {
		t.Fatalf("listed: %+v", files)
	}
	if _, err := w.read("stays", 0); err != nil {
		t.Fatal(err)
	}
}

// A backup reads the records first and the blobs later: what the records named
// then is still there.
func TestContentStaysWhileSomebodyHoldsIt(t *testing.T) {
	now := time.Now()
	w := open(t, func(o *vfs.StoreOptions) {
		o.Now = func() time.Time { return now }
		o.Grace, o.Remember = time.Nanosecond, time.Hour
	})
	w.put("f", strings.Repeat("x", 100_000))
	one, two := w.Hold(), w.Hold()
	if _, err := w.files.Delete(t.Context(), "g", "f", 0); err != nil {
		t.Fatal(err)
	}
	now = now.Add(2 * time.Hour)
	for _, release := range []func(){one, one, two} {
		w.CollectGarbage(t.Context())
		if n := w.blobs(); n != 1 {
			t.Fatalf("%d blobs are left while somebody holds them", n)
		}
		release()
	}
	w.CollectGarbage(t.Context())
	if n := w.blobs(); n != 0 {
		t.Fatalf("%d blobs are left that nobody holds", n)
	}
}

func TestOrphansOfACrashAreCollected(t *testing.T) {
	grace := func(o *vfs.StoreOptions) { o.Grace = time.Nanosecond }
	w := open(t, grace)
	w.put("f", strings.Repeat("x", 100_000))
	key := ""
	for key = range w.records.All() {
	}
	w.records.Lose(key) // the crash came before the record
	w.start(grace)
	w.CollectGarbage(t.Context())
	if n := w.blobs(); n != 0 {
		t.Fatalf("%d orphans are left", n)
	}
}

func TestAClockThatGoesBackMakesNoLowerVersions(t *testing.T) {
	now := time.Now()
	w := open(t, func(o *vfs.StoreOptions) { o.Now = func() time.Time { return now } })
	last := w.put("f", "0").Version
	for i := range 5 {
		now = now.Add(-time.Hour)
		next := w.put("f", fmt.Sprint(i+1)).Version
		if next <= last {
			t.Fatalf("version %d comes after %d", next, last)
		}
		last = next
	}
}

// Puts, deletions, tidying without any grace, and crashes, in every order: a
// file that is there can always be read.
func TestNoContentIsLost(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := &world{t: t, records: recordstest.New[vfs.Record]()}
		blobs := vfstest.NewBlobs() // a folder would do the same, slowly
		options := func(o *vfs.StoreOptions) {
			o.Blobs = blobs
			o.Grace, o.Remember, o.Versions, o.Quota = time.Nanosecond, time.Nanosecond, 2, 400_000
		}
		w.start(options)
		for range rapid.IntRange(1, 2).Draw(rt, "lives") {
			var wg sync.WaitGroup
			for worker := range 3 {
				steps := rapid.SliceOfN(rapid.IntRange(0, 63), 1, 8).Draw(rt, "steps")
				wg.Go(func() {
					for _, step := range steps {
						w.step(worker, step)
					}
				})
			}
			wg.Wait()
			w.everythingReads(rt)
			w.start(options)
			w.everythingReads(rt)
		}
		for f := range w.all() {
			if _, err := w.files.Delete(t.Context(), "g", f.Path, 0); err != nil {
				rt.Fatal(err)
			}
		}
		time.Sleep(2 * time.Millisecond) // the deletions' timestamps are in ms
		w.CollectGarbage(t.Context())
		err := blobs.All(t.Context(), func(key string, _ time.Time) bool {
			rt.Fatalf("blob %s is left of nothing", key)
			return false
		})
		if err != nil {
			rt.Fatal(err)
		}
	})
}

func (w *world) step(worker, step int) {
	path := fmt.Sprint("f", step%5)
	switch {
	case step < 30:
		size := []int{0, 10, 1000, 70_000}[step%4]
		_, _ = w.files.Put(w.t.Context(), "g", path, strings.NewReader(strings.Repeat(fmt.Sprint(step%3), size)), vfs.PutOptions{Size: -1})
	case step < 40:
		batch := make([]vfs.Content, 4)
		for i := range batch {
			batch[i] = vfs.Content{Path: fmt.Sprint("f", i), Data: []byte(strings.Repeat(fmt.Sprint(step%2), 50*i)), PutOptions: vfs.PutOptions{Size: -1}}
		}
		_, _ = w.files.PutBatch(w.t.Context(), "g", batch)
	case step < 52:
		_, _ = w.files.Delete(w.t.Context(), "g", path, 0)
	default:
		w.CollectGarbage(w.t.Context())
	}
}

func (w *world) all() iter.Seq[vfs.File] {
	files, _, err := w.files.List(w.t.Context(), "g", "", "", 1000, false)
	if err != nil {
		w.t.Fatal(err)
	}
	return func(yield func(vfs.File) bool) {
		for _, f := range files {
			if !yield(f) {
				return
			}
		}
	}
}

func (w *world) everythingReads(rt rapid.TB) {
	for _, r := range w.records.All() {
		for _, v := range r.Versions {
			if v.Deleted {
				continue
			}
			if text, err := w.read(r.Path, v.Number); err != nil || int64(len(text)) != v.Size {
				rt.Fatalf("%s at %d reads %d bytes of %d, %v", r.Path, v.Number, len(text), v.Size, err)
			}
		}
	}
}
