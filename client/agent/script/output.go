package script

import (
	"bytes"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
)

// output keeps what a script writes to standard output, up to a limit. Beyond
// it full is called, once, and the rest is thrown away: the writer is about
// to be killed and must not be held up.
type output struct {
	limit int
	full  func()

	buf  bytes.Buffer
	over bool
}

func (o *output) Write(p []byte) (int, error) {
	if room := o.limit - o.buf.Len(); len(p) > room {
		o.buf.Write(p[:room])
		if !o.over {
			o.over = true
			o.full()
		}
		return len(p), nil
	}
	return o.buf.Write(p)
}

// The limits of standard error.
const (
	maxLine     = 1 << 10 // bytes of a progress line; longer ones are ignored
	maxTail     = 2 << 10 // bytes kept of the end
	maxMessage  = 512     // bytes of a progress message
	minInterval = 100 * time.Millisecond
)

const progressMark = "::progress "

// diagnostics reads standard error: progress lines are passed on, of the rest
// the end is kept.
type diagnostics struct {
	progress func(percent float64, message string) // nil: progress is not passed on
	now      func() time.Time

	mu     sync.Mutex
	closed bool
	line   []byte
	long   bool // the line is longer than maxLine, the rest of it is not looked at
	last   time.Time
	tail   []byte
}

func (d *diagnostics) Write(p []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := len(p)
	for len(p) > 0 {
		part := p
		end := bytes.IndexByte(p, '\n')
		if end >= 0 {
			part = p[:end]
		}
		d.add(part)
		if end < 0 {
			break
		}
		d.endLine()
		p = p[end+1:]
	}
	return n, nil
}

func (d *diagnostics) add(part []byte) {
	if d.long {
		d.keep(part)
		return
	}
	d.line = append(d.line, part...)
	if len(d.line) > maxLine {
		d.long = true
		d.keep(d.line)
		d.line = d.line[:0]
	}
}

func (d *diagnostics) endLine() {
	if !d.long && d.report(string(d.line)) {
		d.line = d.line[:0]
		return
	}
	d.keep(append(d.line, '\n'))
	d.line, d.long = d.line[:0], false
}

// report passes a line on if it is one of progress. Those that come too
// quickly are dropped: the next one is fresher anyway.
func (d *diagnostics) report(line string) bool {
	rest, ok := strings.CutPrefix(line, progressMark)
	if !ok {
		return false
	}
	number, message, _ := strings.Cut(strings.TrimSpace(rest), " ")
	percent, err := strconv.ParseFloat(strings.TrimSuffix(number, "%"), 64)
	if err != nil || !(percent >= 0 && percent <= 100) {
		return false
	}
	if now := d.now(); d.progress != nil && !d.closed && now.Sub(d.last) >= minInterval {
		d.last = now
		d.progress(percent, clean(message, maxMessage))
	}
	return true
}

func (d *diagnostics) keep(p []byte) {
	d.tail = append(d.tail, p...)
	if len(d.tail) > 2*maxTail { // moved seldom
		d.tail = append(d.tail[:0], d.tail[len(d.tail)-maxTail:]...)
	}
}

// close stops passing progress on and returns the end of the output.
func (d *diagnostics) close() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	if !d.long && len(d.line) > 0 && !d.report(string(d.line)) {
		d.keep(d.line)
	}
	d.line = nil
	tail := d.tail
	if len(tail) > maxTail {
		tail = tail[len(tail)-maxTail:]
	}
	return strings.TrimSpace(clean(string(tail), maxTail))
}

// clean makes a script's output a text: valid UTF-8, without control characters
// other than line ends and tabs, of at most limit bytes.
func clean(s string, limit int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	s = strings.Map(func(c rune) rune {
		if unicode.IsControl(c) && c != '\n' && c != '\t' {
			return -1
		}
		return c
	}, s)
	if len(s) > limit {
		s = strings.ToValidUTF8(s[:limit], "")
	}
	return s
}
