package vfs

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding"
	"errors"
	"hash"
	"io"
	"slices"
	"sync"
)

// An assembly makes a large content of chunks that come from a writer and of
// those that the version before has at the same place. Only the former are
// written.
type assembly struct {
	ctx   context.Context
	store *Store
	base  *base // nil if there is none

	blob  Blob  // nil until something is written
	own   int64 // bytes in it
	whole hash.Hash
	list  chunkList

	// The hash of the own blob. As long as nothing is shared it is that of the
	// whole, and this is nil.
	apart  hash.Hash
	before []byte   // state of the whole before the chunks that are being added
	fresh  [][]byte // those of them that are written to the own blob
	near   []byte   // a piece of the base
}

// The bounds of the chunks that a version shares with others.
const (
	// maxShared is the number of blobs of other versions that one may share. Each is a
	// key in its record.
	maxShared = 16
	// foldTo is the number of shared blobs that fold leaves of more than maxShared.
	foldTo = maxShared / 2
)

// comparePiece is the part of a chunk that is compared at a time, in bytes.
const comparePiece = 16 << 10

func (s *Store) assembly(ctx context.Context, b *base) *assembly {
	a := &assembly{ctx: ctx, store: s, base: b, whole: sha256.New()}
	if b != nil {
		a.near = make([]byte, ChunkSize)
		own := Share{b.version.Blob, b.version.List.Offset + b.version.List.Length}
		a.list.shared = append([]Share{own}, b.list.shared...)
	}
	return a
}

// abort gives up the writes so far.
func (a *assembly) abort() {
	if a.blob != nil {
		a.blob.Abort()
		a.blob = nil
	}
}

// readAll takes a content to its end. A content below minChunked gets no list.
func (a *assembly) readAll(r io.Reader) error {
	buf := make([]byte, minChunked)
	for {
		n, err := io.ReadFull(r, buf)
		if n > 0 {
			if err := a.addAll(buf[:n]); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return nil
		case err != nil:
			return brokenOff(err)
		}
	}
}

// addAll takes the next chunks of a writer. The whole is hashed beside that.
func (a *assembly) addAll(some []byte) error {
	if a.list.size == 0 && len(some) < minChunked {
		a.list.size = int64(len(some))
		a.whole.Write(some)
		return a.write(some)
	}
	if err := a.begin(); err != nil {
		return err
	}
	if err := a.addBeside(some); err != nil {
		return err
	}
	return a.end()
}

// addBeside adds chunks while the whole is hashed.
func (a *assembly) addBeside(some []byte) error {
	var hashed sync.WaitGroup
	defer hashed.Wait()
	hashed.Go(func() { a.whole.Write(some) })
	for chunk := range slices.Chunk(some, ChunkSize) {
		if err := a.add(chunk); err != nil {
			return err
		}
	}
	return nil
}

// begin notes the state of the hash before the next chunks: for the list, now
// and then, and for the own blob, while that is the same.
func (a *assembly) begin() (err error) {
	i := len(a.list.sums)
	kept := i > 0 && i%stateEvery == 0
	if !kept && a.apart != nil {
		return nil
	}
	hashed, err := a.whole.(encoding.BinaryMarshaler).MarshalBinary()
	if kept {
		a.list.states = append(a.list.states, state{i, hashed})
	}
	a.before = hashed
	return err
}

// end hashes the chunks written since begin, once the own blob differs from the whole
// content.
func (a *assembly) end() error {
	if a.apart == nil && a.own != a.list.size {
		a.apart = sha256.New()
		if err := a.apart.(encoding.BinaryUnmarshaler).UnmarshalBinary(a.before); err != nil {
			return err
		}
	}
	if a.apart != nil {
		for _, chunk := range a.fresh {
			a.apart.Write(chunk)
		}
	}
	a.fresh = a.fresh[:0]
	return nil
}

// add takes the next chunk, whose bytes are hashed already.
func (a *assembly) add(chunk []byte) error {
	i := len(a.list.sums)
	if a.inBase(i, chunk) {
		a.share(i)
		return nil
	}
	a.list.sums = append(a.list.sums, sha256.Sum256(chunk))
	a.list.spots = append(a.list.spots, spot{0, a.own})
	a.list.size += int64(len(chunk))
	a.fresh = append(a.fresh, chunk)
	return a.write(chunk)
}

