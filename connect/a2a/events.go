package a2a

import (
	"bufio"
	"bytes"
	"io"
)

// events reads server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events.html),
// within bounds.
type events struct {
	lines *bufio.Reader
	data  []byte // of the event
	read  int    // bytes
	count int
	err   error // why there are no more, nil if the stream has ended
}

func newEvents(r io.Reader) *events { return &events{lines: bufio.NewReaderSize(r, 16<<10)} }

// next reads the next event with data.
func (e *events) next() bool {
	var data []byte
	some := false
	for {
		line, err := e.line()
		if err != nil {
			if err != io.EOF { // which ends a stream well
				e.err = err
			}
			return false
		}
		switch value, is := field(line, "data"); {
		case len(line) == 0 && some:
			e.data = data
			if e.count++; e.count > maxEvents {
				e.err = &lost{true, "its stream does not end"}
				return false
			}
			return true
		case is && some:
			data = append(append(data, '\n'), value...)
		case is:
			data, some = append([]byte{}, value...), true
		}
		if len(data) > maxAnswer {
			e.err = &lost{true, "an event of its stream is too long"}
			return false
		}
	}
}

// line reads one line, without its end; [io.EOF] is the end of the stream.
func (e *events) line() (line []byte, err error) {
	for {
		piece, err := e.lines.ReadSlice('\n')
		e.read += len(piece)
		line = append(line, piece...)
		switch {
		case len(line) > maxAnswer:
			return nil, &lost{true, "an event of its stream is too long"}
		case e.read > maxStream:
			return nil, &lost{true, "its stream does not end"}
		case err == bufio.ErrBufferFull:
			continue
		case err == io.EOF:
			return nil, io.EOF
		case err != nil:
			return nil, &lost{true, "its stream broke"}
		}
		return bytes.TrimRight(line, "\r\n"), nil
	}
}

// field is the value of a line, if it is of the field.
func field(line []byte, name string) ([]byte, bool) {
	key, value, _ := bytes.Cut(line, []byte(":"))
	if string(key) != name {
		return nil, false
	}
	return bytes.TrimPrefix(value, []byte(" ")), true
}
