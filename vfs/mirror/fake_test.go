package mirror

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/vfs"
)

// A fake is a VFS in memory that can be made to fail in every way.
type fake struct {
	mu       sync.Mutex
	files    map[string][]version // the latest last
	names    vfs.Collisions       // of those that are there
	last     uint64
	wiped    int // times
	instance string
	now      func() time.Time
	calls    map[string]int
	sent     int64        // bytes that were put
	read     atomic.Int64 // bytes of contents that were read
	refuse   error        // what deltas get, nil for their work done
	lie      func([]Sum) []Sum

	forgotten bool // versions cannot be copied any more

	// fault is asked before and after every call what is to go wrong.
	fault func(call string, after bool) error
	// garbage is asked whether an answer is to make no sense.
	garbage func(call string) bool
}

type version struct {
	File
	content []byte
}

func newFake() *fake {
	return &fake{files: make(map[string][]version), instance: "one", now: time.Now, calls: make(map[string]int)}
}

var errDown = errors.New("connection refused")

// call does one call under the lock, with what may go wrong.
func (f *fake) call(ctx context.Context, name string, do func() error) error {
	if err := f.goWrong(name, false); err != nil {
		return wait(ctx, err)
	}
	f.mu.Lock()
	f.calls[name]++
	err := do()
	f.mu.Unlock()
	if err == nil {
		err = wait(ctx, f.goWrong(name, true))
	}
	return err
}

func (f *fake) goWrong(name string, after bool) error {
	f.mu.Lock()
	fault := f.fault
	f.mu.Unlock()
	if fault == nil {
		return nil
	}
	return fault(name, after)
}

// errHang makes a call take until its caller gives up.
var errHang = errors.New("hangs")

func wait(ctx context.Context, err error) error {
	if errors.Is(err, errHang) {
		<-ctx.Done()
		return ctx.Err()
	}
	return err
}

func (f *fake) head(path string) (version, bool) {
	list := f.files[path]
	if len(list) == 0 {
		return version{}, false
	}
	return list[len(list)-1], true
}

func (f *fake) spoil(call string, file File) File {
	if f.garbage != nil && f.garbage(call) {
		file.SHA256[0]++
		file.Size += 3
	}
	return file
}

func (f *fake) Stat(ctx context.Context, path string) (file File, err error) {
	err = f.call(ctx, "stat", func() error {
		v, ok := f.head(path)
		if !ok {
			return protocol.Errorf(protocol.FileNotFound, "no file")
		}
		file = f.spoil("stat", v.File)
		return nil
	})
	return file, err
}

func (f *fake) Open(ctx context.Context, path string, number uint64) (r io.ReadSeekCloser, file File, err error) {
	err = f.call(ctx, "open", func() error {
		for i, v := range slices.Backward(f.files[path]) {
			if v.Version == number || number == 0 && i == len(f.files[path])-1 {
				if v.Deleted {
					break
				}
				content := v.content
				if f.garbage != nil && f.garbage("read") {
					content = append(slices.Clone(content), "more"...)
				}
				r, file = &contents{bytes.NewReader(content), f, ctx}, v.File
				return nil
			}
		}
		return protocol.Errorf(protocol.FileNotFound, "no such version")
	})
	return r, file, err
}

// contents fail in the middle if the fake says so.
type contents struct {
	*bytes.Reader
	fake *fake
	ctx  context.Context
}

func (c *contents) Read(p []byte) (int, error) {
	if err := wait(c.ctx, c.fake.goWrong("read", false)); err != nil {
		return 0, err
	}
	n, err := c.Reader.Read(p[:min(len(p), 1<<20)])
	c.fake.read.Add(int64(n))
	return n, err
}

func (c *contents) Close() error { return nil }

func (f *fake) Put(ctx context.Context, path string, body io.Reader, o PutOptions) (file File, err error) {
	content, err := io.ReadAll(body)
	if err != nil {
		return File{}, err
	}
	err = f.call(ctx, "put", func() (err error) {
		file, err = f.put(path, content, o)
		file = f.spoil("put", file)
		return err
	})
	return file, err
}

