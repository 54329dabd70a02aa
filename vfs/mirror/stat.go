package mirror

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"slices"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/vfs"
	"github.com/aibridge/aibridge/vfs/mirror/tree"
)

// A localStat is the folder's file at a path, as the engine sees it.
type localStat struct {
	local
	stamp tree.Stamp
	print fingerprint // taken if sum is known
}

// statLocal describes the folder's file. It reads the file only if nothing
// else tells whether it is one of those it is compared with.
func (e *Engine) statLocal(ctx context.Context, path string, known entry, r remote) (localStat, error) {
	stamp, err := e.folder.Stat(path)
	if err != nil {
		return localStat{}, err
	}
	if stamp.Absent() {
		l := localStat{}
		if known.holds() {
			l.changed = e.now()
		}
		return l, nil
	}
	l := localStat{stamp: stamp, local: local{there: true, size: stamp.Size}}
	switch {
	case known.print.covers(stamp):
		l.sum, l.summed, l.print = known.print.sum, true, known.print
	case known.holds() && known.size == stamp.Size, r.there && r.Size == stamp.Size, stamp.Size <= smallFile,
		slices.ContainsFunc(e.state.intents(path), func(i intent) bool { return i.size == stamp.Size }):
		if l, err = e.read(ctx, path, known); err != nil || !l.there {
			return l, err
		}
	}
	e.mu.Lock()
	l.changed = e.clock.dated(stamp.ModTime, known.at)
	e.mu.Unlock()
	return l, nil
}

// read reads a file to know its checksum, and remembers it.
func (e *Engine) read(ctx context.Context, path string, known entry) (localStat, error) {
	began := e.o.Now().UnixNano()
	file, before, err := e.folder.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return localStat{}, nil
	}
	if err != nil {
		return localStat{}, err
	}
	defer file.Close()
	sum, _, err := e.digest(&steady{ctx: ctx, file: file, before: before})
	if err != nil {
		return localStat{}, err
	}
	l := localStat{stamp: before, local: local{there: true, size: before.Size, summed: true, sum: sum}}
	l.print = fingerprint{taken: true, stamp: before, sum: l.sum, read: began}
	known.print = l.print
	return l, e.state.setPrint(path, known)
}

// digest reads a file to its end and returns its checksum, and those of the
// chunks of a large one, which are remembered.
func (e *Engine) digest(file *steady) (sum Sum, chunks []Sum, err error) {
	h := sha256.New()
	to := io.Writer(h)
	c, ok := e.o.Remote.(Chunker)
	var pieces *vfs.ChunkHasher
	if ok && file.before.Size >= worthChunks*int64(c.ChunkSize()) {
		pieces = &vfs.ChunkHasher{Size: c.ChunkSize()}
		to = io.MultiWriter(h, pieces)
	}
	if _, err := io.CopyBuffer(onlyWriter{to}, file, make([]byte, bufferFor(file.before.Size))); err != nil {
		return Sum{}, nil, err
	}
	h.Sum(sum[:0])
	if pieces != nil {
		chunks = sumsFrom(pieces.Sums())
		e.chunks.put(sum, chunks)
	}
	return sum, chunks, nil
}

// onlyWriter hides other methods, so that the buffer given is the one used.
type onlyWriter struct{ io.Writer }

func bufferFor(size int64) int { return int(min(max(size+1, 4<<10), 256<<10)) }

// errUnsteady reports a file that is being written to.
var errUnsteady = fmt.Errorf("%w: the file is being written", errLocal)

// steady reads a file that must not change meanwhile: it fails instead of
// ending if it did.
type steady struct {
	ctx  context.Context
	file interface {
		io.Reader
		Stat() (fs.FileInfo, error)
	}
	before tree.Stamp
	count  int64
	hash   hash.Hash       // nil if the checksum is not needed
	whole  func(Sum) error // called with the checksum before the last byte is handed out
	failed error           // the error of reading itself, however callers wrap it
}

func (s *steady) Read(p []byte) (int, error) {
	n, err := s.read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		s.failed = err
	}
	return n, err
}

func (s *steady) read(p []byte) (int, error) {
	if s.ctx.Err() != nil {
		return 0, context.Cause(s.ctx)
	}
	n, err := s.file.Read(p)
	s.count += int64(n)
	if s.hash != nil {
		s.hash.Write(p[:n])
		if s.count == s.before.Size && s.whole != nil {
			if err := s.whole(Sum(s.hash.Sum(nil))); err != nil {
				return 0, fmt.Errorf("%w: %w", errLocal, err)
			}
			s.whole = nil
		}
	}
	switch {
	case s.count > s.before.Size:
		return n, errUnsteady
	case errors.Is(err, io.EOF):
		after, statErr := tree.StampOf(s.file)
		if statErr != nil || after != s.before || s.count != s.before.Size {
			return n, errUnsteady
		}
	case err != nil:
		return n, fmt.Errorf("%w: %w", errLocal, err)
	}
	return n, err
}

// sane refuses answers that make no sense.
func sane(f File, path string) error {
	if f.Path != path || f.Size < 0 || f.Version == 0 {
		return protocol.Errorf(protocol.VFSUnavailable, "the VFS answers with something else")
	}
	return nil
}
