package vfs

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"math"
)

// A ListRef says where the list of a large version's chunks is: in the
// version's own blob, behind the chunks that are there.
type ListRef struct {
	Offset int64 `json:"at"`    // in the blob
	Length int64 `json:"bytes"` // of the list, which ends the blob
	// Apart says that the content is not in one piece from the blob's beginning up
	// to the list: its chunks are at the places in the list.
	Apart bool `json:"apart,omitempty"`
	// Shared are the blobs of other versions that have chunks of this one too.
	Shared []Share `json:"shared,omitempty"`
}

// A Share is a blob in which another version has been stored.
type Share struct {
	Blob string `json:"blob"`
	Size int64  `json:"bytes"` // of the whole blob
}

// A chunkList holds the SHA-256 and the place of every chunk of a large content.
type chunkList struct {
	size   int64   // of the content, in bytes
	shared []Share // blobs besides the version's own
	sums   []Sum
	spots  []spot // of every chunk
	states []state
}

// A spot is the place of a chunk.
type spot struct {
	blob   int   // 0 is the version's own blob, n is shared[n-1]
	offset int64 // there
}

// A state is that of the SHA-256 of the content before a chunk, so that after a change
// from that chunk on only the rest is hashed anew.
type state struct {
	chunk int
	hash  []byte // as the hash marshals itself
}

// The bounds of a list.
const (
	// minChunked is the size from which contents have a list, in bytes.
	minChunked = 4 * ChunkSize
	// maxChunked is the size up to which contents have a list, in bytes.
	maxChunked = 64 << 30
	// stateEvery is the number of chunks between two states of the hash that are
	// kept. It bounds the chunks before the first change that are hashed again.
	stateEvery = 32
	// maxListShared bounds the blobs that a list names.
	maxListShared = 64
	maxState      = 1 << 10  // bytes
	maxList       = 16 << 20 // bytes
	maxKey        = 1 << 10  // bytes
)

const listMagic = "aibridge chunks 1\n"

var errBadList = errors.New("vfs: the list of chunks is damaged")

// chunkCount is the number of chunks that a content has.
func chunkCount(size int64) int { return int((size + ChunkSize - 1) / ChunkSize) }

// chunkLength is the length of a chunk of a content.
func chunkLength(size int64, chunk int) int64 {
	return min(ChunkSize, size-int64(chunk)*ChunkSize)
}

// encode writes the list:
//
//	magic
//	chunk size, content size, number of shared blobs, of extents, of states
//	for each shared blob: length of its key, the key, its size
//	for each extent: blob, offset, number of chunks that follow each other there
//	for each state: chunk, length, the state
//	for each chunk: its SHA-256
//	SHA-256 of all that
//
// Numbers are unsigned varints.
func (l *chunkList) encode() []byte {
	extents := l.extents()
	b := make([]byte, 0, len(listMagic)+64+len(l.shared)*80+len(extents)*12+len(l.states)*120+(len(l.sums)+1)*sha256.Size)
	number := func(n int64) { b = binary.AppendUvarint(b, uint64(n)) }
	text := func(s string) { number(int64(len(s))); b = append(b, s...) }
	b = append(b, listMagic...)
	for _, n := range []int64{ChunkSize, l.size, int64(len(l.shared)), int64(len(extents)), int64(len(l.states))} {
		number(n)
	}
	for _, s := range l.shared {
		text(s.Blob)
		number(s.Size)
	}
	for _, e := range extents {
		number(int64(e.blob))
		number(e.offset)
		number(int64(e.chunks))
	}
	for _, s := range l.states {
		number(int64(s.chunk))
		text(string(s.hash))
	}
	for i := range l.sums {
		b = append(b, l.sums[i][:]...)
	}
	sum := sha256.Sum256(b)
	return append(b, sum[:]...)
}

// An extent is a run of chunks that follow each other in one blob.
type extent struct {
	spot
	chunks int
}

