package vfs

import (
	"context"
	"errors"
	"io"

	"github.com/aibridge/aibridge/internal/records"
	"github.com/aibridge/aibridge/protocol"
)

// A base is the version that a new one shares chunks with. Its blobs are pinned
// until it is closed.
type base struct {
	io.ReadSeekCloser // its content, unchecked
	record            *Record
	version           *Version
	list              *chunkList
	unpin             func()
}

// close ends the use of a base, if there is one.
func (b *base) close() {
	if b != nil {
		_ = b.Close() // it was only read
		b.unpin()
	}
}

// base is a version of a file to share chunks with, 0 for the current one. It
// is nil if that is not there, has no list of chunks, or is damaged.
func (s *Space) base(ctx context.Context, group, path string, number uint64) *base {
	r, v, unpin, err := s.pinned(ctx, group, path, number)
	if err != nil {
		return nil
	}
	if v.List == nil || s.store.index.isBroken(v.position()) {
		unpin()
		return nil
	}
	b := &base{record: r, version: v, unpin: unpin}
	if b.list, err = s.store.list(ctx, v); err == nil {
		b.ReadSeekCloser, err = s.store.content(ctx, v, b.list)
	}
	if err != nil {
		unpin()
		return nil
	}
	return b
}

// pinned finds a version, 0 for the current one, and keeps its blobs from being
// collected until unpin.
func (s *Space) pinned(ctx context.Context, group, path string, number uint64) (r *Record, v *Version, unpin func(), err error) {
	x := s.store.index
	for range records.Attempts {
		if r, v, err = s.find(ctx, group, path, number); err != nil {
			return nil, nil, nil, err
		}
		where := v.position()
		x.pinAll(where, 1)
		unpin := func() { x.pinAll(where, -1) }
		// It may have been on its way out before it was pinned.
		if _, again, err := s.find(ctx, group, path, v.Number); err == nil && again.position().same(where) {
			return r, v, unpin, nil
		}
		unpin()
	}
	return nil, nil, nil, tooContended(path)
}

// list reads the list of a version's chunks.
func (s *Store) list(ctx context.Context, v *Version) (*chunkList, error) {
	ref := v.List
	if ref.Length <= 0 || ref.Length > maxList || ref.Offset < 0 {
		return nil, errBadList
	}
	blob, err := s.opts.Blobs.Open(ctx, v.Blob)
	if err != nil {
		return nil, err
	}
	defer blob.Close()
	if _, err := blob.Seek(ref.Offset, io.SeekStart); err != nil {
		return nil, err
	}
	data := make([]byte, ref.Length)
	if _, err := io.ReadFull(blob, data); err != nil {
		return nil, err
	}
	l, err := parseChunkList(data, v.Size, ref.Offset)
	if err != nil {
		return nil, err
	}
	if len(l.shared) != len(ref.Shared) {
		return nil, errBadList
	}
	for i, share := range l.shared {
		if share != ref.Shared[i] {
			return nil, errBadList // the list must name the blobs that the record keeps from being collected
		}
	}
	return l, nil
}

// content opens a content as it is stored. The list is needed if it is apart.
func (s *Store) content(ctx context.Context, v *Version, list *chunkList) (io.ReadSeekCloser, error) {
	if v.List != nil && v.List.Apart {
		return &chunkReader{ctx: ctx, blobs: s.opts.Blobs, own: v.Blob, list: list}, nil
	}
	blob, err := s.opts.Blobs.Open(ctx, v.Blob)
	if err != nil || v.Offset == 0 {
		return blob, err
	}
	if _, err := blob.Seek(v.Offset, io.SeekStart); err != nil {
		return nil, errors.Join(err, blob.Close())
	}
	return blob, nil
}

// isLost reports whether a blob is not there.
func isLost(err error) bool { return protocol.CodeOf(err) == protocol.FileNotFound }

// maxOpen is the number of blobs of a content that are open at a time.
const maxOpen = 4

// A chunkReader reads a content from the places in its list.
type chunkReader struct {
	ctx    context.Context
	blobs  Blobs
	own    string
	list   *chunkList
	offset int64
	open   []openBlob // the last one used is the last
}

type openBlob struct {
	io.ReadSeekCloser
	number int // in the list
	at     int64
}

// Read implements [io.Reader].
func (r *chunkReader) Read(p []byte) (int, error) {
	if r.offset >= r.list.size {
		return 0, io.EOF
	}
	i := int(r.offset / ChunkSize)
	within := r.offset % ChunkSize
	at := r.list.spots[i]
	blob, err := r.blob(at.blob)
	if err != nil {
		return 0, err
	}
	if want := at.offset + within; blob.at != want {
		if _, err := blob.Seek(want, io.SeekStart); err != nil {
			return 0, err
		}
		blob.at = want
	}
	left := chunkLength(r.list.size, i) - within
	n, err := blob.Read(p[:min(int64(len(p)), left)])
	blob.at += int64(n)
	r.offset += int64(n)
	return n, err
}

// blob is one of the blobs, open.
func (r *chunkReader) blob(number int) (*openBlob, error) {
	last := len(r.open) - 1
	for i := last; i >= 0; i-- {
		if r.open[i].number == number {
			found := r.open[i]
			copy(r.open[i:], r.open[i+1:])
			r.open[last] = found
			return &r.open[last], nil
		}
	}
	key := r.own
	if number > 0 {
		key = r.list.shared[number-1].Blob
	}
	opened, err := r.blobs.Open(r.ctx, key)
	if err != nil {
		return nil, err
	}
	if len(r.open) == maxOpen {
		_ = r.open[0].Close() // it was only read
		r.open = append(r.open[:0], r.open[1:]...)
	}
	r.open = append(r.open, openBlob{ReadSeekCloser: opened, number: number})
	return &r.open[len(r.open)-1], nil
}

// Seek implements [io.Seeker].
func (r *chunkReader) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += r.offset
	case io.SeekEnd:
		offset += r.list.size
	}
	if offset < 0 {
		return 0, errors.New("vfs: seek before the beginning")
	}
	r.offset = offset
	return offset, nil
}

// Close implements [io.Closer].
func (r *chunkReader) Close() (err error) {
	for i := range r.open {
		err = errors.Join(err, r.open[i].Close())
	}
	r.open = nil
	return err
}
