package mirror

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"time"

	"github.com/aibridge/aibridge/vfs/mirror/tree"
)

// smallFile is the size up to which files are read into memory, in bytes.
const smallFile = 64 << 10

// push stores the file here in the VFS.
func (e *Engine) push(ctx context.Context, path string, known entry, l localStat, r remote) error {
	if !known.holds() {
		if err := e.state.twin(path); err != nil {
			return err
		}
	}
	if l.size <= smallFile {
		small, print, err := e.readSmall(path, l, r)
		if err != nil {
			return err
		}
		return e.send(ctx, path, known, print, r, bytes.NewReader(small.Content), small.PutOptions)
	}
	l, done, err := e.pushCopy(ctx, path, known, l, r)
	if done || err != nil {
		return err
	}
	if done, err := e.pushDelta(ctx, path, known, l, r); done || err != nil {
		return err
	}
	began := e.o.Now().UnixNano()
	file, stamp, err := e.folder.Open(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && stamp != l.stamp {
		err = errors.Join(tree.ErrChanged, closeIf(file))
	}
	if err != nil {
		return err
	}
	defer file.Close()
	print := &fingerprint{taken: true, stamp: stamp, read: began}
	o := PutOptions{IfVersion: ifVersion(r), Size: l.size, Mtime: mtimeOf(stamp)}
	if l.summed {
		o.SHA256, print.sum = &l.sum, l.sum
		return e.send(ctx, path, known, print, r, &steady{ctx: ctx, file: file, before: stamp}, o)
	}
	source := &steady{ctx: ctx, file: file, before: stamp, hash: sha256.New()}
	return e.send(ctx, path, known, print, r, source, o)
}

// mtimeOf is a file's time as the VFS keeps it; times before 1970 are not kept.
func mtimeOf(stamp tree.Stamp) int64 { return max(0, stamp.ModTime/int64(time.Millisecond)) }

func closeIf(file io.Closer) error {
	if file == nil {
		return nil
	}
	return file.Close()
}

// ifVersion is the version that a put expects to find.
func ifVersion(r remote) uint64 {
	if r.there {
		return r.Version
	}
	return 0
}

// readSmall reads a small file whole.
func (e *Engine) readSmall(path string, l localStat, r remote) (Small, *fingerprint, error) {
	began := e.o.Now().UnixNano()
	file, stamp, err := e.folder.Open(path)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = tree.ErrChanged
		}
		return Small{}, nil, err
	}
	defer file.Close()
	content := make([]byte, l.size+1)
	n, err := io.ReadFull(file, content)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return Small{}, nil, err
	}
	after, err := tree.StampOf(file)
	if err != nil || int64(n) != l.size || stamp != l.stamp || after != stamp {
		return Small{}, nil, tree.ErrChanged
	}
	sum := sha256.Sum256(content[:n])
	print := &fingerprint{taken: true, stamp: stamp, sum: sum, read: began}
	return Small{Path: path, Content: content[:n], PutOptions: PutOptions{IfVersion: ifVersion(r), Size: l.size, SHA256: &sum, Mtime: mtimeOf(stamp)}}, print, nil
}

// send puts a file and notes that both ends have it.
func (e *Engine) send(ctx context.Context, path string, known entry, print *fingerprint, r remote, body io.Reader, o PutOptions) error {
	source, _ := body.(*steady)
	put := func(ctx context.Context) (File, error) {
		if source != nil {
			source.ctx = ctx
		}
		stored, err := e.o.Remote.Put(ctx, path, body, o)
		if err != nil && source != nil && source.failed != nil {
			err = errors.Join(errLocal, err)
		}
		return stored, err
	}
	check := func(stored File) error {
		if stored.SHA256 != print.sum || stored.Size != o.Size {
			return errWrongContent(path)
		}
		return sane(stored, path)
	}
	i := intent{version: expected(known.base, r), size: o.Size, sum: print.sum}
	var stored File
	var err error
	if source == nil || source.hash == nil {
		stored, err = e.offer(ctx, path, i, put, check)
	} else {
		stored, err = e.offerUnread(ctx, path, i, source, print, put, check)
	}
	if source != nil && source.failed != nil && err != nil {
		return source.failed
	}
	if err != nil {
		return err
	}
	e.count(uploads, o.Size)
	return e.stored(path, print, stored)
}

// offerUnread offers a file whose checksum is not known before it is read: the
// intent is noted before the VFS gets its last byte.
func (e *Engine) offerUnread(ctx context.Context, path string, i intent, source *steady, print *fingerprint,
	put func(context.Context) (File, error), check func(File) error) (stored File, err error) {
	source.whole = func(sum Sum) error {
		i.sum, print.sum = sum, sum
		_, err := e.intend(path, i)
		return err
	}
	err = e.o.Breaker.transfer(ctx, func(ctx context.Context) (err error) {
		if stored, err = put(ctx); err == nil {
			err = check(stored)
		}
		return err
	})
	return stored, err
}

// stored notes that the VFS has a file as it is here.
func (e *Engine) stored(path string, print *fingerprint, f File) error {
	e.observe(f.Modified)
	return e.state.set(path, entry{
		base:  base{known: true, version: f.Version, size: f.Size, sum: f.SHA256, at: e.now()},
		print: *print,
	})
}
