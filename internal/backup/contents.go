package backup

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/aibridge/aibridge/internal/store"
	"github.com/aibridge/aibridge/vfs"
	"github.com/aibridge/aibridge/vfs/folder"
)

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

// Check implements [store.FileTarget]: in a folder a content is named by its hash,
// so a content named by NATS would not be found.
func (c *contents) Check(key string) error {
	if len(key) != 2*sha256.Size || strings.Trim(key, "0123456789abcdef") != "" {
		return errors.New("contents of files were kept in NATS, and have to be again: vfs.store must be nats")
	}
	return nil
}

// Empty implements [store.FileTarget]: the same content is the same file, so
// existing files, copied by hand perhaps, do no harm.
func (c *contents) Empty(context.Context) (bool, error) { return true, nil }

// Clear implements [store.FileTarget]: contents that no record names are collected.
func (c *contents) Clear(context.Context) error { return nil }

// Folder implements [store.FileTarget].
func (c *contents) Folder(context.Context, string) error { return nil }

// File implements [store.FileTarget].
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

// Done implements [store.FileTarget].
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
		err = fmt.Errorf("the content %s does not have the checksum in its name", r.key)
	}
	return err
}
