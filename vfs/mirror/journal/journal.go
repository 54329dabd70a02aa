package journal

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path"
	"sync"
)

const (
	magic      = "aibsync1"
	headerSize = 4 + 4 // length and checksum of a record
	// MaxRecord is the largest record, in bytes.
	MaxRecord = 64 << 10
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// ErrDamaged reports a record that is not whole. [Read] returns it with how
// far the file is good.
var ErrDamaged = errors.New("journal record is damaged")

// errNotJournal reports a file that this package did not write.
var errNotJournal = errors.New("not a journal of this version")

// Append encodes a record.
func Append(dst, record []byte) []byte {
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(record)))
	dst = binary.LittleEndian.AppendUint32(dst, crc32.Checksum(record, castagnoli))
	return append(dst, record...)
}

// Read calls f with every whole record and returns the length of those, in bytes.
// The slice is valid until f returns.
func Read(r io.Reader, f func(record []byte) error) (good int64, err error) {
	in := bufio.NewReaderSize(r, 256<<10)
	head := make([]byte, len(magic))
	switch _, err := io.ReadFull(in, head); {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return 0, nil // died while beginning
	case err != nil:
		return 0, err
	case string(head) != magic:
		return 0, errNotJournal
	}
	good = int64(len(magic))
	record := make([]byte, 0, 1024)
	for {
		var header [headerSize]byte
		if _, err := io.ReadFull(in, header[:]); err != nil {
			return good, tail(err)
		}
		length := binary.LittleEndian.Uint32(header[:])
		if length == 0 || length > MaxRecord {
			return good, ErrDamaged
		}
		if cap(record) < int(length) {
			record = make([]byte, length)
		}
		record = record[:length]
		if _, err := io.ReadFull(in, record); err != nil {
			return good, tail(err)
		}
		if crc32.Checksum(record, castagnoli) != binary.LittleEndian.Uint32(header[4:]) {
			return good, ErrDamaged
		}
		if err := f(record); err != nil {
			return good, err
		}
		good += headerSize + int64(length)
	}
}

// tail tells the end of a file from one in the middle of a record.
func tail(err error) error {
	switch {
	case errors.Is(err, io.EOF):
		return nil
	case errors.Is(err, io.ErrUnexpectedEOF):
		return ErrDamaged
	}
	return err
}

// A Log is an open journal. Its methods may be called by many goroutines.
type Log struct {
	root *os.Root
	name string

	mu    sync.Mutex
	file  *os.File
	size  int64
	era   int   // counts how often the journal was written anew
	err   error // after a failed write nothing more is written
	saved int64 // the durable part of size

	syncing sync.Mutex // one sync at a time, for all callers that wait; locked before mu
}

// Open opens or begins the journal at name, has f read what it holds, and cuts
// off a torn record. cut says how many bytes that were.
func Open(root *os.Root, name string, f func(record []byte) error) (l *Log, cut int64, err error) {
	if err := root.Remove(name + ".new"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, 0, err
	}
	file, err := root.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, 0, err
	}
	l = &Log{root: root, name: name, file: file}
	if cut, err = l.load(f); err != nil {
		_ = file.Close() // the first error counts
		return nil, 0, fmt.Errorf("journal %s: %w", name, err)
	}
	return l, cut, nil
}

func (l *Log) load(f func([]byte) error) (cut int64, err error) {
	good, err := Read(l.file, f)
	if err != nil && !errors.Is(err, ErrDamaged) {
		return 0, err
	}
	end, err := l.file.Seek(0, io.SeekEnd)
	if err != nil {
		return 0, err
	}
	if good < end {
		if err := l.file.Truncate(good); err != nil {
			return 0, err
		}
	}
	if good == 0 {
		if _, err := l.file.WriteAt([]byte(magic), 0); err != nil {
			return 0, err
		}
		good = int64(len(magic))
		if err := l.file.Sync(); err != nil {
			return 0, err
		}
	}
	l.size, l.saved = good, good
	return max(end-good, 0), nil
}

// Append writes encoded records (see [Append]) and, if that is asked for,
// returns only when they are durable. After a failure nothing is written any
// more: records behind a torn one would not be read.
func (l *Log) Append(encoded []byte, durable bool) error {
	end, era, err := l.write(encoded)
	if err != nil || !durable {
		return err
	}
	return l.save(end, era)
}

// write returns how far the journal must be durable for the records to be.
func (l *Log) write(encoded []byte) (end int64, era int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return 0, 0, l.err
	}
	n, err := l.file.WriteAt(encoded, l.size)
	if err != nil {
		// The written part of it is overwritten by the next record, which is
		// possible as long as the size stays.
		if n > 0 && l.file.Truncate(l.size) != nil {
			l.err = err
		}
		return 0, 0, err
	}
	l.size += int64(n)
	return l.size, l.era, nil
}

// save makes the journal durable up to an end. Callers that come while it syncs
// share the next sync.
func (l *Log) save(end int64, era int) error {
	l.syncing.Lock()
	defer l.syncing.Unlock()
	l.mu.Lock()
	file, size, done, err := l.file, l.size, l.saved >= end || l.era != era, l.err
	l.mu.Unlock()
	if done || err != nil {
		return err
	}
	err = file.Sync()
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.err = err // the state of the disk is unknown
		return err
	}
	l.saved = size
	return nil
}

// Saved is the number of bytes of the journal that are durable.
func (l *Log) Saved() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.saved
}

// Size is the number of bytes that the journal has.
func (l *Log) Size() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.size
}

// Rewrite replaces the journal by the records that write emits. It heals a
// journal that could not be written to.
func (l *Log) Rewrite(write func(emit func(record []byte) error) error) error {
	l.syncing.Lock()
	defer l.syncing.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	fresh := l.name + ".new"
	file, err := l.root.OpenFile(fresh, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	size, err := rewrite(file, write)
	if err == nil {
		err = l.root.Rename(fresh, l.name)
	}
	if err != nil {
		return errors.Join(err, file.Close(), l.root.Remove(fresh))
	}
	old := l.file
	l.file, l.size, l.saved, l.err = file, size, size, nil
	l.era++
	return errors.Join(old.Close(), syncParent(l.root, l.name))
}

func rewrite(file *os.File, write func(emit func([]byte) error) error) (size int64, err error) {
	out := bufio.NewWriterSize(file, 256<<10)
	if _, err := out.WriteString(magic); err != nil {
		return 0, err
	}
	size = int64(len(magic))
	var buf []byte
	err = write(func(record []byte) error {
		buf = Append(buf[:0], record)
		size += int64(len(buf))
		_, err := out.Write(buf)
		return err
	})
	if err != nil {
		return 0, err
	}
	if err := out.Flush(); err != nil {
		return 0, err
	}
	return size, file.Sync()
}

func syncParent(root *os.Root, name string) error {
	dir, err := root.Open(path.Dir(name))
	if err != nil {
		return err
	}
	_ = dir.Sync() // some systems cannot; the new journal is as good as the old one
	return dir.Close()
}

// Close makes everything durable and closes the journal.
func (l *Log) Close() error {
	l.syncing.Lock()
	defer l.syncing.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	err := l.file.Sync()
	if l.err == nil {
		l.err = fs.ErrClosed
	}
	return errors.Join(err, l.file.Close())
}
