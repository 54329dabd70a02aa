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

// What is known of damaged blobs is kept with the versions that have their
// content there, as the number that a version would have got when the damage
// was found. A blob is good again once a later version refers to it: nobody
// relies on a damaged one, so it was written anew by then.

// damageTime bounds how long a reader waits for what it found to be kept.
const damageTime = 5 * time.Second

// broken reports whether a blob is known to be damaged. The index must be
// locked.
func (x *index) broken(blob string) bool {
	b := x.blobs[blob]
	return b != nil && b.damaged > b.newest
}

// isBroken is broken for who has not locked the index.
func (x *index) isBroken(blob string) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.broken(blob)
}

// damage notes that a blob is damaged, and returns since which version.
func (x *index) damage(blob string, now time.Time) uint64 {
	x.mu.Lock()
	defer x.mu.Unlock()
	b := x.blobs[blob]
	if b == nil {
		return 0 // nobody needs it any more
	}
	if !x.broken(blob) {
		b.damaged = x.number(now)
	}
	return b.damaged
}

// noteDamage remembers that the content of a version is damaged, so that the
// next writer of the same content writes it anew.
func (s *Store) noteDamage(ctx context.Context, r *Record, v *Version) {
	since := s.index.damage(v.Blob, s.opts.Now())
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

// sizes are those of blobs, as far as somebody has asked; -1 for one that is
// lost.
type sizes map[string]int64

// probe looks whether what is there already of a content is as long as it
// should be, before anybody relies on it. What its bytes are is not read.
func (w *writing) probe(ctx context.Context, known sizes) {
	if w.content.size == 0 {
		return
	}
	x := w.store.index
	r, _, _ := w.store.opts.Records.Get(recordKey(w.space, w.group, w.path))
	if r != nil && r.live() && r.current().SHA256 == w.content.sum {
		w.probeAt(ctx, place{r.current().Blob, r.current().Offset}, known)
	}
	x.mu.Lock()
	c := x.contents[w.content.sum]
	var where place
	if c != nil {
		where = place{c.blob, c.offset}
	}
	x.mu.Unlock()
	w.probeAt(ctx, where, known)
}

func (w *writing) probeAt(ctx context.Context, where place, known sizes) {
	if where.blob == "" || w.store.index.isBroken(where.blob) {
		return
	}
	size, ok := known[where.blob]
	if !ok {
		var err error
		if size, err = w.store.sizeOf(ctx, where.blob); err != nil {
			return // who needs the blob will be told
		}
		known[where.blob] = size
	}
	if size < where.offset+w.content.size {
		w.store.index.damage(where.blob, w.store.opts.Now())
	}
}

// sizeOf is how many bytes a blob has, -1 if it is lost.
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
