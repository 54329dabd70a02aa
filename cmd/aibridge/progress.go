package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/aibridge/aibridge/internal/backup"
)

// The times of a progress bar: it appears after a while, and changes no faster than
// people read.
const (
	progressAfter = time.Second
	progressEvery = 200 * time.Millisecond
)

// A progress shows the progress of work that takes longer than a second, in one
// changing line of a terminal. Other outputs get nothing. The zero value shows
// nothing.
type progress struct {
	w     io.Writer // nil shows nothing
	what  string
	total int64 // bytes, 0 if it is not known
	now   func() time.Time

	mu    sync.Mutex
	began time.Time
	drawn time.Time // zero before the line was shown first
	done  int64
}

// newProgress returns the progress of something for the reader of w, mostly standard
// error.
func newProgress(w io.Writer, what string, total int64) *progress {
	p := &progress{what: what, total: total, now: time.Now}
	if terminal(w) {
		p.w = w
	}
	p.began = p.now()
	return p
}

// reader is from, with its bytes counted as progress.
func (p *progress) reader(from io.Reader) io.Reader { return progressReader{p, from} }

type progressReader struct {
	*progress
	from io.Reader
}

// Read implements [io.Reader].
func (r progressReader) Read(b []byte) (int, error) {
	n, err := r.from.Read(b)
	r.at(r.what, r.done+int64(n))
	return n, err
}

// at shows the step under way, and its bytes so far.
func (p *progress) at(what string, bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.what, p.done = what, bytes
	if p.w == nil {
		return
	}
	now := p.now()
	if now.Sub(p.began) < progressAfter || now.Sub(p.drawn) < progressEvery {
		return
	}
	p.drawn = now
	fmt.Fprintf(p.w, "\r\x1b[K%s, %s", p.what, p.far(now))
}

// far is the distance, in words.
func (p *progress) far(now time.Time) string {
	text := mebibytes(p.done)
	if p.total > 0 {
		text = fmt.Sprintf("%d %% of %s", 100*min(p.done, p.total)/p.total, mebibytes(p.total))
	}
	return fmt.Sprintf("%s, %s/s", text, mebibytes(int64(float64(p.done)/now.Sub(p.began).Seconds())))
}

func mebibytes(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }

// sizeOf is the number of bytes that are in a file, 0 if that is not known.
func sizeOf(file *os.File) int64 {
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return 0
	}
	return info.Size()
}

// end clears the line.
func (p *progress) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.w != nil && !p.drawn.IsZero() {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
	p.w = nil
}

// sectionNames are the sections of a backup in words.
var sectionNames = map[string]string{
	"registry": "registrations", "claims": "claims", "mqtt-values": "MQTT sessions", "mqtt-log": "messages that wait", "audit": "the audit trail", "files": "files",
}

// copying shows the progress of a backup.
func (p *progress) copying(b backup.Progress) { p.at("copying "+sectionNames[b.Section], b.Bytes) }
