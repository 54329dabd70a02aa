package vfs

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"

	"github.com/aibridge/aibridge/protocol"
)

// smallContent is the size up to which contents are held in memory and share blobs, in
// bytes.
const smallContent = 64 << 10

// A received content was read to its end and checked, and waits to become a
// version.
type received struct {
	size  int64
	sum   Sum
	data  []byte        // of a small one
	blob  Blob          // of any other, written but not committed
	name  Sum           // that the blob will have
	saved int64         // bytes that other blobs have
	list  *ListRef      // of a blob that has one
	where *blobPosition // once it is durable
}

// shared is a place of the blobs of other versions that a content relies on.
func (c *received) shared() blobPosition {
	if c.list == nil || len(c.list.Shared) == 0 {
		return blobPosition{}
	}
	return blobPosition{blob: c.list.Shared[0].Blob, list: c.list}
}

func (c *received) abort() {
	if c.blob != nil {
		c.blob.Abort()
	}
}

// receive reads a content. A large one goes straight to the blobs, without the
// chunks that the version before has too.
func (s *Space) receive(ctx context.Context, group, path string, r io.Reader, o PutOptions) (c *received, release func(), err error) {
	in := &source{ctx: ctx, r: r, left: min(s.store.opts.MaxFile, s.store.opts.Quota) + 1}
	if o.Size >= 0 {
		in.left = min(in.left, o.Size+1)
	}
	c, release = &received{}, func() {}
	head := make([]byte, smallContent+1)
	if o.Size >= 0 && o.Size < smallContent {
		head = head[:o.Size+1]
	}
	n, err := io.ReadFull(in, head)
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		c.size, c.data, c.sum = int64(n), head[:n:n], sha256.Sum256(head[:n])
		return c, release, s.store.checkReceived(path, c, o)
	case err != nil:
		return nil, nil, brokenOff(err)
	case o.Size >= 0 && int64(n) > o.Size:
		return nil, nil, BadContent(path, "is longer than announced")
	}
	var b *base
	if s.store.mayShare(o.Size) {
		b = s.base(ctx, group, path, 0)
	}
	err = s.store.assemble(ctx, path, c, b, o, func(a *assembly) error { return a.readAll(io.MultiReader(bytes.NewReader(head), in)) })
	if err != nil {
		b.close()
		return nil, nil, err
	}
	return c, b.close, nil
}

// mayShare reports whether a content of that size, -1 if that is not known, may
// share chunks. One that is larger than a list describes must not.
func (s *Store) mayShare(size int64) bool {
	if size < 0 {
		return min(s.opts.MaxFile, s.opts.Quota) <= maxChunked
	}
	return size >= minChunked && size <= maxChunked
}

// assemble makes an assembly of a large content.
func (s *Store) assemble(ctx context.Context, path string, c *received, b *base, o PutOptions, read func(*assembly) error) error {
	a := s.assembly(ctx, b)
	defer a.abort()
	err := read(a)
	if err == nil {
		c.size = a.list.size
		a.whole.Sum(c.sum[:0])
		err = s.checkReceived(path, c, o)
	}
	if err == nil {
		err = a.finish(c)
	}
	if errors.Is(err, errBaseDamaged) {
		s.noteDamage(ctx, b.record, b.version)
		return baseDamaged(path)
	}
	return err
}

// baseDamaged is the 4002 for a content that cannot be made of the version
// before. All of it, sent once more, shares nothing with that.
func baseDamaged(path string) error {
	return BadContent(path, "needs the version before, which is damaged: send all of it")
}

func (s *Store) checkReceived(path string, c *received, o PutOptions) error {
	switch {
	case o.Size >= 0 && c.size > o.Size:
		return BadContent(path, "is longer than announced")
	case o.Size >= 0 && c.size < o.Size:
		return BadContent(path, "is shorter than announced")
	case c.size > s.opts.MaxFile:
		return s.tooLarge()
	case c.size > s.opts.Quota:
		return NoRoom("the file is larger than the group's quota")
	case o.SHA256 != nil && *o.SHA256 != c.sum:
		return BadContent(path, "has another checksum than announced")
	}
	return nil
}

// A source is a reader that ends with its context, and after a number of
// bytes. It tells a premature end from the proper one.
type source struct {
	ctx  context.Context
	r    io.Reader
	left int64
}

// Read implements [io.Reader].
func (s *source) Read(p []byte) (int, error) {
	if s.left <= 0 {
		return 0, io.EOF
	}
	if err := ended(s.ctx); err != nil {
		return 0, err
	}
	n, err := s.r.Read(p[:min(int64(len(p)), s.left)])
	s.left -= int64(n)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = brokenOff(err) // io.ReadFull would take it for the end
	}
	return n, err
}

// brokenOff is the error for a content that does not come to its end.
func brokenOff(err error) error {
	if known := new(protocol.Error); errors.As(err, &known) {
		return err
	}
	return protocol.Wrap(protocol.SyncFailed, err, "the content broke off")
}