// Below finds the first file in a folder.
func (f *fake) Below(ctx context.Context, folder string) (file File, err error) {
	err = f.call(ctx, "below", func() error {
		for path := range f.files {
			if v, _ := f.head(path); strings.HasPrefix(path, folder+"/") && !v.Deleted && (file.Path == "" || path < file.Path) {
				file = v.File
			}
		}
		if file.Path == "" {
			return protocol.Errorf(protocol.FileNotFound, "no file")
		}
		return nil
	})
	return file, err
}

func (f *fake) put(path string, content []byte, o PutOptions) (File, error) {
	if err := f.names.Check(path); err != nil {
		return File{}, err
	}
	v, _ := f.head(path)
	found := v.Version
	if v.Deleted {
		found = 0
	}
	if found != o.IfVersion {
		return File{}, protocol.Errorf(protocol.RevisionConflict, "version %d, not %d", found, o.IfVersion)
	}
	sum := sha256.Sum256(content)
	if o.SHA256 != nil && *o.SHA256 != sum || o.Size >= 0 && o.Size != int64(len(content)) {
		return File{}, protocol.Errorf(protocol.SyncFailed, "not what was announced")
	}
	f.sent += int64(len(content))
	return f.add(path, version{content: content, File: File{Size: int64(len(content)), SHA256: sum, Mtime: o.Mtime}}), nil
}

func (f *fake) add(path string, v version) File {
	f.last++
	v.Path, v.Version, v.Modified = path, f.last, f.now()
	f.files[path] = append(f.files[path], v)
	if v.Deleted {
		f.names.Remove(path)
	} else {
		f.names.Add(path)
	}
	return v.File
}

func (f *fake) PutBatch(ctx context.Context, list []Small) (files []File, errs []error, err error) {
	err = f.call(ctx, "batch", func() error {
		for _, small := range list {
			file, err := f.put(small.Path, slices.Clone(small.Content), small.PutOptions)
			files, errs = append(files, f.spoil("put", file)), append(errs, err)
		}
		return nil
	})
	return files, errs, err
}

// GetBatch implements [BatchGetter].
func (f *fake) GetBatch(ctx context.Context, paths []string) (wholes []Whole, err error) {
	err = f.call(ctx, "get batch", func() error {
		for _, path := range paths {
			v, ok := f.head(path)
			w := Whole{File: v.File, Content: slices.Clone(v.content)}
			if !ok || v.Deleted {
				w = Whole{Err: protocol.Errorf(protocol.FileNotFound, "no file")}
			}
			if f.garbage != nil && f.garbage("read") {
				w.Content = append(w.Content, "more"...)
			}
			f.read.Add(int64(len(w.Content)))
			wholes = append(wholes, w)
		}
		return nil
	})
	return wholes, err
}

func (f *fake) Delete(ctx context.Context, path string, ifVersion uint64) (file File, err error) {
	err = f.call(ctx, "delete", func() error {
		v, ok := f.head(path)
		if !ok || v.Deleted {
			return protocol.Errorf(protocol.FileNotFound, "no file")
		}
		if v.Version != ifVersion {
			return protocol.Errorf(protocol.RevisionConflict, "version %d, not %d", v.Version, ifVersion)
		}
		file = f.add(path, version{File: File{Deleted: true}})
		return nil
	})
	return file, err
}

func (f *fake) List(ctx context.Context, cursor string, limit int) (files []File, next string, err error) {
	err = f.call(ctx, "list", func() error {
		for path := range f.files {
			if v, _ := f.head(path); path > cursor {
				files = append(files, f.spoil("list", v.File))
			}
		}
		slices.SortFunc(files, func(a, b File) int { return cmp.Compare(a.Path, b.Path) })
		if len(files) > limit {
			files = files[:limit]
			next = files[limit-1].Path
		}
		return nil
	})
	return files, next, err
}

// Versions implements [Historian].
func (f *fake) Versions(ctx context.Context, path string) (files []File, err error) {
	err = f.call(ctx, "versions", func() error {
		for _, v := range f.files[path] {
			files = append(files, f.spoil("versions", v.File))
		}
		if files == nil {
			return protocol.Errorf(protocol.FileNotFound, "no file")
		}
		return nil
	})
	return files, err
}

