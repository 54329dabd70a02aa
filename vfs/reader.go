package vfs

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"hash"
	"io"

	"github.com/aibridge/aibridge/protocol"
)

// open opens the content of a version.
func (s *Store) open(ctx context.Context, r *Record, v *Version) (io.ReadSeekCloser, error) {
	if v.Blob == "" {
		return emptyReader{bytes.NewReader(nil)}, nil
	}
	var list *chunkList
	if v.List != nil && v.List.Apart {
		var err error
		if list, err = s.list(ctx, v); err != nil {
			return nil, s.lost(ctx, r, v, err)
		}
	}
	blob, err := s.content(ctx, v, list)
	if err != nil {
		return nil, s.lost(ctx, r, v, err)
	}
	return &reader{ctx: ctx, store: s, blob: blob, record: r, version: v, hash: sha256.New()}, nil
}

type emptyReader struct{ *bytes.Reader }

func (emptyReader) Close() error { return nil }

// lost is the error for a content that should be there and is not.
func (s *Store) lost(ctx context.Context, r *Record, v *Version, err error) error {
	switch {
	case isLost(err):
		s.noteDamage(ctx, r, v)
		return protocol.Wrap(protocol.SyncFailed, err, "the content is lost").With("path", r.Path)
	case errors.Is(err, errBadList), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		s.noteDamage(ctx, r, v)
		return BadContent(r.Path, "is damaged")
	}
	return err
}

// A reader reads the content of one version. A caller that reads it all from the
// beginning does not get the end of a damaged content, so it cannot take it for
// whole.
type reader struct {
	ctx     context.Context
	store   *Store
	blob    io.ReadSeekCloser
	record  *Record
	version *Version
	offset  int64     // in the content
	hash    hash.Hash // of the bytes read, nil once the reader has jumped
}

// Read implements [io.Reader].
func (r *reader) Read(p []byte) (int, error) {
	left := r.version.Size - r.offset
	switch {
	case left > 0:
	case r.damaged():
		return 0, r.bad("is damaged")
	default:
		return 0, io.EOF
	}
	if err := ended(r.ctx); err != nil {
		return 0, err
	}
	n, err := r.blob.Read(p[:min(int64(len(p)), left)])
	r.offset += int64(n)
	if r.hash != nil {
		r.hash.Write(p[:n])
	}
	switch {
	case errors.Is(err, io.EOF):
		err = nil
		if n == 0 {
			err = r.bad("is shorter than it was")
		}
	case isLost(err):
		err = r.store.lost(r.ctx, r.record, r.version, err)
	case err != nil && protocol.CodeOf(err) == protocol.Internal:
		err = protocol.Wrap(protocol.VFSUnavailable, err, "the content cannot be read")
	}
	if r.damaged() {
		return 0, r.bad("is damaged")
	}
	return n, err
}

// bad is the error for a content that is damaged, which is remembered.
func (r *reader) bad(how string) error {
	r.store.noteDamage(r.ctx, r.record, r.version)
	return BadContent(r.record.Path, how)
}

// damaged reports whether the whole content was read and its sum is wrong.
func (r *reader) damaged() bool {
	return r.hash != nil && r.offset == r.version.Size && Sum(r.hash.Sum(nil)) != r.version.SHA256
}

// Seek implements [io.Seeker].
func (r *reader) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += r.offset
	case io.SeekEnd:
		offset += r.version.Size
	}
	if offset < 0 {
		return 0, errors.New("vfs: seek before the beginning")
	}
	if offset == r.offset {
		return offset, nil
	}
	if _, err := r.blob.Seek(r.version.Offset+min(offset, r.version.Size), io.SeekStart); err != nil {
		return 0, err
	}
	r.offset, r.hash = offset, nil
	if offset == 0 {
		r.hash = sha256.New()
	}
	return offset, nil
}

// Close implements [io.Closer].
func (r *reader) Close() error { return r.blob.Close() }
