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
	"sync"
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
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			test.run(&world{T: t, ctx: ctx, Files: open(t)})
		})
	}
}

// A world is files under test.
type world struct {
	*testing.T
	ctx context.Context
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
		if err != nil || !same(stat, put) {
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

// same compares files but for the clock's finer digits.
func same(a, b vfs.File) bool {
	d := a.Modified.Sub(b.Modified).Abs()
	a.Modified, b.Modified = time.Time{}, time.Time{}
	return a == b && d < 2*time.Second
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
	if again := w.put("f", "same"); !same(again, first) {
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

func (w *world) deletion() {
	w.put("a", "stays")
	first := w.put("f", "one")
	gone, err := w.Delete(w.ctx, g, "f", 0)
	if err != nil {
		w.Fatal(err)
	}
	if !gone.Deleted || gone.ID != first.ID || gone.Path != "f" || gone.Version <= first.Version || gone.Size != 0 {
		w.Fatalf("the deletion is %+v", gone)
	}
	w.missing("f")
	_, err = w.Delete(w.ctx, g, "f", 0)
	w.fails(protocol.FileNotFound, "delete twice", err)
	if paths := w.paths("", 0, false); paths != "a" {
		w.Fatalf("listed: %s", paths)
	}
	if paths := w.paths("", 0, true); paths != "a f-" {
		w.Fatalf("listed with deleted files: %s", paths)
	}
	if again := w.put("f", "one"); again.ID != first.ID || again.Version <= gone.Version {
		w.Fatalf("put again: %+v", again)
	}
	if w.read("f", first.Version) != "one" {
		w.Fatal("the version before the deletion is lost")
	}
}

// paths lists page by page.
func (w *world) paths(prefix string, limit int, deleted bool) string {
	w.Helper()
	var all []string
	for cursor := ""; ; {
		files, next, err := w.List(w.ctx, g, prefix, cursor, limit, deleted)
		if err != nil {
			w.Fatalf("list %q from %q: %v", prefix, cursor, err)
		}
		if limit > 0 && len(files) > limit {
			w.Fatalf("a page of %d has %d files", limit, len(files))
		}
		for _, f := range files {
			mark := ""
			if f.Deleted {
				mark = "-"
			}
			all = append(all, f.Path+mark)
		}
		if cursor = next; next == "" {
			return strings.Join(all, " ")
		}
	}
}

func (w *world) lists() {
	if paths := w.paths("", 0, true); paths != "" {
		w.Fatalf("new files are not empty: %s", paths)
	}
	for _, path := range []string{"b/2", "a", "b/10", "c", "b.x", "b/1", "ä", "bb"} {
		w.put(path, path)
	}
	if _, err := w.Delete(w.ctx, g, "c", 0); err != nil {
		w.Fatal(err)
	}
	for _, limit := range []int{0, 1, 2, 3, 1000, 5000} {
		for prefix, want := range map[string]string{
			"": "a b.x b/1 b/10 b/2 bb ä", "b/": "b/1 b/10 b/2", "b/1": "b/1 b/10", "zz": "", "c": "",
		} {
			if got := w.paths(prefix, limit, false); got != want {
				w.Fatalf("list %q by %d: %s, want %s", prefix, limit, got, want)
			}
		}
		if got := w.paths("c", limit, true); got != "c-" {
			w.Fatalf("deleted files by %d: %s", limit, got)
		}
	}
	files, _, err := w.List(w.ctx, g, "b/10", "", 0, false)
	if stat, _ := w.Stat(w.ctx, g, "b/10"); err != nil || len(files) != 1 || !same(files[0], stat) {
		w.Fatalf("listed %+v, stat says %+v (%v)", files, stat, err)
	}
}

func (w *world) groups() {
	w.put("f", "mine")
	other, err := w.Put(w.ctx, "other", "f", strings.NewReader("theirs"), unknown)
	if err != nil || other.Group != "other" {
		w.Fatalf("put into another group: %+v, %v", other, err)
	}
	if w.read("f", 0) != "mine" {
		w.Fatal("groups are mixed up")
	}
	if _, err := w.Delete(w.ctx, "other", "f", 0); err != nil {
		w.Fatal(err)
	}
	if w.read("f", 0) != "mine" {
		w.Fatal("groups are mixed up by a deletion")
	}
}

func (w *world) twins() {
	w.put("Dir/File.txt", "first")
	for path, twin := range map[string]string{
		"Dir/file.TXT": "Dir/File.txt", "dir/other": "Dir", "Dir/File.txt/below": "Dir/File.txt", "Dir": "Dir", "DIR": "Dir",
	} {
		_, err := w.Put(w.ctx, g, path, strings.NewReader("second"), unknown)
		w.fails(protocol.AlreadyExists, "put "+path, err)
		if e := new(protocol.Error); !errors.As(err, &e) || e.Details["twin"] != twin {
			w.Fatalf("the twin of %s is not named: %v", path, err)
		}
		w.missing(path)
	}
	if _, err := w.Delete(w.ctx, g, "Dir/File.txt", 0); err != nil {
		w.Fatal(err)
	}
	w.put("dir/file.txt", "now there is room")
}

func (w *world) badNames() {
	for _, path := range []string{"", "/a", "../a", "a/../b", "a//b", "a/", ".", "a\\b", "nul", "a\x00", "a.", "e\u0301", "\xff", strings.Repeat("x", 4096)} {
		_, err := w.Put(w.ctx, g, path, strings.NewReader("x"), unknown)
		w.fails(protocol.InvalidParameter, fmt.Sprintf("put %.20q", path), err)
		_, err = w.Stat(w.ctx, g, path)
		w.fails(protocol.InvalidParameter, fmt.Sprintf("stat %.20q", path), err)
		_, _, err = w.Open(w.ctx, g, path, 0)
		w.fails(protocol.InvalidParameter, fmt.Sprintf("open %.20q", path), err)
		_, err = w.Delete(w.ctx, g, path, 0)
		w.fails(protocol.InvalidParameter, fmt.Sprintf("delete %.20q", path), err)
	}
	for _, group := range []string{"", "a/b", "..", "$x", "a#", strings.Repeat("x", 65)} {
		_, err := w.Put(w.ctx, group, "f", strings.NewReader("x"), unknown)
		w.fails(protocol.InvalidParameter, fmt.Sprintf("put into %.20q", group), err)
		_, _, err = w.List(w.ctx, group, "", "", 0, false)
		w.fails(protocol.InvalidParameter, fmt.Sprintf("list %.20q", group), err)
	}
}

func (w *world) race() {
	first := w.put("f", "start")
	var (
		wg   sync.WaitGroup
		mu   sync.Mutex
		wins []string
	)
	for i := range 16 {
		wg.Go(func() {
			text := fmt.Sprint("writer ", i)
			_, err := w.Put(w.ctx, g, "f", strings.NewReader(text), vfs.PutOptions{IfVersion: &first.Version, Size: -1})
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				wins = append(wins, text)
			} else if protocol.CodeOf(err) != protocol.RevisionConflict {
				w.Errorf("a writer got %v", err)
			}
		})
	}
	wg.Wait()
	if len(wins) != 1 || w.read("f", 0) != wins[0] {
		w.Fatalf("winners: %q; there is %q", wins, w.read("f", 0))
	}
}

func (w *world) whole() {
	content := func(i int) string { return strings.Repeat(string(rune('a'+i)), 100_000) }
	w.put("f", content(0))
	ctx, stop := context.WithCancel(w.ctx)
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for ctx.Err() == nil {
				w.read("f", 0) // compares with the checksum
			}
		})
	}
	for i := range 10 {
		w.put("f", content(i+1))
	}
	stop()
	wg.Wait()
}

