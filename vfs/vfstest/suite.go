package vfstest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/vfs"
)

// Run tests that files keep every promise of [vfs.Files]. New returns files
// that are empty; it is called once a test.
func Run(t *testing.T, open func(t *testing.T) vfs.Files) {
	for _, test := range []struct {
		name string
		run  func(*world)
	}{
		{"what was put is read", (*world).putAndRead},
		{"a reader seeks", (*world).seek},
		{"a file keeps its id through versions", (*world).versions},
		{"the same content makes no new version", (*world).unchanged},
		{"only the expected version is replaced", (*world).ifVersion},
		{"content that is not what was announced leaves nothing", (*world).announced},
		{"content that breaks off leaves nothing", (*world).brokenOff},
		{"a large file changes a little", (*world).large},
		{"a deleted file is gone but remembered", (*world).deletion},
		{"lists are ordered and complete page by page", (*world).lists},
		{"groups are apart", (*world).groups},
		{"twins are refused", (*world).twins},
		{"impossible names are refused", (*world).badNames},
		{"one of many writers wins", (*world).race},
		{"readers see whole versions only", (*world).whole},
		{"an ended context ends the call", (*world).context},
		{"batches are like single puts", (*world).batches},
		{"many are read at once", (*world).readAll},
		{"snapshots show what was", (*world).snapshots},
	} {
		t.Run(strings.ReplaceAll(test.name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
			defer cancel()
			test.run(&world{T: t, ctx: ctx, began: time.Now(), Files: open(t)})
		})
	}
}

// A world is files under test.
type world struct {
	*testing.T
	ctx   context.Context
	began time.Time
	vfs.Files
}

const g = "skill-a-group"

// unknown are options that announce nothing.
var unknown = vfs.PutOptions{Size: -1}

func (w *world) put(path, text string) vfs.File {
	w.Helper()
	f, err := w.Put(w.ctx, g, path, strings.NewReader(text), unknown)
	if err != nil {
		w.Fatalf("put %s: %v", path, err)
	}
	return f
}

func (w *world) read(path string, version uint64) string {
	w.Helper()
	r, f, err := w.Open(w.ctx, g, path, version)
	if err != nil {
		w.Fatalf("open %s at %d: %v", path, version, err)
	}
	defer r.Close()
	data, err := io.ReadAll(r)
	if err != nil {
		w.Fatalf("read %s at %d: %v", path, version, err)
	}
	if int64(len(data)) != f.Size || vfs.Sum(sha256.Sum256(data)) != f.SHA256 {
		w.Fatalf("%s at %d has another content than %+v says: %d bytes", path, version, f, len(data))
	}
	return string(data)
}

func (w *world) fails(code protocol.Code, what string, err error) {
	w.Helper()
	if protocol.CodeOf(err) != code {
		w.Fatalf("%s: %v, want a %s", what, err, code)
	}
}

func (w *world) missing(path string) {
	w.Helper()
	_, err := w.Stat(w.ctx, g, path)
	w.fails(protocol.FileNotFound, "stat of "+path, err)
	_, _, err = w.Open(w.ctx, g, path, 0)
	w.fails(protocol.FileNotFound, "open of "+path, err)
}

func (w *world) putAndRead() {
	big := make([]byte, 3<<20+17)
	for i := range big {
		big[i] = byte(rand.Uint32())
	}
	for i, data := range [][]byte{{}, []byte("x"), []byte("Sample text file"), big[:70<<10], big} {
		path := fmt.Sprintf("folder/温度 %d.bin", i)
		sum := vfs.Sum(sha256.Sum256(data))
		put, err := w.Put(w.ctx, g, path, bytes.NewReader(data), vfs.PutOptions{Size: int64(len(data)), SHA256: &sum, ContentType: "text/x-odd; charset=utf-8", Mtime: 1_234_567_890_123})
		if err != nil {
			w.Fatalf("put %s: %v", path, err)
		}
		if put.ID == "" || put.Group != g || put.Path != path || put.Version == 0 || put.Size != int64(len(data)) ||
			put.SHA256 != sum || put.Modified.IsZero() || put.Deleted || put.ContentType != "text/x-odd; charset=utf-8" || put.Mtime != 1_234_567_890_123 {
			w.Fatalf("put returned %+v", put)
		}
		stat, err := w.Stat(w.ctx, g, path)
		if err != nil || !w.same(stat, put) {
			w.Fatalf("stat returned %+v, %v; put returned %+v", stat, err, put)
		}
		if got := w.read(path, 0); got != string(data) {
			w.Fatalf("%s reads differently", path)
		}
		w.read(path, put.Version)
	}
	w.missing("nothing")
	_, _, err := w.Open(w.ctx, g, "folder/温度 1.bin", 1)
	w.fails(protocol.FileNotFound, "open of a version that never was", err)
}

