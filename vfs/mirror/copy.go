package mirror

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/vfs/mirror/tree"
)

// A source is a version in the VFS whose content is known. It may have been
// deleted since: then it is there for as long as the VFS keeps versions.
type source struct {
	path    string
	version uint64
	size    int64
}

// sources index the versions of large contents in the VFS, so that those need not
// be sent again. A file that was renamed, or copied, is sent by naming another one.
type sources struct {
	bySum map[Sum]source
	sizes map[int64]int // how many have that size
}

// add notes an agreement.
func (x *sources) add(path string, b base) {
	if !b.holds() || b.size <= smallFile || b.version == 0 {
		return
	}
	if x.bySum == nil {
		x.bySum, x.sizes = make(map[Sum]source), make(map[int64]int)
	}
	if _, known := x.bySum[b.sum]; !known {
		x.sizes[b.size]++
	}
	x.bySum[b.sum] = source{path, b.version, b.size}
}

// drop forgets a content.
func (x *sources) drop(sum Sum) {
	s, ok := x.bySum[sum]
	if !ok {
		return
	}
	delete(x.bySum, sum)
	if x.sizes[s.size]--; x.sizes[s.size] <= 0 {
		delete(x.sizes, s.size)
	}
}

// spareSources is the number of indexed contents beyond those of present files.
const spareSources = 1000

// trimSources forgets contents of files that are gone, if there are many. The
// lock is held.
func (s *state) trimSources() {
	if len(s.sources.bySum) <= len(s.entries)+spareSources {
		return
	}
	s.sources = sources{}
	for path, e := range s.entries {
		s.sources.add(path, e.base)
	}
}

// sized reports whether a content of a size is known.
func (s *state) sized(size int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sources.sizes[size] > 0
}

// source finds a content.
func (s *state) source(sum Sum) (source, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found, ok := s.sources.bySum[sum]
	return found, ok
}

// forgetSource forgets a content that turned out not to be there.
func (s *state) forgetSource(sum Sum) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sources.drop(sum)
}

// pushCopy stores the file here in the VFS by naming a version there that has
// the same content. The look it returns knows the checksum if it had to be
// found out.
func (e *Engine) pushCopy(ctx context.Context, path string, known entry, l localStat, r remote) (_ localStat, done bool, err error) {
	c, ok := e.o.Remote.(Copier)
	if !ok || !e.state.sized(l.size) {
		return l, false, nil
	}
	if !l.summed {
		before := l.stamp
		if l, err = e.read(ctx, path, known); err == nil && l.stamp != before {
			err = tree.ErrChanged
		}
		if err != nil {
			return l, false, err
		}
	}
	from, ok := e.state.source(l.sum)
	if !ok {
		return l, false, nil
	}
	o := PutOptions{IfVersion: ifVersion(r), Size: l.size, SHA256: &l.sum, Mtime: mtimeOf(l.stamp)}
	i := intent{version: expected(known.base, r), size: l.size, sum: l.sum}
	missing := false
	stored, err := e.offer(ctx, path, i, func(ctx context.Context) (File, error) {
		f, err := c.PutCopy(ctx, path, from.path, from.version, o)
		missing = err != nil && (protocol.CodeOf(err) == protocol.FileNotFound || wholeInstead(err))
		if errors.Is(err, errors.ErrUnsupported) {
			return File{}, errWrongContent(path) // the VFS has not failed
		}
		return f, err
	}, func(stored File) error {
		if stored.SHA256 != l.sum || stored.Size != l.size {
			return errWrongContent(path)
		}
		return sane(stored, path)
	})
	if missing {
		e.state.forgetSource(l.sum)
		return l, false, nil
	}
	if err != nil {
		return l, false, err
	}
	e.count(uploads, 0)
	return l, true, e.stored(path, &l.print, stored)
}

// copyHere makes a version of a file in the folder that has the same content. Its
// content is read and checked on the way, since the file may have changed.
func (e *Engine) copyHere(r remote, to *tree.Unfinished) (done bool, err error) {
	from, ok := e.state.source(r.SHA256)
	if !ok || r.Size != from.size {
		return false, nil
	}
	known := e.state.get(from.path)
	if known.print.sum != r.SHA256 {
		return false, nil
	}
	file, before, err := e.folder.Open(from.path)
	if err != nil {
		return false, nil //nolint:nilerr // it is fetched, then
	}
	defer file.Close()
	if before != known.print.stamp {
		return false, nil
	}
	h := sha256.New()
	_, err = io.CopyBuffer(onlyWriter{io.MultiWriter(h, localWriter{to})}, io.LimitReader(file, r.Size), make([]byte, bufferFor(r.Size)))
	if err != nil || Sum(h.Sum(nil)) != r.SHA256 {
		return false, errors.Join(err, to.Truncate())
	}
	return true, nil
}
