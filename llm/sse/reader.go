// Package sse reads and writes server-sent events, as the HTML standard
// defines them.
package sse

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"sync"
)

// ErrTooLong is returned for an event that is larger than it may be.
var ErrTooLong = errors.New("an event of the stream is too long")

// An Event is one event of a stream.
type Event struct {
	Name string // "" where the stream names none
	Data []byte // valid until the next call of Next
}

// A Reader reads the events of a stream. Lines may end in LF, CR LF or CR;
// comments, ids and retry times are passed over.
type Reader struct {
	in    *bufio.Reader
	limit int
	began bool
	cr    bool // the line before ended in CR: an LF that follows belongs to it
	name  []byte
	data  []byte
	line  []byte
}

// readers are used again.
var readers = sync.Pool{New: func() any { return &Reader{in: bufio.NewReaderSize(nil, 4096)} }}

// mostKept is the size up to which the room for an event is used again, in bytes.
const mostKept = 64 << 10

// NewReader reads events of at most limit bytes.
func NewReader(r io.Reader, limit int) *Reader {
	reader := readers.Get().(*Reader)
	reader.in.Reset(r)
	reader.limit = limit
	return reader
}

// Release gives a reader back, whose events are not valid any more.
func (r *Reader) Release() {
	if cap(r.line)+cap(r.data)+cap(r.name) > mostKept {
		return
	}
	r.in.Reset(nil)
	r.began, r.cr = false, false
	readers.Put(r)
}

// Next returns the next event, or [io.EOF] at the end of the stream. An unfinished
// event at the end is dropped, as the standard has it.
func (r *Reader) Next() (Event, error) {
	r.name, r.data = r.name[:0], r.data[:0]
	fields := false
	for {
		line, err := r.readLine()
		if err != nil {
			return Event{}, err
		}
		if len(line) == 0 {
			if !fields { // a name without data is no event, and is not the name of the next one
				r.name = r.name[:0]
				continue
			}
			return Event{Name: string(r.name), Data: bytes.TrimSuffix(r.data, []byte("\n"))}, nil
		}
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(field) {
		case "data":
			fields = true
			r.data = append(append(r.data, value...), '\n')
		case "event":
			r.name = append(r.name[:0], value...)
		}
		if len(r.data)+len(r.name) > r.limit {
			return Event{}, ErrTooLong
		}
	}
}

var byteOrderMark = []byte("\ufeff")

// readLine returns a line without its line ending. A last line without one is dropped,
// and io.EOF returned.
func (r *Reader) readLine() ([]byte, error) {
	r.line = r.line[:0]
	for {
		if r.in.Buffered() == 0 {
			if _, err := r.in.Peek(1); err != nil {
				return nil, err
			}
		}
		chunk, _ := r.in.Peek(r.in.Buffered())
		if r.cr {
			r.cr = false
			if chunk[0] == '\n' {
				_, _ = r.in.Discard(1)
				continue
			}
		}
		end := bytes.IndexAny(chunk, "\r\n")
		if end < 0 {
			r.line = append(r.line, chunk...)
			_, _ = r.in.Discard(len(chunk))
			if len(r.line) > r.limit {
				return nil, ErrTooLong
			}
			continue
		}
		r.line = append(r.line, chunk[:end]...)
		r.cr = chunk[end] == '\r'
		_, _ = r.in.Discard(end + 1)
		if len(r.line) > r.limit {
			return nil, ErrTooLong
		}
		if !r.began {
			r.began = true
			return bytes.TrimPrefix(r.line, byteOrderMark), nil
		}
		return r.line, nil
	}
}

// Append appends an event to dst. Data may have several lines.
func Append(dst []byte, name string, data []byte) []byte {
	if name != "" {
		dst = append(append(append(dst, "event: "...), name...), '\n')
	}
	for line := range bytes.SplitSeq(data, []byte("\n")) {
		dst = append(append(append(dst, "data: "...), line...), '\n')
	}
	return append(dst, '\n')
}
