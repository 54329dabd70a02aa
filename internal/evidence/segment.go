package evidence

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// seal ends a segment that was whole on disk when it was written. No group
// begins like it.
const seal = "aibridge evidence\n"

// A segment is one file of blocks.
type segment struct {
	number uint32 // of the first block
	begun  time.Time

	// Guarded by Log.mu.
	until   time.Duration // when the last of its claims has expired, by the age of the log; 0 without any
	blocks  []blockInfo
	filters []*filter // of the blocks; nil where they are in the index, and of one that excludes nothing
	entries uint64
	damaged int    // bytes
	found   uint32 // number of the block in the last group that was read

	// size is the length of the acknowledged bytes. If torn is set, the file may be
	// longer, by the rest of a failed write.
	size   int64
	torn   bool
	sealed bool
	read   bool // when the log was opened
	file   file // of the writer, then of its closer

	finished atomic.Bool // nothing more is written to it
	closed   atomic.Bool // and it is on the disk
	dirty    atomic.Bool // has entries that may not be
}

// A file is the part of an [os.File] that a segment needs.
type file interface {
	io.WriterAt
	io.ReaderAt
	io.Closer
	Truncate(size int64) error
	Sync() error // of what it contains
}

type diskFile struct{ *os.File }

func (f diskFile) Sync() error { return syncData(f.File) }

func createFile(root *os.Root, name string) (file, error) {
	f, err := root.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	return diskFile{f}, nil
}

const (
	segmentSuffix = ".log"
	indexSuffix   = ".index"
)

func segmentName(number uint32) string { return fmt.Sprintf("%010d%s", number, segmentSuffix) }

func indexName(number uint32) string { return fmt.Sprintf("%010d%s", number, indexSuffix) }

func segmentNumber(name string) (number uint32, ok bool) {
	digits, ok := strings.CutSuffix(name, segmentSuffix)
	n, err := strconv.ParseUint(digits, 10, 32)
	return uint32(n), ok && err == nil && n > 0 && segmentName(uint32(n)) == name
}

func (s *segment) name() string { return segmentName(s.number) }

// last is the number of the last block, one less than the first if there is
// none.
func (s *segment) last() uint32 { return s.number + uint32(len(s.blocks)) - 1 }

// length is the number of bytes of groups there that are. It is called with Log.mu
// locked.
func (s *segment) length() int64 {
	if len(s.blocks) == 0 {
		return 0
	}
	b := s.blocks[len(s.blocks)-1]
	return b.offset + b.size
}

// append adds a group after the last acknowledged one. After a failure the file is
// truncated to its old size, now or before the next write.
func (s *segment) append(frame []byte, sync bool) error {
	s.torn = true
	_, err := s.file.WriteAt(frame, s.size)
	if err == nil && sync {
		err = s.file.Sync()
	}
	if err != nil {
		_ = s.repair() // or later
		return err
	}
	s.torn = false
	s.size += int64(len(frame))
	return nil
}

// repair truncates the remains of a failed write.
func (s *segment) repair() error {
	if !s.torn {
		return nil
	}
	if err := s.file.Truncate(s.size); err != nil {
		return err
	}
	s.torn = false
	return nil
}

// close seals the segment and closes its file, which it does in any case: a
// segment without seal is whole as well, only less is known about it.
func (s *segment) close() error {
	err := s.seal()
	if e := s.file.Close(); err == nil {
		err = e
	}
	s.closed.Store(true)
	return err
}

func (s *segment) seal() error {
	if err := s.repair(); err != nil {
		return err
	}
	if err := s.file.Sync(); err != nil {
		return err
	}
	_, err := s.file.WriteAt([]byte(seal), s.size)
	s.sealed = err == nil
	return err
}
