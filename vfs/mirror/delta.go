package mirror

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/vfs"
	"github.com/aibridge/aibridge/vfs/mirror/tree"
)

// worthChunks is the number of chunks that a file must have for its chunks to be
// compared: below, that costs more than it saves.
const worthChunks = 4

// farChunks asks the VFS for the chunks of a version, if comparing them with
// the file here may be worth it; nil if not.
func (e *Engine) farChunks(ctx context.Context, path string, l localStat, r remote) (c Chunker, sums []Sum, err error) {
	c, ok := e.o.Remote.(Chunker)
	if !ok || !l.there || !r.there || min(l.size, r.Size) < worthChunks*int64(c.ChunkSize()) {
		return nil, nil, nil
	}
	if sums = e.chunks.get(r.SHA256); sums != nil {
		return c, sums, nil
	}
	whole := false
	err = e.o.Breaker.transfer(ctx, func(ctx context.Context) (err error) {
		sums, err = c.Chunks(ctx, path, r.Version)
		if whole = err != nil && (refusal(err) || errors.Is(err, errors.ErrUnsupported)); whole {
			return nil
		}
		return err
	})
	if whole {
		return nil, nil, nil
	}
	return c, sums, err
}

// pushDelta sends the chunks of a file that the VFS does not have in the
// version that is replaced. It reports whether that was possible.
func (e *Engine) pushDelta(ctx context.Context, path string, known entry, l localStat, r remote) (done bool, err error) {
	c, far, err := e.farChunks(ctx, path, l, r)
	if c == nil || err != nil {
		return false, err
	}
	began := e.o.Now().UnixNano()
	file, stamp, err := e.folder.Open(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && stamp != l.stamp {
		err = errors.Join(tree.ErrChanged, closeIf(file))
	}
	if err != nil {
		return false, err
	}
	defer file.Close()
	print := &l.print
	near := e.chunks.get(l.sum)
	if !l.summed || near == nil { // else it was just read
		print = &fingerprint{taken: true, stamp: stamp, read: began}
		if print.sum, near, err = e.digest(&steady{ctx: ctx, file: file, before: stamp}); err != nil {
			return false, err
		}
	}
	delta := vfs.Delta{Base: r.Version, Keep: vfs.Unchanged(sumsOf(far), sumsOf(near))}
	if len(delta.Keep) == 0 {
		return false, nil
	}
	o := PutOptions{IfVersion: ifVersion(r), Size: l.size, SHA256: &print.sum, Mtime: mtimeOf(stamp)}
	i := intent{version: expected(known.base, r), size: l.size, sum: print.sum}
	stored, sent, err := e.sendDelta(ctx, c, path, i, delta, file, o)
	if err != nil && wholeInstead(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	e.count(uploads, sent)
	return true, e.stored(path, print, stored)
}

// wholeInstead reports whether a VFS that refuses a delta may take the file.
func wholeInstead(err error) bool {
	switch protocol.CodeOf(err) {
	case protocol.SyncFailed, protocol.InvalidParameter, protocol.PayloadTooLarge:
		return !unavailable(err)
	}
	return errors.Is(err, errors.ErrUnsupported)
}

// sendDelta sends all chunks but those that are kept.
func (e *Engine) sendDelta(ctx context.Context, c Chunker, path string, i intent, delta vfs.Delta, file *os.File, o PutOptions) (stored File, sent int64, err error) {
	body := &counted{Reader: changedChunks(file, delta.Keep, int64(c.ChunkSize()), o.Size)}
	unsupported := false
	stored, err = e.offer(ctx, path, i, func(ctx context.Context) (File, error) {
		stored, err := c.PutDelta(ctx, path, delta, body, o)
		if unsupported = errors.Is(err, errors.ErrUnsupported); unsupported {
			return File{}, nil // the VFS has not failed
		}
		return stored, err
	}, func(stored File) error {
		switch {
		case unsupported:
			return nil
		case stored.SHA256 != *o.SHA256 || stored.Size != o.Size:
			return errWrongContent(path)
		}
		return sane(stored, path)
	})
	if err == nil && unsupported {
		err = errors.ErrUnsupported
	}
	return stored, body.n, err
}

// changedChunks reads the chunks between the runs that are kept.
func changedChunks(file io.ReaderAt, keep []vfs.Run, chunk, size int64) io.Reader {
	var parts []io.Reader
	at := int64(0)
	for _, run := range keep {
		parts = append(parts, io.NewSectionReader(file, at, run.First*chunk-at))
		at = min((run.Last+1)*chunk, size)
	}
	return io.MultiReader(append(parts, io.NewSectionReader(file, at, size-at))...)
}

type counted struct {
	io.Reader
	n int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n += int64(n)
	return n, err
}

func sumsFrom(sums []vfs.Sum) []Sum {
	out := make([]Sum, len(sums))
	for i := range sums {
		out[i] = Sum(sums[i])
	}
	return out
}

func sumsOf(sums []Sum) []vfs.Sum {
	out := make([]vfs.Sum, len(sums))
	for i := range sums {
		out[i] = vfs.Sum(sums[i])
	}
	return out
}

// fetchDelta makes a version of the file's equal chunks here and the VFS's changed
// ones. A zero File means that the whole is to be fetched; then nothing was
// written.
func (e *Engine) fetchDelta(ctx context.Context, path string, l localStat, r remote, to *tree.Unfinished) (f File, travelled int64, err error) {
	c, far, err := e.farChunks(ctx, path, l, r)
	if c == nil || err != nil {
		return File{}, 0, err
	}
	near, _, err := e.folder.Open(path)
	if err != nil {
		return File{}, 0, nil // the whole, then; the file here is checked again before it is replaced
	}
	defer near.Close()
	err = e.o.Breaker.transfer(ctx, func(ctx context.Context) (err error) {
		from, opened, err := e.o.Remote.Open(ctx, path, r.Version)
		if err != nil {
			return err
		}
		defer from.Close()
		if err := sane(opened, path); err != nil {
			return err
		}
		size := int64(c.ChunkSize())
		if opened.Deleted || opened.Version != r.Version || int64(len(far)) != (opened.Size+size-1)/size {
			return errWrongContent(path)
		}
		p := &patch{ctx: ctx, near: near, far: from, chunk: make([]byte, size), sums: far, size: opened.Size}
		h := sha256.New()
		if err := p.write(io.MultiWriter(h, localWriter{to})); err != nil {
			return err
		}
		if Sum(h.Sum(nil)) != opened.SHA256 {
			return errWrongContent(path)
		}
		f, travelled = opened, p.travelled
		e.chunks.put(f.SHA256, far)
		return nil
	})
	return f, travelled, err
}

// A patch makes a file of chunks from here and from the VFS.
type patch struct {
	ctx       context.Context
	near      io.ReaderAt
	far       io.ReadSeeker
	at        int64 // in far
	sums      []Sum // of far
	size      int64
	chunk     []byte
	travelled int64
}

func (p *patch) write(to io.Writer) error {
	for i, sum := range p.sums {
		if p.ctx.Err() != nil {
			return context.Cause(p.ctx)
		}
		offset := int64(i) * int64(cap(p.chunk))
		chunk := p.chunk[:min(int64(cap(p.chunk)), p.size-offset)]
		n, err := p.near.ReadAt(chunk, offset)
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("%w: %w", errLocal, err)
		}
		if n < len(chunk) || sha256.Sum256(chunk) != sum {
			if err := p.fetch(chunk, offset); err != nil {
				return err
			}
		}
		if _, err := to.Write(chunk); err != nil {
			return err
		}
	}
	return nil
}

func (p *patch) fetch(chunk []byte, offset int64) error {
	if p.at != offset {
		if _, err := p.far.Seek(offset, io.SeekStart); err != nil {
			return err
		}
	}
	n, err := io.ReadFull(p.far, chunk)
	p.at = offset + int64(n)
	p.travelled += int64(n)
	return err
}