func (w *world) context() {
	w.put("f", "x")
	ctx, cancel := context.WithCancel(w.ctx)
	cancel()
	if _, err := w.Put(ctx, g, "f", strings.NewReader("y"), unknown); err == nil {
		w.Fatal("a put with an ended context succeeded")
	}
	if w.read("f", 0) != "x" {
		w.Fatal("a put with an ended context did something")
	}
}

func (w *world) batches() {
	wrong := vfs.Sum{1}
	zero := uint64(0)
	old := w.put("old", "old")
	batch := []vfs.Content{
		{Path: "a", Data: []byte("one"), PutOptions: unknown},
		{Path: "../b", Data: []byte("two"), PutOptions: unknown},
		{Path: "c", Data: []byte("three"), PutOptions: vfs.PutOptions{Size: -1, SHA256: &wrong}},
		{Path: "old", Data: []byte("new"), PutOptions: vfs.PutOptions{Size: 3, IfVersion: &zero}},
		{Path: "A", Data: []byte("twin"), PutOptions: unknown},
		{Path: "d/e", Data: []byte("one"), PutOptions: vfs.PutOptions{Size: 3, IfVersion: &zero}},
		{Path: "a", Data: []byte("again"), PutOptions: unknown},
		{Path: "old", Data: []byte("newer"), PutOptions: vfs.PutOptions{Size: 5, IfVersion: &old.Version}},
	}
	for i := range 120 {
		batch = append(batch, vfs.Content{Path: fmt.Sprintf("many/%03d", i), Data: []byte(fmt.Sprint(i)), PutOptions: unknown})
	}
	results, err := vfs.PutAll(w.ctx, w.Files, g, batch)
	if err != nil || len(results) != len(batch) {
		w.Fatalf("%d results, %v", len(results), err)
	}
	for i, want := range []protocol.Code{"", protocol.InvalidParameter, protocol.SyncFailed, protocol.RevisionConflict, protocol.AlreadyExists, "", "", ""} {
		if protocol.CodeOf(results[i].Err) != want {
			w.Fatalf("result %d is %v, want %q", i, results[i].Err, want)
		}
	}
	for i, r := range results {
		if stat, err := w.Stat(w.ctx, g, batch[i].Path); r.Err == nil && batch[i].Path != "a" && (err != nil || !same(stat, r.File)) {
			w.Fatalf("result %d is %+v, stat says %+v, %v", i, r.File, stat, err)
		}
	}
	if w.read("a", 0) != "again" || w.read("d/e", 0) != "one" || w.read("old", 0) != "newer" || w.read("many/077", 0) != "77" {
		w.Fatal("a batch wrote something else")
	}
}

