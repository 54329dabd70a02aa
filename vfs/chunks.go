package vfs

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/aibridge/aibridge/protocol"
)

// Large files are compared by chunks of a fixed size, so that only changed chunks
// are transferred.
const (
	// ChunkSize is the size of a chunk, in bytes; the last one may be shorter.
	ChunkSize = 256 << 10
	// MaxRuns bounds the runs of chunks that a [Delta] keeps.
	MaxRuns = 256
)

// A Chunked is implemented by [Files] that are far away: of a file that is
// there in another version, changed chunks are enough. The error is
// [errors.ErrUnsupported] if the VFS cannot do it after all.
type Chunked interface {
	// Chunks returns the sums of the chunks of a version.
	Chunks(ctx context.Context, group, path string, version uint64) ([]Sum, error)
	// PutDelta makes a file's new version of chunks that it has in another
	// one and of those in r. The options must have the size and the sum of the
	// whole.
	PutDelta(ctx context.Context, group, path string, c Delta, r io.Reader, o PutOptions) (File, error)
}

// A Delta names the chunks of a version that the next one keeps.
type Delta struct {
	Base uint64 // the version
	Keep []Run  // in order, apart from each other
}

// A Run are chunks from the first to the last, counted from 0.
type Run struct{ First, Last int64 }

// String is FIRST-LAST, and so on, separated by commas.
func (c Delta) String() string {
	var b strings.Builder
	for i, r := range c.Keep {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "%d-%d", r.First, r.Last)
	}
	return b.String()
}

// ParseRuns reads what [Delta.String] writes.
func ParseRuns(text string) ([]Run, error) {
	var runs []Run
	next := int64(0)
	for part := range strings.SplitSeq(text, ",") {
		first, last, ok := strings.Cut(part, "-")
		a, errA := strconv.ParseUint(first, 10, 40)
		b, errB := strconv.ParseUint(last, 10, 40)
		r := Run{int64(a), int64(b)}
		if !ok || errA != nil || errB != nil || r.First < next || r.Last < r.First || len(runs) == MaxRuns {
			return nil, protocol.InvalidParam("keep", fmt.Sprintf("must be at most %d runs of chunks, FIRST-LAST in order, separated by commas", MaxRuns))
		}
		runs = append(runs, r)
		next = r.Last + 1
	}
	return runs, nil
}

// Unchanged finds the chunks that two versions have in common at the same
// place.
func Unchanged(old, new []Sum) (runs []Run) {
	for i := range min(len(old), len(new)) {
		n := int64(i)
		switch last := len(runs) - 1; {
		case old[i] != new[i]:
		case last >= 0 && runs[last].Last == n-1:
			runs[last].Last = n
		case len(runs) < MaxRuns:
			runs = append(runs, Run{n, n})
		}
	}
	return runs
}

// A ChunkHasher computes the sums of the chunks written to it.
type ChunkHasher struct {
	Size int // of a chunk, in bytes; 0 is [ChunkSize]

	sums    []Sum
	pending []byte
}

// Write implements [io.Writer]. It never fails.
func (h *ChunkHasher) Write(p []byte) (int, error) {
	size := len(p)
	if h.Size == 0 {
		h.Size = ChunkSize
	}
	for len(h.pending)+len(p) >= h.Size {
		if len(h.pending) == 0 {
			h.sums = append(h.sums, sha256.Sum256(p[:h.Size]))
			p = p[h.Size:]
			continue
		}
		n := h.Size - len(h.pending)
		h.sums = append(h.sums, sha256.Sum256(append(h.pending, p[:n]...)))
		h.pending, p = h.pending[:0], p[n:]
	}
	if len(p) > 0 && h.pending == nil {
		h.pending = make([]byte, 0, h.Size)
	}
	h.pending = append(h.pending, p...)
	return size, nil
}

// Sums are the sums of the chunks so far, an unfinished one included.
func (h *ChunkHasher) Sums() []Sum {
	if len(h.pending) == 0 {
		return h.sums
	}
	return append(h.sums[:len(h.sums):len(h.sums)], sha256.Sum256(h.pending))
}