// same compares files but for the clock's finer digits: a VFS over HTTP tells whole
// seconds, and not when it made what comes in a batch, which counts as made when that is
// answered.
func (w *world) same(a, b vfs.File) bool {
	d := a.Modified.Sub(b.Modified).Abs()
	a.Modified, b.Modified = time.Time{}, time.Time{}
	return a == b && d < 2*time.Second+time.Since(w.began)
}

func (w *world) seek() {
	text := strings.Repeat("0123456789", 30_000)
	w.put("f", text)
	r, _, err := w.Open(w.ctx, g, "f", 0)
	if err != nil {
		w.Fatal(err)
	}
	defer r.Close()
	if err := iotest.TestReader(r, []byte(text)); err != nil {
		w.Fatal(err)
	}
}

func (w *world) versions() {
	first := w.put("f", "one")
	second := w.put("f", "two")
	if second.ID != first.ID || second.Version <= first.Version {
		w.Fatalf("second version %+v after %+v", second, first)
	}
	if w.read("f", 0) != "two" || w.read("f", first.Version) != "one" || w.read("f", second.Version) != "two" {
		w.Fatal("versions are mixed up")
	}
	if other := w.put("other", "one"); other.ID == first.ID || other.Version <= second.Version {
		w.Fatalf("another file is %+v after %+v", other, second)
	}
}

func (w *world) unchanged() {
	first := w.put("f", "same")
	if again := w.put("f", "same"); !w.same(again, first) {
		w.Fatalf("put again: %+v, was %+v", again, first)
	}
}

func (w *world) ifVersion() {
	put := func(version uint64, text string) (vfs.File, error) {
		return w.Put(w.ctx, g, "f", strings.NewReader(text), vfs.PutOptions{IfVersion: &version, Size: -1})
	}
	_, err := put(5, "x")
	w.fails(protocol.RevisionConflict, "replace what is not there", err)
	w.missing("f")
	first, err := put(0, "one")
	if err != nil {
		w.Fatal(err)
	}
	_, err = put(0, "two")
	w.fails(protocol.RevisionConflict, "create what is there", err)
	second, err := put(first.Version, "two")
	if err != nil {
		w.Fatal(err)
	}
	_, err = put(first.Version, "three")
	w.fails(protocol.RevisionConflict, "replace an old version", err)
	_, err = w.Delete(w.ctx, g, "f", first.Version)
	w.fails(protocol.RevisionConflict, "delete an old version", err)
	if w.read("f", 0) != "two" {
		w.Fatal("a refused put did something")
	}
	gone, err := w.Delete(w.ctx, g, "f", second.Version)
	if err != nil {
		w.Fatal(err)
	}
	if third, err := put(0, "three"); err != nil || third.Version <= gone.Version || third.ID != first.ID {
		w.Fatalf("create after a deletion: %+v, %v", third, err)
	}
}

func (w *world) announced() {
	w.put("f", "before")
	sum := vfs.Sum(sha256.Sum256([]byte("content")))
	wrong := vfs.Sum(sha256.Sum256([]byte("other")))
	for what, o := range map[string]vfs.PutOptions{
		"longer than announced":  {Size: 6, SHA256: &sum},
		"shorter than announced": {Size: 8, SHA256: &sum},
		"another checksum":       {Size: 7, SHA256: &wrong},
		"checksum, no size":      {Size: -1, SHA256: &wrong},
	} {
		_, err := w.Put(w.ctx, g, "f", strings.NewReader("content"), o)
		w.fails(protocol.SyncFailed, what, err)
		_, err = w.Put(w.ctx, g, "new", strings.NewReader("content"), o)
		w.fails(protocol.SyncFailed, what, err)
	}
	if w.read("f", 0) != "before" {
		w.Fatal("a refused put did something")
	}
	w.missing("new")
}

func (w *world) brokenOff() {
	w.put("f", "before")
	for _, size := range []int{0, 1, 200, 100_000, 2 << 20} {
		cut := func() io.Reader {
			return io.MultiReader(bytes.NewReader(make([]byte, size)), iotest.ErrReader(errors.New("gone")))
		}
		for _, path := range []string{"f", "new"} {
			if _, err := w.Put(w.ctx, g, path, cut(), unknown); err == nil {
				w.Fatalf("a put of %d bytes that broke off succeeded", size)
			}
		}
	}
	if w.read("f", 0) != "before" {
		w.Fatal("a put that broke off did something")
	}
	w.missing("new")
}
