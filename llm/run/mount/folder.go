package mount

import (
	"context"
	"crypto/rand"
	"errors"
	"hash/maphash"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/aibridge/aibridge/llm/run/fault"
)

// A Folder is a local folder. No link leads out of it, and no error names its path.
type Folder struct {
	root     *os.Root
	fileMode fs.FileMode // of new files
	dirMode  fs.FileMode
	copies   bool // the files are copies, which a power failure may destroy

	seed  maphash.Seed
	locks [64]sync.Mutex // of writers, by path
}

// OpenFolder opens an existing folder.
func OpenFolder(dir string) (*Folder, error) { return open(dir, 0o644, 0o755) }

// OpenPrivateFolder is OpenFolder for a folder whose new files only their owner can
// access.
func OpenPrivateFolder(dir string) (*Folder, error) { return open(dir, 0o600, 0o700) }

// OpenCopy is OpenPrivateFolder for a copy of files kept elsewhere. Writes are not
// synced to disk.
func OpenCopy(dir string) (*Folder, error) {
	f, err := OpenPrivateFolder(dir)
	if err == nil {
		f.copies = true
	}
	return f, err
}

func open(dir string, fileMode, dirMode fs.FileMode) (*Folder, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fault.Wrap(fault.NotFound, err, "the folder cannot be opened")
	}
	return &Folder{root: root, fileMode: fileMode, dirMode: dirMode, seed: maphash.MakeSeed()}, nil
}

// Close closes the folder.
func (f *Folder) Close() error { return f.root.Close() }

// orDot is a path for the system, "." for the root.
func orDot(path string) string {
	if path == "" {
		return "."
	}
	return path
}

// Stat implements [FS].
func (f *Folder) Stat(_ context.Context, path string) (Info, error) {
	info, err := f.root.Stat(orDot(path))
	if err != nil {
		return Info{}, explain(path, err)
	}
	if !info.IsDir() && !info.Mode().IsRegular() {
		return Info{}, violation(path, "it is no plain file")
	}
	return infoOf(path, info), nil
}

func infoOf(path string, info fs.FileInfo) Info {
	if info.IsDir() {
		return Info{Path: path, Dir: true}
	}
	return Info{Path: path, Size: info.Size()}
}

// Open implements [FS].
func (f *Folder) Open(ctx context.Context, path string) (io.ReadCloser, Info, error) {
	file, info, err := openPlain(f.root, path)
	if err != nil {
		return nil, Info{}, err
	}
	return &folderReader{ctx: ctx, file: file, path: path}, infoOf(path, info), nil
}

// openPlain opens a plain file. It does not block on a named pipe or a device.
func openPlain(root *os.Root, path string) (*os.File, fs.FileInfo, error) {
	file, err := root.OpenFile(orDot(path), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, explain(path, err)
	}
	info, err := file.Stat()
	switch {
	case err != nil:
		err = explain(path, err)
	case info.IsDir():
		err = isFolder(path)
	case !info.Mode().IsRegular():
		err = violation(path, "it is no plain file")
	}
	if err != nil {
		_ = file.Close()
		return nil, nil, err
	}
	return file, info, nil
}

type folderReader struct {
	ctx  context.Context
	file *os.File
	path string
}

// Read implements [io.Reader].
func (r *folderReader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := r.file.Read(p)
	if err != nil && err != io.EOF {
		err = explain(r.path, err)
	}
	return n, err
}

// Close implements [io.Closer].
func (r *folderReader) Close() error { return r.file.Close() }

// List implements [FS].
func (f *Folder) List(ctx context.Context, dir string, yield func(Info) bool) error {
	entries, err := names(f.root, dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := ctx.Err(); err != nil {
			return err
		}
		if !yield(Info{Path: join(dir, e.Name()), Dir: e.IsDir()}) {
			break
		}
	}
	return nil
}

// names lists the files and folders in a folder.
func names(root *os.Root, dir string) ([]fs.DirEntry, error) {
	file, err := root.OpenFile(orDot(dir), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, explain(dir, err)
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil {
		return nil, explain(dir, err)
	} else if !info.IsDir() {
		return nil, notFolder(dir)
	}
	entries, err := file.ReadDir(MaxFolder + 1)
	if err != nil && err != io.EOF {
		return nil, explain(dir, err)
	}
	if len(entries) > MaxFolder {
		return nil, tooManyNames()
	}
	entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool {
		return !e.IsDir() && !e.Type().IsRegular() || badName(e.Name()) != ""
	})
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, nil
}

// maxDepth is the greatest depth of a walk.
const maxDepth = 64

// Walk implements [FS].
func (f *Folder) Walk(ctx context.Context, dir string, enter func(string) bool, yield func(Entry) bool) error {
	info, err := f.Stat(ctx, dir)
	if err != nil {
		return err
	}
	w := &walk{ctx: ctx, enter: enter, yield: yield}
	if !info.Dir {
		w.file(f.root, dir, dir)
		return nil
	}
	root, err := f.root.OpenRoot(orDot(dir))
	if err != nil {
		return explain(dir, err)
	}
	defer root.Close()
	_, err = w.folder(root, dir, 1)
	return err
}

// A walk opens every folder once, and its files from there.
type walk struct {
	ctx   context.Context
	enter func(string) bool
	yield func(Entry) bool
}

// file yields the file with a name in root.
func (w *walk) file(root *os.Root, path, name string) bool {
	return w.yield(Entry{Path: path, read: func(_ context.Context, buf []byte, limit int) ([]byte, error) {
		file, _, err := openPlain(root, name)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		return readInto(file, buf, limit)
	}})
}

