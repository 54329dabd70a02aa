package backup

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"syscall"

	"github.com/aibridge/aibridge/internal/store"
)

// A tree is a folder that is backed up and restored as it is, except for entries
// that are neither files nor folders.
type tree struct {
	dir string
	// unit reports whether the files of a folder belong together. A bridge may be
	// at work in one while it is copied; then it is copied anew, and the last copy
	// counts.
	unit func(path string) bool
}

// copies bounds how often a file or a unit is copied.
const copies = 5

// isRun reports whether a folder in that of workflows is a run's.
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

// walk calls f for every file and folder below one. A file that goes meanwhile is
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

// Check implements [store.FileTarget].
func (t tree) Check(string) error { return nil }

// Empty implements [store.FileTarget]: folders that have nothing in them do not
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

// Clear implements [store.FileTarget]. The folder itself stays: it may be a link
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

// Folder implements [store.FileTarget].
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

// File implements [store.FileTarget].
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

// Done implements [store.FileTarget]: files were synced one by one, and now the
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