func (l *chunkList) extents() (all []extent) {
	for i, s := range l.spots {
		if last := len(all) - 1; last >= 0 {
			e := &all[last]
			if e.blob == s.blob && e.offset+int64(e.chunks)*ChunkSize == s.offset {
				e.chunks++
				continue
			}
		}
		all = append(all, extent{l.spots[i], 1})
	}
	return all
}

// parseChunkList reads what encode wrote for a content of that size, whose own
// blob has that many bytes before the list.
func parseChunkList(data []byte, size, own int64) (*chunkList, error) {
	n := len(data) - sha256.Size
	if n < 0 || sha256.Sum256(data[:n]) != [sha256.Size]byte(data[n:]) {
		return nil, errBadList
	}
	p := &listParser{data: data[:n]}
	l := p.list(size, own)
	if p.failed || len(p.data) != 0 {
		return nil, errBadList
	}
	return l, nil
}

// A listParser takes a list apart. Once it has failed everything is zero.
type listParser struct {
	data   []byte
	failed bool
}

func (p *listParser) fail(unless bool) bool {
	p.failed = p.failed || !unless
	return p.failed
}

// number reads a number up to most.
func (p *listParser) number(most int64) int64 {
	n, length := binary.Uvarint(p.data)
	if p.fail(length > 0 && n <= uint64(most)) {
		return 0
	}
	p.data = p.data[length:]
	return int64(n)
}

func (p *listParser) bytes(n int64) []byte {
	if p.fail(n <= int64(len(p.data))) {
		return nil
	}
	b := p.data[:n]
	p.data = p.data[n:]
	return b
}

func (p *listParser) list(size, own int64) *chunkList {
	p.fail(bytes.Equal(p.bytes(int64(len(listMagic))), []byte(listMagic)))
	p.fail(p.number(math.MaxInt32) == ChunkSize)
	p.fail(size > 0 && size <= maxChunked && p.number(maxChunked) == size)
	if p.failed {
		return nil
	}
	count := chunkCount(size)
	l := &chunkList{size: size}
	shared, extents, states := p.number(maxListShared), p.number(int64(count)), p.number(int64(count))
	for range shared {
		l.shared = append(l.shared, Share{string(p.bytes(p.number(maxKey))), p.number(math.MaxInt64)})
	}
	if p.fail(int64(count)*int64(len(Sum{})) <= int64(len(p.data))) { // before there is room made for them
		return nil
	}
	p.extents(l, own, count, int(extents))
	for range states {
		s := state{chunk: int(p.number(int64(count)))}
		s.hash = bytes.Clone(p.bytes(p.number(maxState)))
		p.fail(len(l.states) == 0 || l.states[len(l.states)-1].chunk < s.chunk)
		if p.failed {
			return nil
		}
		l.states = append(l.states, s)
	}
	l.sums = make([]Sum, count)
	for i := range l.sums {
		copy(l.sums[i][:], p.bytes(int64(len(Sum{}))))
	}
	return l
}

// extents reads where the chunks are, which must be within their blobs.
func (p *listParser) extents(l *chunkList, own int64, count, extents int) {
	l.spots = make([]spot, 0, count)
	for range extents {
		e := extent{spot{int(p.number(int64(len(l.shared)))), p.number(math.MaxInt64)}, int(p.number(int64(count)))}
		if p.fail(e.chunks > 0 && e.chunks <= count-len(l.spots)) {
			return
		}
		room := own
		if e.blob > 0 {
			room = l.shared[e.blob-1].Size
		}
		first := int64(len(l.spots)) * ChunkSize
		length := min(int64(e.chunks)*ChunkSize, l.size-first)
		if p.fail(e.offset <= room && length <= room-e.offset) {
			return
		}
		for i := range e.chunks {
			l.spots = append(l.spots, spot{e.blob, e.offset + int64(i)*ChunkSize})
		}
	}
	p.fail(len(l.spots) == count)
}

// stateBefore is the last state of the hash that is kept before or at a chunk,
// nil if there is none.
func (l *chunkList) stateBefore(chunk int) (last *state) {
	for i := range l.states {
		if l.states[i].chunk <= chunk {
			last = &l.states[i]
		}
	}
	return last
}
