package claimlog

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/aibridge/aibridge/commands"
)

// seal ends a segment that was whole on disk when it was written. No record
// begins like it: the length would be too large.
const seal = "aibridge claims\n"

// A segment is one file of records.
type segment struct {
	name  string
	begun time.Time
	until time.Time        // when the last of its claims has expired, by the monotonic clock
	left  []commands.Claim // by an earlier process and still valid at Open

	// size is the length of what was acknowledged. If torn is set, the file
	// may be longer, by what a failed write has left.
	size int64
	torn bool
	file file // nil once the segment is finished and closed
}

// A file is what a segment needs of an [os.File].
type file interface {
	io.WriterAt
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

const suffix = ".claims"

func segmentName(number uint64) string { return fmt.Sprintf("%012d%s", number, suffix) }

func segmentNumber(name string) (number uint64, ok bool) {
	digits, ok := strings.CutSuffix(name, suffix)
	number, err := strconv.ParseUint(digits, 10, 64)
	return number, ok && err == nil && segmentName(number) == name
}

// append adds records after the last that was acknowledged. When it fails,
// the file is cut back to there, now or before anything else is written.
func (s *segment) append(records []byte, sync bool) error {
	s.torn = true
	_, err := s.file.WriteAt(records, s.size)
	if err == nil && sync {
		err = s.file.Sync()
	}
	if err != nil {
		_ = s.repair() // or later
		return err
	}
	s.torn = false
	s.size += int64(len(records))
	return nil
}

// repair cuts off what a failed write may have left.
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
	s.file = nil
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
	return err
}
