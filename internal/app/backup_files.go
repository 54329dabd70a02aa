package app

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"github.com/aibridge/aibridge/internal/store"
	"github.com/aibridge/aibridge/vfs"
	"github.com/aibridge/aibridge/vfs/folder"
)

// A tree is a folder that is backed up and restored as it is, but for what is
// neither a file nor a folder.
type tree struct {
	dir string
	// unit tells the folders whose files belong together. A bridge may be at
	// work in one while it is copied; then it is copied anew, and the last copy
	// counts.
	unit func(path string) bool
}

// copies bounds how often a file or a unit is copied.
const copies = 5

// isRun tells the folders of runs in the folder of workflows.
func isRun(name string) bool { return path.Dir(name) == "runs" }

// add writes the tree into a backup.
func (t tree) add(ctx context.Context, w *store.FileWriter) error {
	root, err := os.OpenRoot(t.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer root.Close()
	return walk(ctx, root, ".", func(name string, d fs.DirEntry) error {
		if t.unit == nil || !d.IsDir() || !t.unit(name) {
			return addTo(w, root, name, d)
		}
		if err := t.addUnit(ctx, w, root, name); err != nil {
			return err
		}
		return fs.SkipDir
	})
}

// walk calls f for every file and folder below one. What goes meanwhile is
// left out.
func walk(ctx context.Context, root *os.Root, from string, f func(name string, d fs.DirEntry) error) error {
	return fs.WalkDir(root.FS(), from, func(name string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case name == "." || !d.IsDir() && !d.Type().IsRegular():
			return nil
		}
		return f(name, d)
	})
}

// addTo adds one file or folder to a backup. A file that is written meanwhile
// is copied again, and the last copy counts.
func addTo(w *store.FileWriter, root *os.Root, name string, d fs.DirEntry) error {
	if d.IsDir() {
		return w.Folder(name)
	}
	for range copies {
		changed, err := addFile(w, root, name)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || !changed {
			return err
		}
	}
	return nil
}

// addFile adds one file to a backup, and reports whether it changed meanwhile.
func addFile(w *store.FileWriter, root *os.Root, name string) (changed bool, err error) {
	file, err := root.Open(name)
	if err != nil {
		return false, err
	}
	defer file.Close()
	before, err := file.Stat()
	if err != nil {
		return false, err
	}
	if err := w.File(name, file); err != nil {
		return false, err
	}
	after, err := file.Stat()
	return err == nil && (after.Size() != before.Size() || !after.ModTime().Equal(before.ModTime())), err
}

// addUnit copies a folder until nothing has changed meanwhile.
func (t tree) addUnit(ctx context.Context, w *store.FileWriter, root *os.Root, unit string) error {
	var before []byte
	for range copies {
		now, err := fingerprint(ctx, root, unit)
		if err != nil || before != nil && bytes.Equal(now, before) {
			return err
		}
		before = now
		err = walk(ctx, root, unit, func(name string, d fs.DirEntry) error { return addTo(w, root, name, d) })
		if err != nil {
			return err
		}
	}
	return nil
}

// fingerprint changes with the files of a folder.
func fingerprint(ctx context.Context, root *os.Root, dir string) ([]byte, error) {
	sum := sha256.New()
	err := walk(ctx, root, dir, func(name string, d fs.DirEntry) error {
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil {
			fmt.Fprintln(sum, name, info.Size(), info.ModTime().UnixNano())
		}
		return err
	})
	return sum.Sum(nil), err
}

// Check implements [store.FilePlace].
func (t tree) Check(string) error { return nil }