// inBase reports whether the version before has the same bytes at the same place. The
// bytes themselves are compared, so a shared chunk equals the one sent even if the disk
// has damaged the older copy.
func (a *assembly) inBase(i int, chunk []byte) bool {
	b := a.base
	if b == nil || i >= len(b.list.sums) || chunkLength(b.list.size, i) != int64(len(chunk)) {
		return false
	}
	if _, err := b.Seek(int64(i)*ChunkSize, io.SeekStart); err != nil {
		return false
	}
	for piece := range slices.Chunk(chunk, comparePiece) {
		near := a.near[:len(piece)]
		if _, err := io.ReadFull(b, near); err != nil || !bytes.Equal(near, piece) {
			return false // a chunk that cannot be read is written anew
		}
	}
	return true
}

// share takes a chunk of the version before as the next one.
func (a *assembly) share(i int) {
	from := a.base.list
	at := from.spots[i]
	a.list.sums = append(a.list.sums, from.sums[i])
	a.list.spots = append(a.list.spots, spot{at.blob + 1, at.offset})
	a.list.size += chunkLength(from.size, i)
}

// write appends to the version's own blob.
func (a *assembly) write(p []byte) (err error) {
	if a.blob == nil {
		if a.blob, err = a.store.opts.Blobs.New(a.ctx); err != nil {
			return err
		}
	}
	n, err := a.blob.Write(p)
	a.own += int64(n)
	return err
}

// finish ends the content with its list, if it is to have one.
func (a *assembly) finish(c *received) error {
	c.name = c.sum
	if len(a.list.sums) > 0 && a.list.size <= maxChunked {
		if err := a.fold(); err != nil {
			return err
		}
		a.prune()
		c.saved = max(0, a.list.size-a.own)
		list := a.list.encode()
		c.list = &ListRef{Offset: a.own, Length: int64(len(list)), Apart: a.isApart(), Shared: a.list.shared}
		own := a.whole
		if a.apart != nil {
			own = a.apart
		}
		own.Write(list)
		own.Sum(c.name[:0])
		if err := a.write(list); err != nil {
			return err
		}
	}
	c.blob, a.blob = a.blob, nil
	return nil
}

// isApart reports whether the content is not in one piece in its own blob.
func (a *assembly) isApart() bool {
	for i, at := range a.list.spots {
		if at != (spot{0, int64(i) * ChunkSize}) {
			return true
		}
	}
	return a.own != a.list.size
}

// fold writes chunks anew where sharing costs more than it saves: the chunks of
// every blob of which less than half is still needed, so that a version keeps at
// most twice its size from being collected; and, if there are too many blobs, the
// chunks of the least needed ones.
func (a *assembly) fold() error {
	needed := make([]int64, len(a.list.shared)+1)
	for i, at := range a.list.spots {
		needed[at.blob] += chunkLength(a.list.size, i)
	}
	var used []int
	away := make([]bool, len(needed))
	for b := 1; b < len(needed); b++ {
		if away[b] = 2*needed[b] < a.list.shared[b-1].Size; !away[b] {
			used = append(used, b)
		}
	}
	if len(used) > maxShared {
		slices.SortFunc(used, func(x, y int) int { return cmp.Compare(needed[x], needed[y]) })
		for _, b := range used[:len(used)-foldTo] {
			away[b] = true
		}
	}
	for i, at := range a.list.spots {
		if !away[at.blob] {
			continue
		}
		if err := a.bring(i); err != nil {
			return err
		}
	}
	return nil
}

// bring writes a chunk of the version before to the own blob.
func (a *assembly) bring(i int) error {
	chunk := a.near[:chunkLength(a.list.size, i)]
	if err := a.readBase(i, chunk); err != nil {
		return err
	}
	if sha256.Sum256(chunk) != a.list.sums[i] {
		return errBaseDamaged
	}
	a.list.spots[i] = spot{0, a.own}
	a.apart.Write(chunk)
	return a.write(chunk)
}

// errBaseDamaged is the failure to make a content from the version before it.
var errBaseDamaged = errors.New("vfs: the version before is damaged")

func (a *assembly) readBase(i int, chunk []byte) error {
	if err := ended(a.ctx); err != nil {
		return err
	}
	if _, err := a.base.Seek(int64(i)*ChunkSize, io.SeekStart); err != nil {
		return err
	}
	_, err := io.ReadFull(a.base, chunk)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || isLost(err) {
		return errBaseDamaged
	}
	return err
}

// prune forgets blobs of which no chunk is needed any more.
func (a *assembly) prune() {
	l := &a.list
	to := make([]int, len(l.shared)+1) // the new number of each
	var shared []Share
	for i, at := range l.spots {
		if at.blob == 0 {
			continue
		}
		if to[at.blob] == 0 {
			shared = append(shared, l.shared[at.blob-1])
			to[at.blob] = len(shared)
		}
		l.spots[i].blob = to[at.blob]
	}
	l.shared = shared
}