// check refuses a delta without the size and the sum that it is checked by.
func (c Delta) check(o PutOptions) error {
	if o.Size < 0 || o.SHA256 == nil {
		return protocol.InvalidParam("checksum", "and size of the whole are needed with chunks of another version")
	}
	return nil
}

// fits refuses runs that are not in a version of so many bytes and the next one.
func (c Delta) fits(before, chunk, size int64) error {
	for _, run := range c.Keep {
		if end := min((run.Last+1)*chunk, size); end > before || run.Last*chunk >= end {
			return protocol.InvalidParam("keep", "has chunks that are not in both versions")
		}
	}
	return nil
}

// Changed is the content of size bytes that a delta makes: chunks of the version
// before, and those of r.
func Changed(before io.ReadSeeker, sizeBefore, chunk int64, keep []Run, r io.Reader, size int64) (io.Reader, error) {
	if err := (Delta{Keep: keep}).fits(sizeBefore, chunk, size); err != nil {
		return nil, err
	}
	var parts []io.Reader
	at := int64(0)
	for _, run := range keep {
		first, end := run.First*chunk, min((run.Last+1)*chunk, size)
		parts = append(parts, io.LimitReader(r, first-at), &section{before, first, end - first, false})
		at = end
	}
	return io.MultiReader(append(parts, r)...), nil
}

// A section reads a part of a version, once its turn has come.
type section struct {
	from     io.ReadSeeker
	at, left int64
	begun    bool
}

// Read implements [io.Reader].
func (s *section) Read(p []byte) (int, error) {
	if !s.begun {
		if _, err := s.from.Seek(s.at, io.SeekStart); err != nil {
			return 0, err
		}
		s.begun = true
	}
	if s.left == 0 {
		return 0, io.EOF
	}
	n, err := s.from.Read(p[:min(int64(len(p)), s.left)])
	s.left -= int64(n)
	if errors.Is(err, io.EOF) {
		err = nil
		if n == 0 {
			err = io.ErrUnexpectedEOF // the version before is shorter than it was
		}
	}
	return n, err
}

// PutChanged makes a version by a delta, without copying the kept chunks if files
// can.
func PutChanged(ctx context.Context, files Files, group, path string, c Delta, r io.Reader, o PutOptions) (File, error) {
	if err := c.check(o); err != nil {
		return File{}, err
	}
	if chunked, ok := files.(Chunked); ok {
		f, err := chunked.PutDelta(ctx, group, path, c, r, o)
		if !errors.Is(err, errors.ErrUnsupported) {
			return f, err
		}
	}
	return copyChanged(ctx, files, group, path, c, r, o)
}

// copyChanged makes a version by a delta, and copies the kept chunks.
func copyChanged(ctx context.Context, files Files, group, path string, c Delta, r io.Reader, o PutOptions) (File, error) {
	before, f, err := files.Open(ctx, group, path, c.Base)
	if err != nil {
		return File{}, err
	}
	defer before.Close()
	whole, err := Changed(before, f.Size, ChunkSize, c.Keep, r, o.Size)
	if err != nil {
		return File{}, err
	}
	return files.Put(ctx, group, path, whole, o)
}

// Chunks implements [Chunked].
func (m mirror) Chunks(ctx context.Context, group, path string, version uint64) ([]Sum, error) {
	c, err := m.chunked()
	if err != nil {
		return nil, err
	}
	return c.Chunks(ctx, group, path, version)
}

// PutDelta implements [Chunked].
func (m mirror) PutDelta(ctx context.Context, group, path string, c Delta, r io.Reader, o PutOptions) (File, error) {
	files, err := m.chunked()
	if err != nil {
		return File{}, err
	}
	return files.PutDelta(ctx, group, path, c, r, o)
}

func (m mirror) chunked() (Chunked, error) {
	files, err := m.files()
	if err != nil {
		return nil, err
	}
	c, ok := files.(Chunked)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	return c, nil
}