func (f *fake) Instance(ctx context.Context) (instance string, err error) {
	err = f.call(ctx, "instance", func() error {
		instance = f.instance
		return nil
	})
	return instance, err
}

func (f *fake) Revision(ctx context.Context) (revision string, err error) {
	err = f.call(ctx, "revision", func() error {
		revision = fmt.Sprint(f.instance, f.wiped, " ", f.last)
		return nil
	})
	return revision, err
}

// wipe makes the VFS lose everything. Without an instance of its own it cannot
// say so.
func (f *fake) wipe(instance string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.wiped++
	f.files, f.names, f.last, f.instance = make(map[string][]version), vfs.Collisions{}, 0, instance
}

// set writes a file as somebody else would.
func (f *fake) set(path, content string) File {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.add(path, version{content: []byte(content), File: File{Size: int64(len(content)), SHA256: sha256.Sum256([]byte(content))}})
}

// remove deletes a file as somebody else would.
func (f *fake) remove(path string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.add(path, version{File: File{Deleted: true}})
}

// content is the content of the latest version.
func (f *fake) content(path string) (string, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	v, ok := f.head(path)
	return string(v.content), ok && !v.Deleted
}

// all is everything that is there.
func (f *fake) all() map[string]string {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := make(map[string]string)
	for path := range f.files {
		if v, _ := f.head(path); !v.Deleted {
			m[path] = string(v.content)
		}
	}
	return m
}

// size is the number of files there that have ever been.
func (f *fake) size() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.files)
}

func (f *fake) count(call string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[call]
}

func (f *fake) String() string { return fmt.Sprint(f.all()) }

func (f *fake) ChunkSize() int { return 4 << 10 }

func (f *fake) Chunks(ctx context.Context, path string, number uint64) (sums []Sum, err error) {
	err = f.call(ctx, "chunks", func() error {
		v, ok := f.at(path, number)
		if !ok {
			return protocol.Errorf(protocol.FileNotFound, "no such version")
		}
		h := vfs.ChunkHasher{Size: f.ChunkSize()}
		_, _ = h.Write(v.content)
		for _, sum := range h.Sums() {
			if f.garbage != nil && f.garbage("chunks") {
				sum[0]++
			}
			sums = append(sums, Sum(sum))
		}
		if f.lie != nil {
			sums = f.lie(sums)
		}
		return nil
	})
	return sums, err
}

func (f *fake) PutDelta(ctx context.Context, path string, delta vfs.Delta, changed io.Reader, o PutOptions) (file File, err error) {
	changes, err := io.ReadAll(changed)
	if err != nil {
		return File{}, err
	}
	err = f.call(ctx, "delta", func() (err error) {
		if f.refuse != nil {
			return f.refuse
		}
		v, ok := f.at(path, delta.Base)
		if !ok {
			return protocol.Errorf(protocol.FileNotFound, "no such version")
		}
		whole, err := vfs.Changed(bytes.NewReader(v.content), v.Size, int64(f.ChunkSize()), delta.Keep, bytes.NewReader(changes), o.Size)
		if err != nil {
			return err
		}
		content, err := io.ReadAll(whole)
		if err != nil {
			return err
		}
		file, err = f.put(path, content, o)
		if err == nil {
			f.sent += int64(len(changes) - len(content)) // the rest was here
		}
		file = f.spoil("put", file)
		return err
	})
	return file, err
}

// PutCopy implements [Copier].
func (f *fake) PutCopy(ctx context.Context, path, from string, number uint64, o PutOptions) (file File, err error) {
	err = f.call(ctx, "copy", func() (err error) {
		if f.refuse != nil {
			return f.refuse
		}
		v, ok := f.at(from, number)
		if !ok || f.forgotten {
			return protocol.Errorf(protocol.FileNotFound, "no such version")
		}
		if file, err = f.put(path, v.content, o); err == nil {
			f.sent -= v.Size
		}
		file = f.spoil("put", file)
		return err
	})
	return file, err
}

func (f *fake) at(path string, number uint64) (version, bool) {
	for _, v := range f.files[path] {
		if v.Version == number && !v.Deleted {
			return v, true
		}
	}
	return version{}, false
}