// Empty implements [store.FilePlace]: folders that have nothing in them do not
// count.
func (t tree) Empty(ctx context.Context) (bool, error) {
	root, err := os.OpenRoot(t.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	defer root.Close()
	empty := true
	err = walk(ctx, root, ".", func(_ string, d fs.DirEntry) error {
		if d.IsDir() {
			return nil
		}
		empty = false
		return fs.SkipAll
	})
	return empty, err
}

// Clear implements [store.FilePlace]. The folder itself stays: it may be a link
// to another disk, or where one is mounted.
func (t tree) Clear(context.Context) error {
	entries, err := os.ReadDir(t.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		err = errors.Join(err, os.RemoveAll(filepath.Join(t.dir, e.Name())))
	}
	return err
}

// Folder implements [store.FilePlace].
func (t tree) Folder(_ context.Context, name string) error {
	return t.within(func(root *os.Root) error { return root.MkdirAll(name, 0o700) })
}

// within runs f with the tree's folder, which is made if it is missing.
func (t tree) within(f func(*os.Root) error) error {
	if err := os.MkdirAll(t.dir, 0o700); err != nil {
		return err
	}
	root, err := os.OpenRoot(t.dir)
	if err != nil {
		return err
	}
	return errors.Join(f(root), root.Close())
}

// File implements [store.FilePlace].
func (t tree) File(_ context.Context, name string) (file store.RestoredFile, err error) {
	err = t.within(func(root *os.Root) error {
		if err := root.MkdirAll(path.Dir(name), 0o700); err != nil {
			return err
		}
		f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
		file = restoredFile{f}
		return err
	})
	return file, err
}

// Done implements [store.FilePlace]: files were synced one by one, and now the
// folders are.
func (t tree) Done(ctx context.Context) error {
	return t.within(func(root *os.Root) error {
		sync := func(name string) error {
			dir, err := root.Open(name)
			if err != nil {
				return err
			}
			return errors.Join(syncDir(dir), dir.Close())
		}
		err := walk(ctx, root, ".", func(name string, d fs.DirEntry) error {
			if !d.IsDir() {
				return nil
			}
			return sync(name)
		})
		return errors.Join(err, sync("."))
	})
}

// syncDir makes the names in a folder durable, where a system can do that.
func syncDir(dir *os.File) error {
	err := dir.Sync()
	if runtime.GOOS == "windows" || errors.Is(err, errors.ErrUnsupported) || errors.Is(err, syscall.EINVAL) {
		return nil
	}
	return err
}

// A restoredFile is a file being restored. Nothing counts before the restore
// is complete, so it need not appear at once.
type restoredFile struct{ *os.File }

// Commit implements [store.RestoredFile].
func (f restoredFile) Commit() error { return errors.Join(f.Sync(), f.Close()) }

// Abort implements [store.RestoredFile].
func (f restoredFile) Abort() { _ = f.Close() }

// spoolFiles are those of the audit trail, by the beginning of their names.
// Entries in them that are stored already do no harm: the trail knows them.
type spoolFiles string

func (s spoolFiles) file(name string) string { return string(s) + "." + name }

var spoolNames = []string{"0", "1"}

// read reads what waits to be stored, for a backup of which the trails are
// copied later. An entry that a bridge stores meanwhile is then in both, and
// counts once; read later, it could be in neither.
func (s spoolFiles) read() (store.FileSource, error) {
	waiting := make(map[string][]byte)
	for _, name := range spoolNames {
		data, err := os.ReadFile(s.file(name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return store.FileSource{}, err
		}
		if len(data) > 0 {
			waiting[name] = data
		}
	}
	return store.FileSource{Place: placeSpool, Add: func(_ context.Context, w *store.FileWriter) error {
		for _, name := range slices.Sorted(maps.Keys(waiting)) {
			if err := w.File(name, bytes.NewReader(waiting[name])); err != nil {
				return err
			}
		}
		return nil
	}}, nil
}

// Check implements [store.FilePlace].
func (s spoolFiles) Check(name string) error {
	for _, known := range spoolNames {
		if name == known {
			return nil
		}
	}
	return fmt.Errorf("%q is no file of the audit trail", name)
}

// Empty implements [store.FilePlace]: what is there stays.
func (s spoolFiles) Empty(context.Context) (bool, error) { return true, nil }

// Clear implements [store.FilePlace].
func (s spoolFiles) Clear(context.Context) error { return nil }

// Folder implements [store.FilePlace].
func (s spoolFiles) Folder(context.Context, string) error { return nil }

// File implements [store.FilePlace]. Entries are added to those that are there.
func (s spoolFiles) File(_ context.Context, name string) (store.RestoredFile, error) {
	f, err := os.OpenFile(s.file(name), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	return restoredFile{f}, err
}

// Done implements [store.FilePlace].
func (s spoolFiles) Done(context.Context) error { return nil }

// contentsIn adds the contents of files in a folder to a backup. They never
// change, and a bridge may be at work there.
func contentsIn(dir string) func(context.Context, *store.FileWriter) error {
	return func(ctx context.Context, w *store.FileWriter) error {
		root, err := os.OpenRoot(filepath.Join(dir, "blobs"))
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		defer root.Close()
		return walk(ctx, root, ".", func(name string, d fs.DirEntry) error {
			if d.IsDir() {
				return nil
			}
			file, err := root.Open(name)
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err != nil {
				return err
			}
			return errors.Join(w.File(path.Base(name), file), file.Close())
		})
	}
}

// contents take the contents of files from a backup into a folder. It is opened
// for the first: a bridge may be at work there, so that there is no restore.
type contents struct {
	dir   string
	blobs *folder.Blobs // nil before
}

// Check implements [store.FilePlace]: in a folder a content is named by its
// hash, and what was named by NATS would not be found.
func (c *contents) Check(key string) error {
	if len(key) != 2*sha256.Size || strings.Trim(key, "0123456789abcdef") != "" {
		return errors.New("contents of files were kept in NATS, and have to be again: vfs.store must be nats")
	}
	return nil
}

// Empty implements [store.FilePlace]: the same content is the same file, so
// what is there, copied by hand perhaps, is in nobody's way.
func (c *contents) Empty(context.Context) (bool, error) { return true, nil }

// Clear implements [store.FilePlace]: what nobody refers to is collected.
func (c *contents) Clear(context.Context) error { return nil }

// Folder implements [store.FilePlace].
func (c *contents) Folder(context.Context, string) error { return nil }

// File implements [store.FilePlace].
func (c *contents) File(ctx context.Context, key string) (store.RestoredFile, error) {
	if c.blobs == nil {
		var err error
		if c.blobs, err = folder.Open(c.dir); err != nil {
			return nil, err
		}
	}
	blob, err := c.blobs.New(ctx)
	if err != nil {
		return nil, err
	}
	return &restoredContent{Blob: blob, key: key, sum: sha256.New()}, nil
}

// close gives the folder back.
func (c *contents) close() error {
	if c.blobs == nil {
		return nil
	}
	return c.blobs.Close()
}

// Done implements [store.FilePlace].
func (c *contents) Done(context.Context) error { return nil }

type restoredContent struct {
	vfs.Blob
	key string
	sum hash.Hash
}

// Write implements [io.Writer].
func (r *restoredContent) Write(p []byte) (int, error) {
	r.sum.Write(p)
	return r.Blob.Write(p)
}

// Commit implements [store.RestoredFile].
func (r *restoredContent) Commit() error {
	key, err := r.Blob.Commit(vfs.Sum(r.sum.Sum(nil)))
	if err == nil && key != r.key {
		err = fmt.Errorf("the content %s is not what its name says", r.key)
	}
	return err
}
