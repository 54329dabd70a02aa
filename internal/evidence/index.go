package evidence

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"os"
	"time"

	"github.com/cespare/xxhash/v2"
)

// A blockInfo describes the contents of a block, so that it need not be read.
type blockInfo struct {
	offset, size int64
	first, last  uint64 // sequences of its entries, zero without any
	from, to     int64  // times of its groups, Unix ms
}

// note notes a group that was appended to the segment. A plain one has no
// filters: it is read from its beginning to its end.
func (s *segment) note(p *piece, frame []byte, now time.Time, plain bool) {
	first := uint64(0)
	if p.entries > 0 {
		first = binary.LittleEndian.Uint64(frame[groupHead+8:])
	}
	s.noteGroup(p.begins, int64(len(frame)), first, uint64(p.entries), now.UnixMilli())
	if p.begins && !plain {
		s.filters[len(s.filters)-1] = new(filter)
	}
	f := s.filters[len(s.filters)-1]
	for _, mark := range p.marks {
		f.add(mark)
	}
}

func (s *segment) noteGroup(begins bool, size int64, first, entries uint64, at int64) {
	if begins || len(s.blocks) == 0 {
		offset := int64(0)
		if n := len(s.blocks); n > 0 {
			offset = s.blocks[n-1].offset + s.blocks[n-1].size
		}
		s.blocks = append(s.blocks, blockInfo{offset: offset, from: at, to: at})
		s.filters = append(s.filters, nil)
	}
	b := &s.blocks[len(s.blocks)-1]
	b.size += size
	b.from, b.to = min(b.from, at), max(b.to, at)
	if entries > 0 {
		if b.first == 0 {
			b.first = first
		}
		b.last = first + entries - 1
		s.entries += entries
	}
}

// A filter is a Bloom filter of the marked texts of a block's entries. A nil one
// excludes nothing.
type filter [4 << 10]byte

// markOf is the mark of a text in filters.
func markOf(text string) uint64 { return xxhash.Sum64String(text) }

// bits are the bits of a filter that a mark has.
const bits = 4

func (f *filter) add(mark uint64) {
	if f == nil {
		return
	}
	for i := range uint64(bits) {
		at := (mark + i*(mark>>32|1)) % (8 * uint64(len(f)))
		f[at/8] |= 1 << (at % 8)
	}
}

func (f *filter) has(mark uint64) bool {
	if f == nil {
		return true
	}
	for i := range uint64(bits) {
		at := (mark + i*(mark>>32|1)) % (8 * uint64(len(f)))
		if f[at/8]&(1<<(at%8)) == 0 {
			return false
		}
	}
	return true
}

// An index file is the magic, a CRC-32C of all behind it, the size of the segment, the
// age until which its claims are valid, the number of blocks, the blockInfo of each,
// and a filter for each. A filter of ones excludes nothing.
const indexMagic = "abx1"

const (
	indexHead = len(indexMagic) + 4 + 8 + 8 + 4
	blockSize = 6 * 8
)

func (s *segment) encodeIndex() []byte {
	data := append(make([]byte, 0, indexHead+len(s.blocks)*(blockSize+len(filter{}))), indexMagic+"\x00\x00\x00\x00"...)
	data = binary.LittleEndian.AppendUint64(data, uint64(s.size))
	data = binary.LittleEndian.AppendUint64(data, uint64(s.until))
	data = binary.LittleEndian.AppendUint32(data, uint32(len(s.blocks)))
	for _, b := range s.blocks {
		for _, n := range []uint64{uint64(b.offset), uint64(b.size), b.first, b.last, uint64(b.from), uint64(b.to)} {
			data = binary.LittleEndian.AppendUint64(data, n)
		}
	}
	ones := bytes.Repeat([]byte{0xff}, len(filter{}))
	for _, f := range s.filters {
		if f == nil {
			data = append(data, ones...)
		} else {
			data = append(data, f[:]...)
		}
	}
	binary.LittleEndian.PutUint32(data[len(indexMagic):], crc32.Checksum(data[len(indexMagic)+4:], castagnoli))
	return data
}

var errNoIndex = errors.New("not the index of this segment")

// decodeIndex applies the index of a segment of a size.
func (s *segment) decodeIndex(data []byte, size int64) error {
	if len(data) < indexHead || string(data[:len(indexMagic)]) != indexMagic ||
		crc32.Checksum(data[len(indexMagic)+4:], castagnoli) != binary.LittleEndian.Uint32(data[len(indexMagic):]) {
		return errNoIndex
	}
	fields := data[len(indexMagic)+4:]
	count := int(binary.LittleEndian.Uint32(fields[16:]))
	if int64(binary.LittleEndian.Uint64(fields)) != size || len(data) != indexHead+count*(blockSize+len(filter{})) {
		return errNoIndex
	}
	s.size, s.until = size, time.Duration(binary.LittleEndian.Uint64(fields[8:]))
	s.blocks, s.filters, s.entries = make([]blockInfo, count), nil, 0
	for i := range s.blocks {
		at := func(n int) uint64 { return binary.LittleEndian.Uint64(data[indexHead+i*blockSize+n*8:]) }
		b := blockInfo{int64(at(0)), int64(at(1)), at(2), at(3), int64(at(4)), int64(at(5))}
		s.blocks[i] = b
		if b.first > 0 {
			s.entries += b.last - b.first + 1
		}
	}
	return nil
}

// writeIndex writes the index of a segment that is finished, and forgets its
// filters: they are read when they are needed.
func (l *Log) writeIndex(s *segment) error {
	l.mu.Lock()
	data := s.encodeIndex()
	l.mu.Unlock()
	f, err := l.root.OpenFile(indexName(s.number), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	l.mu.Lock()
	s.filters = nil
	l.mu.Unlock()
	return nil
}

// readIndex reads the index of a segment, which need not be there.
func (l *Log) readIndex(s *segment, size int64) error {
	data, err := l.root.ReadFile(indexName(s.number))
	if err != nil {
		return err
	}
	return s.decodeIndex(data, size)
}

// readFilters reads the filters of a finished segment, nil if there are none.
func (l *Log) readFilters(s *segment) []byte {
	data, err := l.root.ReadFile(indexName(s.number))
	if err != nil || new(segment).decodeIndex(data, s.size) != nil {
		return nil
	}
	return data[indexHead+len(s.blocks)*blockSize:]
}
