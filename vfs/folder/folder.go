// Package folder keeps blobs as files in a local folder.
//
//	blobs/ab/ab34…   a blob, named after its SHA-256
//	tmp/…            blobs being written; whatever a crash leaves here is removed
//
// A blob is written to tmp, synced, renamed, and its new folder synced, so a
// blob that can be seen is whole and survives a power cut.
package folder

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/vfs"
)

// Blobs are blobs in a folder. They never reach outside it, even through links in
// it.
type Blobs struct {
	root *os.Root
	dir  string
	next atomic.Uint64
}

// Open opens or makes the folder, and removes what an earlier process did not
// finish. One process at a time may use a folder.
func Open(dir string) (*Blobs, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("folder of blobs: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("folder of blobs: %w", err)
	}
	b := &Blobs{root: root, dir: dir}
	if err := b.prepare(); err != nil {
		return nil, errors.Join(fmt.Errorf("folder of blobs: %w", err), root.Close())
	}
	return b, nil
}

// Close gives the folder back.
func (b *Blobs) Close() error { return b.root.Close() }

// prepare makes every folder there will ever be, durably, so that a commit has
// one folder to sync.
func (b *Blobs) prepare() error {
	if err := b.root.RemoveAll("tmp"); err != nil {
		return err
	}
	for _, name := range []string{"tmp", "blobs"} {
		if err := b.root.Mkdir(name, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	for i := range 256 {
		name := fmt.Sprintf("blobs/%02x", i)
		if err := b.root.Mkdir(name, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return errors.Join(b.syncDir("blobs"), b.syncDir("."))
}

func (b *Blobs) syncDir(name string) error {
	dir, err := b.root.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(syncFolder(dir), dir.Close())
}

// path is the path of a blob, "" for an invalid key.
func path(key string) string {
	if len(key) != 64 {
		return ""
	}
	for _, c := range []byte(key) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return ""
		}
	}
	return "blobs/" + key[:2] + "/" + key
}

// New implements [vfs.Blobs].
func (b *Blobs) New(context.Context) (vfs.Blob, error) {
	name := "tmp/" + strconv.FormatUint(b.next.Add(1), 36)
	f, err := b.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, explain(err)
	}
	return &blob{blobs: b, file: f, name: name}, nil
}

type blob struct {
	blobs *Blobs
	file  *os.File
	name  string
	ended bool
	begun int64 // bytes whose way to the disk has begun
	size  int64
}

// writeBehind is the part that is written before it is sent on its way to the disk,
// so that Commit has not to wait for everything.
const writeBehind = 8 << 20

// Write implements [io.Writer].
func (w *blob) Write(p []byte) (int, error) {
	n, err := w.file.Write(p)
	w.size += int64(n)
	if w.size-w.begun >= writeBehind {
		startWriting(w.file, w.begun, w.size-w.begun)
		w.begun = w.size
	}
	return n, explain(err)
}

// Commit implements [vfs.Blob].
func (w *blob) Commit(sum vfs.Sum) (string, error) {
	defer w.Abort()
	if err := syncFile(w.file); err != nil {
		return "", explain(err)
	}
	if err := w.file.Close(); err != nil {
		return "", explain(err)
	}
	key := hex.EncodeToString(sum[:])
	if err := w.blobs.root.Rename(w.name, path(key)); err != nil {
		return "", explain(err)
	}
	w.ended = true
	return key, explain(w.blobs.syncDir("blobs/" + key[:2]))
}

// Abort implements [vfs.Blob].
func (w *blob) Abort() {
	if w.ended {
		return
	}
	w.ended = true
	_ = w.file.Close()
	_ = w.blobs.root.Remove(w.name)
}

// Open implements [vfs.Blobs].
func (b *Blobs) Open(_ context.Context, key string) (io.ReadSeekCloser, error) {
	name := path(key)
	if name == "" {
		return nil, protocol.Errorf(protocol.FileNotFound, "the content is lost")
	}
	f, err := b.root.Open(name)
	if err != nil {
		return nil, explain(err)
	}
	return f, nil
}

// Remove implements [vfs.Blobs].
func (b *Blobs) Remove(_ context.Context, key string) error {
	name := path(key)
	if name == "" {
		return nil
	}
	if err := b.root.Remove(name); !errors.Is(err, fs.ErrNotExist) {
		return explain(err)
	}
	return nil
}

// All implements [vfs.Blobs].
func (b *Blobs) All(ctx context.Context, yield func(key string, modified time.Time) bool) error {
	for i := range 256 {
		entries, err := fs.ReadDir(b.root.FS(), fmt.Sprintf("blobs/%02x", i))
		if err != nil {
			return explain(err)
		}
		for _, e := range entries {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			info, err := e.Info()
			if err != nil || path(e.Name()) == "" {
				continue // removed meanwhile, or not ours
			}
			if !yield(e.Name(), info.ModTime()) {
				return nil
			}
		}
	}
	return nil
}

// Room implements [vfs.Blobs].
func (b *Blobs) Room() int64 { return free(b.dir) }

// explain makes an error of the file system one of the protocol, without the
// path, which callers must not see.
func explain(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return protocol.Wrap(protocol.NoSpace, err, "no space left on the disk")
	case errors.Is(err, fs.ErrNotExist):
		return protocol.Wrap(protocol.FileNotFound, err, "the content is lost")
	}
	return protocol.Wrap(protocol.VFSUnavailable, err, "the disk fails")
}
