package vfs

import (
	"context"
	"crypto/sha256"
	"encoding"
	"errors"
	"io"
)

// Chunks implements [Chunked], for versions that have a list of chunks.
func (s *Space) Chunks(ctx context.Context, group, path string, version uint64) ([]Sum, error) {
	_, v, unpin, err := s.pinned(ctx, group, path, version)
	if err != nil {
		return nil, err
	}
	defer unpin()
	if v.List == nil || s.store.index.isBroken(v.position()) {
		return nil, errors.ErrUnsupported
	}
	l, err := s.store.list(ctx, v)
	if err != nil {
		return nil, errors.ErrUnsupported // reading the content returns the reason
	}
	return l.sums, nil
}

// PutDelta implements [Chunked]. Kept chunks are not written again. They are read
// from the first change on, because the sum of the whole is always computed: a
// version that is acknowledged has the sum it was announced with.
func (s *Space) PutDelta(ctx context.Context, group, path string, d Delta, r io.Reader, o PutOptions) (File, error) {
	if err := d.check(o); err != nil {
		return File{}, err
	}
	if err := s.checkPut(ctx, group, path, o, o.Size-d.kept(o.Size)); err != nil {
		return File{}, err
	}
	if _, _, err := s.find(ctx, group, path, d.Base); err != nil {
		return File{}, err
	}
	b := s.base(ctx, group, path, d.Base)
	if b == nil || !s.store.mayShare(o.Size) {
		b.close()
		return copyChanged(ctx, s, group, path, d, r, o)
	}
	defer b.close()
	if err := d.fits(b.list.size, ChunkSize, o.Size); err != nil {
		return File{}, err
	}
	in := &source{ctx: ctx, r: r, left: o.Size - d.kept(o.Size) + 1}
	c := &received{}
	err := s.store.assemble(ctx, path, c, b, o, func(a *assembly) error { return a.readDelta(d, in, o.Size) })
	if err != nil {
		return File{}, err
	}
	defer c.abort()
	w := &writing{Space: s, group: group, path: path, options: o, content: c}
	return w.run(ctx)
}

// kept is the number of bytes of a content that a delta keeps.
func (c Delta) kept(size int64) (n int64) {
	for _, run := range c.Keep {
		n += min((run.Last+1)*ChunkSize, size) - min(run.First*ChunkSize, size)
	}
	return n
}

// readDelta takes chunks from the version before and from a writer.
func (a *assembly) readDelta(d Delta, r io.Reader, size int64) error {
	keep := d.Keep
	if len(keep) > 0 && keep[0].First == 0 {
		a.resume(int(min(keep[0].Last+1, size/ChunkSize)))
	}
	chunk := make([]byte, ChunkSize)
	for i := len(a.list.sums); i < chunkCount(size); i++ {
		for len(keep) > 0 && keep[0].Last < int64(i) {
			keep = keep[1:]
		}
		kept := len(keep) > 0 && keep[0].First <= int64(i)
		if whole, err := a.next(i, chunk[:chunkLength(size, i)], kept, r); err != nil || !whole {
			return err // a content that is too short is refused for that
		}
	}
	n, err := io.ReadFull(r, chunk[:1])
	a.list.size += int64(n) // which is too long
	if n == 0 && !errors.Is(err, io.EOF) {
		return brokenOff(err)
	}
	return nil
}

// next takes a chunk of the version before, or else of a writer. It reports whether there
// was a whole one. A kept chunk that is only a part of the older one is written anew.
func (a *assembly) next(i int, chunk []byte, kept bool, r io.Reader) (whole bool, err error) {
	if err := a.begin(); err != nil {
		return false, err
	}
	if kept {
		err = a.readBase(i, chunk)
	} else {
		_, err = io.ReadFull(r, chunk)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return false, nil
		}
		if err != nil {
			err = brokenOff(err)
		}
	}
	if err != nil {
		return false, err
	}
	a.whole.Write(chunk)
	if kept && chunkLength(a.base.list.size, i) == int64(len(chunk)) {
		a.share(i)
	} else if err := a.add(chunk); err != nil {
		return false, err
	}
	return true, a.end()
}

// resume takes the first chunks of the version before without reading them, as
// far as the state of the hash after them is known.
func (a *assembly) resume(chunks int) {
	state := a.base.list.stateBefore(chunks)
	if state == nil {
		return
	}
	whole := sha256.New()
	if whole.(encoding.BinaryUnmarshaler).UnmarshalBinary(state.hash) != nil {
		return // it was made by another release, so all is read
	}
	a.whole, a.apart = whole, sha256.New()
	for i := range state.chunk {
		a.share(i)
	}
	for _, earlier := range a.base.list.states {
		if earlier.chunk < state.chunk {
			a.list.states = append(a.list.states, earlier)
		}
	}
}

// Chunks implements [Chunked].
func (m *mirrorReader) Chunks(ctx context.Context, group, path string, version uint64) ([]Sum, error) {
	if err := m.may(path); err != nil {
		return nil, err
	}
	c, ok := m.Files.(Chunked)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	return c.Chunks(ctx, group, path, version)
}

// PutDelta implements [Chunked].
func (m *mirrorReader) PutDelta(ctx context.Context, group, path string, c Delta, r io.Reader, o PutOptions) (File, error) {
	if err := m.may(path); err != nil {
		return File{}, err
	}
	if err := m.mayWrite(path); err != nil {
		return File{}, err
	}
	return PutChanged(ctx, m.Files, group, path, c, r, o)
}