func (w *world) readAll() {
	want := map[string]string{"empty": "", "text": "on", "bytes": "\xff\x00\xfe", "d/new": "second"}
	w.put("d/new", "first")
	for path, text := range want {
		w.put(path, text)
	}
	w.put("gone", "x")
	if _, err := w.Delete(w.ctx, g, "gone", 0); err != nil {
		w.Fatal(err)
	}
	paths := []string{"gone", "bytes", "../f", "empty", "none", "text", "d/new", "text"}
	for i := range 40 { // more than one answer holds
		path := fmt.Sprintf("many/%02d", i)
		want[path] = strings.Repeat(string(rune('a'+i%26)), 30<<10)
		w.put(path, want[path])
		paths = append(paths, path)
	}
	wholes, err := vfs.GetAll(w.ctx, w.Files, g, paths)
	if err != nil || len(wholes) != len(paths) {
		w.Fatalf("%d files, %v", len(wholes), err)
	}
	for i, whole := range wholes {
		path, code := paths[i], protocol.Code("")
		switch path {
		case "gone", "none":
			code = protocol.FileNotFound
		case "../f":
			code = protocol.InvalidParameter
		}
		if protocol.CodeOf(whole.Err) != code {
			w.Fatalf("%s: %v, want %q", path, whole.Err, code)
		}
		if code != "" {
			continue
		}
		stat, err := w.Stat(w.ctx, g, path)
		f := whole.File
		if err != nil || string(whole.Data) != want[path] || f.Path != path || f.Version != stat.Version || f.SHA256 != stat.SHA256 || f.Size != stat.Size {
			w.Fatalf("%s: %d bytes of %+v, stat says %+v, %v", path, len(whole.Data), f, stat, err)
		}
	}
	if _, err := vfs.GetAll(w.ctx, w.Files, g, make([]string, vfs.MaxBatchFiles+1)); protocol.CodeOf(err) != protocol.PayloadTooLarge {
		w.Fatalf("too many files: %v", err)
	}
}

func (w *world) snapshots() {
	s, ok := w.Files.(vfs.Snapshots)
	if !ok {
		w.Skip("it has no snapshots")
	}
	at := func(snapshot uint64) string {
		w.Helper()
		var all []string
		for cursor := ""; ; {
			files, next, err := s.ListAt(w.ctx, g, "", snapshot, cursor, 2)
			if err != nil {
				w.Fatalf("list at %d: %v", snapshot, err)
			}
			for _, f := range files {
				all = append(all, f.Path+"="+w.read(f.Path, f.Version))
			}
			if cursor = next; next == "" {
				return strings.Join(all, " ")
			}
		}
	}
	take := func() uint64 {
		w.Helper()
		snapshot, err := s.Snapshot(w.ctx, g)
		if err != nil {
			w.Fatal(err)
		}
		return snapshot
	}
	w.put("a", "1")
	w.put("b", "1")
	w.put("c", "1")
	first := take()
	w.put("a", "2")
	if _, err := w.Delete(w.ctx, g, "b", 0); err != nil {
		w.Fatal(err)
	}
	w.put("d", "1")
	second := take()
	w.put("b", "3")
	if got, want := at(first), "a=1 b=1 c=1"; got != want {
		w.Fatalf("the first snapshot shows %s, want %s", got, want)
	}
	if got, want := at(second), "a=2 c=1 d=1"; got != want {
		w.Fatalf("the second snapshot shows %s, want %s", got, want)
	}
	if got, want := at(take()), "a=2 b=3 c=1 d=1"; got != want {
		w.Fatalf("a snapshot of now shows %s, want %s", got, want)
	}
}
