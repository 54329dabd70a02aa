package evidence

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sort"
	"time"
)

// Bounds are the bounds of a log: it holds blocks First to Last, none if Last < First.
type Bounds struct {
	First, Last uint64
	Bytes       uint64
}

// Bounds returns the numbers of the first and the last block, and the bytes of the log.
func (l *Log) Bounds(context.Context) (Bounds, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := Bounds{First: 1, Bytes: uint64(l.used.Load())}
	for i, s := range l.segments {
		if i == 0 {
			b.First, b.Last = uint64(s.number), uint64(s.number)-1
		}
		if len(s.blocks) > 0 {
			b.Last = uint64(s.last())
		}
	}
	return b, nil
}

// Get returns the block of a number, nil if there is none.
func (l *Log) Get(_ context.Context, number uint64) ([]byte, error) {
	l.mu.Lock()
	i := sort.Search(len(l.segments), func(i int) bool { return uint64(l.segments[i].number) > number }) - 1
	if i < 0 || number > uint64(l.segments[i].last()) {
		l.mu.Unlock()
		return nil, nil
	}
	s := l.segments[i]
	b := s.blocks[number-uint64(s.number)]
	l.mu.Unlock()
	return l.readAt(s, b)
}

// readBlock reads a block of a segment.
func (l *Log) readBlock(s *segment, number uint32) ([]byte, error) {
	return l.readAt(s, s.blocks[number-s.number])
}

func (l *Log) readAt(s *segment, b blockInfo) ([]byte, error) {
	f, err := l.root.Open(s.name())
	if errors.Is(err, fs.ErrNotExist) { // removed meanwhile
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("evidence: %w", err)
	}
	defer f.Close()
	data := make([]byte, b.size)
	if _, err := f.ReadAt(data, b.offset); err != nil {
		return nil, fmt.Errorf("evidence: read a block: %w", err)
	}
	return data, nil
}

// Read calls f for every block, the oldest first. A block is valid until f
// returns.
func (l *Log) Read(ctx context.Context, f func(number uint64, block []byte) error) error {
	b, err := l.Bounds(ctx)
	if err != nil {
		return err
	}
	for number := b.First; number <= b.Last; number++ {
		block, err := l.Get(ctx, number)
		if err == nil {
			err = ctx.Err()
		}
		if err == nil && block != nil {
			err = f(number, block)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// BySeq returns the number of the first block whose last entry is not before a
// sequence, the number behind the last block if there is none.
func (l *Log) BySeq(seq uint64) uint64 {
	return l.find(func(b *blockInfo) bool { return b.last >= seq })
}

func (l *Log) find(wanted func(*blockInfo) bool) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	next := uint64(1)
	for _, s := range l.segments {
		if n := len(s.blocks); n > 0 {
			next = uint64(s.last()) + 1
			if !wanted(&s.blocks[n-1]) {
				continue
			}
		}
		for i := range s.blocks {
			if wanted(&s.blocks[i]) {
				return uint64(s.number) + uint64(i)
			}
		}
	}
	return next
}

// A Finder excludes blocks in which no entry has all of the marked texts. It serves one
// query.
type Finder struct {
	log   *Log
	marks []uint64
	of    *segment // segment of data, its filters
	data  []byte
}

// Finder returns a finder of blocks with entries that have all texts.
func (l *Log) Finder(texts ...string) *Finder {
	f := &Finder{log: l}
	for _, text := range texts {
		f.marks = append(f.marks, markOf(text))
	}
	return f
}

// May reports whether a block may have a match.
func (f *Finder) May(number uint64) bool {
	if len(f.marks) == 0 {
		return true
	}
	l := f.log
	l.mu.Lock()
	i := sort.Search(len(l.segments), func(i int) bool { return uint64(l.segments[i].number) > number }) - 1
	if i < 0 || number > uint64(l.segments[i].last()) {
		l.mu.Unlock()
		return true
	}
	s, at := l.segments[i], int(number-uint64(l.segments[i].number))
	if s.filters != nil {
		defer l.mu.Unlock()
		return f.in(s.filters[at])
	}
	l.mu.Unlock()
	if f.of != s {
		f.of, f.data = s, l.readFilters(s)
	}
	if f.data == nil {
		return true
	}
	return f.in((*filter)(f.data[at*len(filter{}):]))
}

func (f *Finder) in(blooms *filter) bool {
	for _, mark := range f.marks {
		if !blooms.has(mark) {
			return false
		}
	}
	return true
}

// Trim removes the segments all of whose blocks are before a number and whose claims
// have expired.
func (l *Log) Trim(_ context.Context, before uint64) error {
	now := l.older(time.Now())
	for {
		l.mu.Lock()
		if len(l.segments) < 2 { // the active one stays
			l.mu.Unlock()
			return nil
		}
		s := l.segments[0]
		goes := uint64(s.last()) < before && s.until <= now && s.closed.Load()
		l.mu.Unlock()
		if !goes {
			return nil
		}
		if err := l.remove(s); err != nil {
			return err
		}
	}
}

// Kept is the number of the first block that would remain after Trim with a number.
func (l *Log) Kept(before uint64) uint64 {
	now := l.older(time.Now())
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, s := range l.segments {
		if i == len(l.segments)-1 || uint64(s.last()) >= before || s.until > now || !s.closed.Load() {
			return uint64(s.number)
		}
	}
	return 1
}
