package mirror

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"

	"github.com/aibridge/aibridge/vfs/mirror/tree"
)

// pull stores the VFS's version of a file in the folder.
func (e *Engine) pull(ctx context.Context, path string, l localStat, r remote) error {
	if !l.there {
		if err := e.state.twin(path); err != nil {
			return err
		}
	}
	fresh, err := e.folder.Create()
	if err != nil {
		return fmt.Errorf("%w: %w", errLocal, err)
	}
	defer fresh.Discard()
	began := e.o.Now().UnixNano()
	f, travelled, err := e.obtain(ctx, path, l, r, fresh)
	if err != nil {
		return err
	}
	if f.SHA256 != r.SHA256 {
		return errWrongContent(path) // it is not the version that was decided about
	}
	if _, err := e.intend(path, intent{inward: true, version: f.Version, size: f.Size, sum: f.SHA256}); err != nil {
		return err
	}
	fresh.SetTime(max(r.Mtime, f.Mtime))
	stamp, err := fresh.Replace(path, l.stamp)
	if err != nil {
		return err
	}
	e.count(downloads, travelled)
	return e.stored(path, &fingerprint{taken: true, stamp: stamp, sum: f.SHA256, read: began}, f)
}

// obtain writes the VFS's version of a file into a new one: copied from another
// file here, made from the replaced file and the changed chunks, or fetched as a
// whole.
func (e *Engine) obtain(ctx context.Context, path string, l localStat, r remote, fresh *tree.Unfinished) (f File, travelled int64, err error) {
	if done, err := e.copyHere(r, fresh); done || err != nil {
		return r.File, 0, err
	}
	f, travelled, err = e.fetchDelta(ctx, path, l, r, fresh)
	if f.Version == 0 && err == nil {
		f, err = e.fetch(ctx, path, r.Version, fresh)
		travelled = f.Size
	}
	return f, travelled, err
}

// fetch writes a version into a file and checks its size and checksum.
func (e *Engine) fetch(ctx context.Context, path string, version uint64, to io.Writer) (f File, err error) {
	err = e.o.Breaker.transfer(ctx, func(ctx context.Context) (err error) {
		var from io.ReadSeekCloser
		if from, f, err = e.o.Remote.Open(ctx, path, version); err != nil {
			return err
		}
		defer from.Close()
		if err := sane(f, path); err != nil {
			return err
		}
		if f.Deleted || version != 0 && f.Version != version {
			return errWrongContent(path)
		}
		h := sha256.New()
		in := &announced{ctx: ctx, from: from, left: f.Size}
		if _, err := io.CopyBuffer(onlyWriter{io.MultiWriter(h, localWriter{to})}, in, make([]byte, bufferFor(f.Size))); err != nil {
			return err
		}
		if in.left != 0 || Sum(h.Sum(nil)) != f.SHA256 {
			return errWrongContent(path)
		}
		return nil
	})
	return f, err
}

// announced reads no more than was announced.
type announced struct {
	ctx  context.Context
	from io.Reader
	left int64
}

var errTooLong = errors.New("the VFS sends more than it announced")

func (a *announced) Read(p []byte) (int, error) {
	if a.ctx.Err() != nil {
		return 0, context.Cause(a.ctx)
	}
	n, err := a.from.Read(p)
	a.left -= int64(n)
	if a.left < 0 {
		return 0, errTooLong
	}
	return n, err
}

// localWriter marks failures to write as this end's.
type localWriter struct{ io.Writer }

func (w localWriter) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(p)
	if err != nil {
		err = fmt.Errorf("%w: %w", errLocal, err)
	}
	return n, err
}
