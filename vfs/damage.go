package vfs

import (
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"github.com/aibridge/aibridge/internal/records"
	"github.com/aibridge/aibridge/protocol"
)

// The damage of blobs is stored with the versions that have their content there, as the
// number that a version would have got when the damage was found. A blob is good again
// once a later version refers to it: writers reuse no damaged blob, so it was written
// anew by then.

// damageTime bounds the time that a reader waits until the damage it found is stored.
const damageTime = 5 * time.Second

// broken reports whether a blob of a place is known to be damaged. The index
// must be locked.
func (x *index) broken(p blobPosition) bool {
	for blob := range p.blobs() {
		if x.blobs[blob].broken() {
			return true
		}
	}
	return false
}

func (b *blobUse) broken() bool { return b != nil && b.damaged > b.newest }

// isBroken is broken for callers that have not locked the index.
func (x *index) isBroken(p blobPosition) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.broken(p)
}

// damage notes that the content at a place is damaged, and returns since which
// version. It does not matter which of several blobs is damaged: no later version
// relies on any of them.
func (x *index) damage(p blobPosition, now time.Time) (since uint64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for blob := range p.blobs() {
		b := x.blobs[blob]
		if b == nil {
			continue // no version needs it any more
		}
		if !b.broken() {
			b.damaged = x.number(now)
		}
		since = max(since, b.damaged)
	}
	return since
}

// noteDamage remembers that the content of a version is damaged, so that the
// next writer of the same content writes it anew.
func (s *Store) noteDamage(ctx context.Context, r *Record, v *Version) {
	since := s.index.damage(v.position(), s.opts.Now())
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), damageTime)
	defer cancel()
	for range records.Attempts {
		now, revision, ok := s.opts.Records.Get(r.key())
		if !ok {
			return
		}
		at := now.at(v.Number)
		if at == nil || at.Blob != v.Blob || at.Damaged >= since {
			return
		}
		next := *now
		next.Versions = slices.Clone(now.Versions)
		next.at(v.Number).Damaged = since
		_, err := s.opts.Records.Update(ctx, r.key(), &next, revision)
		if err == nil {
			s.opts.Log.Error("the content of a file is damaged; whoever has it should store it again", "blob", v.Blob, "bytes", v.Size)
			return
		}
		if !records.Raced(err) {
			s.opts.Log.Warn("that a content is damaged cannot be kept", "blob", v.Blob, "error", err)
			return
		}
	}
}

// sizes are those of the blobs looked at so far; -1 for one that is lost.
type sizes map[string]int64

// probe checks the length of a content's present blobs before a version relies on
// them. It does not read their bytes.
func (w *writing) probe(ctx context.Context, known sizes) {
	if w.content.size == 0 {
		return
	}
	x := w.store.index
	r, _, _ := w.store.opts.Records.Get(recordKey(w.space, w.group, w.path))
	if r != nil && r.live() && r.current().SHA256 == w.content.sum {
		w.probeAt(ctx, r.current().position(), known)
	}
	x.mu.Lock()
	c := x.contents[w.content.sum]
	var where blobPosition
	if c != nil {
		where = c.blobPosition
	}
	x.mu.Unlock()
	w.probeAt(ctx, where, known)
}

func (w *writing) probeAt(ctx context.Context, where blobPosition, known sizes) {
	if where.blob == "" || w.store.index.isBroken(where) {
		return
	}
	if w.store.isShort(ctx, where, w.content.size, known) {
		w.store.index.damage(where, w.store.opts.Now())
	}
}

// isShort reports whether a blob of a content is shorter than it was.
func (s *Store) isShort(ctx context.Context, where blobPosition, size int64, known sizes) bool {
	if where.list == nil {
		return s.shorter(ctx, where.blob, where.offset+size, known)
	}
	if s.shorter(ctx, where.blob, where.list.Offset+where.list.Length, known) {
		return true
	}
	for _, share := range where.list.Shared {
		if s.shorter(ctx, share.Blob, share.Size, known) {
			return true
		}
	}
	return false
}

func (s *Store) shorter(ctx context.Context, blob string, length int64, known sizes) bool {
	size, ok := known[blob]
	if !ok {
		var err error
		if size, err = s.sizeOf(ctx, blob); err != nil {
			return false // the reader that needs the blob gets the error
		}
		known[blob] = size
	}
	return size < length
}

// sizeOf is the number of bytes that a blob has, -1 if it is lost.
func (s *Store) sizeOf(ctx context.Context, blob string) (int64, error) {
	r, err := s.opts.Blobs.Open(ctx, blob)
	if protocol.CodeOf(err) == protocol.FileNotFound {
		return -1, nil
	}
	if err != nil {
		return 0, err
	}
	size, err := r.Seek(0, io.SeekEnd)
	return size, errors.Join(err, r.Close())
}