// folder walks an open folder, and reports whether to continue.
func (w *walk) folder(root *os.Root, dir string, depth int) (bool, error) {
	entries, err := names(root, "")
	if err != nil {
		return false, err
	}
	for _, e := range entries {
		if err := w.ctx.Err(); err != nil {
			return false, err
		}
		path := join(dir, e.Name())
		if !e.IsDir() {
			if !w.file(root, path, e.Name()) {
				return false, nil
			}
			continue
		}
		if depth == maxDepth || w.enter != nil && !w.enter(path) {
			continue
		}
		below, err := root.OpenRoot(e.Name())
		if err != nil {
			continue // removed meanwhile, or not readable
		}
		more, err := w.folder(below, path, depth+1)
		_ = below.Close()
		if err != nil && fault.CodeOf(err) == fault.NotFound {
			continue
		}
		if err != nil || !more {
			return false, err
		}
	}
	return true, nil
}

// lock locks a path against other writers of this process.
func (f *Folder) lock(path string) *sync.Mutex {
	m := &f.locks[maphash.String(f.seed, strings.ToLower(path))%uint64(len(f.locks))]
	m.Lock()
	return m
}

// Write implements [FS]: the data is written to a temporary file, made durable and
// renamed. Other writers in the folder, of any process, wait meanwhile.
func (f *Folder) Write(ctx context.Context, name string, data []byte, o WriteOptions) error {
	defer f.lock(name).Unlock()
	if err := f.check(name, o); err != nil {
		return err
	}
	dir, err := f.claim(ctx, path.Dir(name))
	if err != nil {
		return explain(name, err)
	}
	err = f.replace(dir, name, data, o)
	return errors.Join(err, explain(name, dir.Close()))
}

// check refuses an impossible write before folders are made for it.
func (f *Folder) check(name string, o WriteOptions) error {
	_, present, err := f.target(name)
	if err == nil && !present {
		err = o.check(name, false, Sum{})
	}
	return err
}

// claim makes, opens and locks a folder. No other process writes in it until it is
// closed.
func (f *Folder) claim(ctx context.Context, name string) (*os.File, error) {
	if err := f.root.MkdirAll(name, f.dirMode); err != nil {
		return nil, err
	}
	dir, err := f.root.Open(name)
	if err != nil {
		return nil, err
	}
	if err := lockFolder(ctx, dir); err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	return dir, nil
}

// replace writes a file in a claimed folder.
func (f *Folder) replace(dir *os.File, name string, data []byte, o WriteOptions) error {
	mode, present, err := f.target(name)
	if err != nil {
		return err
	}
	if err := f.compare(name, present, o); err != nil {
		return err
	}
	beside := path.Join(path.Dir(name), tempPrefix+rand.Text())
	if err := f.fill(beside, data, mode); err != nil {
		_ = f.root.Remove(beside)
		return explain(name, err)
	}
	if err := f.root.Rename(beside, name); err != nil {
		_ = f.root.Remove(beside)
		return explain(name, err)
	}
	if f.copies {
		return nil
	}
	return explain(name, syncFolder(dir))
}

// tempPrefix is the prefix of the names of temporary files. They are hidden, so that
// the remains of a crash are not listed.
const tempPrefix = ".aibridge-"

// target returns the mode of the file to be replaced, and whether it exists.
func (f *Folder) target(name string) (mode fs.FileMode, present bool, err error) {
	info, err := f.root.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return f.fileMode, false, nil
	case err != nil:
		return 0, false, explain(name, err)
	case info.IsDir():
		return 0, false, fault.Errorf(fault.PreconditionFailed, "%q is a folder", name)
	case !info.Mode().IsRegular():
		return 0, false, violation(name, "it is a link or a device")
	}
	return info.Mode().Perm(), true, nil
}

// compare checks the current contents, if the options require some.
func (f *Folder) compare(name string, present bool, o WriteOptions) error {
	if o.Match == nil || !present {
		return o.check(name, present, Sum{})
	}
	file, _, err := openPlain(f.root, name)
	if err != nil {
		return err
	}
	defer file.Close()
	sum, _, err := SumReader(file)
	if err != nil {
		return explain(name, err)
	}
	return o.check(name, present, sum)
}

func (f *Folder) fill(name string, data []byte, mode fs.FileMode) error {
	file, err := f.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	if err == nil && !f.copies {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

// Append implements [FS].
func (f *Folder) Append(_ context.Context, name string, data []byte) error {
	defer f.lock(name).Unlock()
	mode, _, err := f.target(name)
	if err != nil {
		return err
	}
	if err := f.root.MkdirAll(path.Dir(name), f.dirMode); err != nil {
		return explain(name, err)
	}
	file, err := f.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_APPEND, mode)
	if err != nil {
		return explain(name, err)
	}
	_, err = file.Write(data)
	return explain(name, errors.Join(err, file.Close()))
}

// escapes is the text of the system's error about a link that leaves a root, which has
// no exported value.
const escapes = "path escapes from parent"

// explain converts an error of the file system to a fault, without paths of the host.
func explain(path string, err error) error {
	var known *fault.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &known):
		return err
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return notFound(path)
	case strings.Contains(err.Error(), escapes), errors.Is(err, syscall.ELOOP):
		return fault.Wrap(fault.Sandbox, err, violation(path, "it leads out of its mount").Message).With("path", path)
	case errors.Is(err, fs.ErrPermission):
		return fault.Wrap(fault.Sandbox, err, violation(path, "the system does not permit it").Message).With("path", path)
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fault.Wrap(fault.WriteLimit, err, "there is no space left")
	}
	return fault.Wrap(fault.Internal, err, "the disk fails")
}

// syncFolder makes the names in a folder durable, on systems that support it.
func syncFolder(dir *os.File) error {
	err := dir.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, fs.ErrPermission) || errors.Is(err, errors.ErrUnsupported) {
		return nil // not supported
	}
	return err
}
