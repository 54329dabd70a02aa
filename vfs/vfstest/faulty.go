package vfstest

import (
	"context"
	"io"
	"sync"
	"time"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/vfs"
)

// A Fault is a way in which a VFS fails.
type Fault int

// The faults.
const (
	Healthy Fault = iota
	Outage        // there is no answer: 4001 at once
	Hang          // there is no answer until the context ends
	Slow          // every answer takes [Faulty.Delay]
	Garbage       // reads return other bytes than were written, and every call is answered
	Cut           // reads and writes break off in the middle, and so do their connections
	Full          // every write ends with 4005
	Denied        // every write ends with 4004
	// Forgets carries out a call and then fails: the outcome is unknown to the
	// caller.
	Forgets
)

// Faulty are files that fail on command. Without a fault they pass every call on.
type Faulty struct {
	Files vfs.Files
	Delay time.Duration // of [Slow], 50 ms if 0

	mu    sync.Mutex
	fault Fault
	after int // calls to go until the fault begins
	calls int
}

// NewFaulty wraps files.
func NewFaulty(files vfs.Files) *Faulty { return &Faulty{Files: files} }

// Fail makes the files fail from now on; [Healthy] mends them.
func (f *Faulty) Fail(how Fault) { f.FailAfter(0, how) }

// FailAfter lets n more calls pass and then fails.
func (f *Faulty) FailAfter(n int, how Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.after, f.fault = n, how
}

// Calls is the number of calls.
func (f *Faulty) Calls() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls
}

// enter counts a call and returns the failure that it is to have.
func (f *Faulty) enter(ctx context.Context) (Fault, error) {
	f.mu.Lock()
	f.calls++
	fault, delay := f.fault, f.Delay
	if f.after > 0 {
		f.after--
		fault = Healthy
	}
	f.mu.Unlock()
	switch fault {
	case Outage:
		return fault, unavailable(nil)
	case Hang:
		<-ctx.Done()
		return fault, unavailable(ctx.Err())
	case Slow:
		if delay == 0 {
			delay = 50 * time.Millisecond
		}
		select {
		case <-time.After(delay):
		case <-ctx.Done():
			return fault, unavailable(ctx.Err())
		}
	}
	return fault, nil
}

func unavailable(cause error) error {
	return protocol.Wrap(protocol.VFSUnavailable, cause, "the VFS does not answer")
}

// Stat implements [vfs.Files].
func (f *Faulty) Stat(ctx context.Context, group, path string) (vfs.File, error) {
	fault, err := f.enter(ctx)
	if err != nil {
		return vfs.File{}, err
	}
	if fault == Cut || fault == Forgets {
		return vfs.File{}, unavailable(io.ErrUnexpectedEOF)
	}
	return f.Files.Stat(ctx, group, path)
}

// Open implements [vfs.Files].
func (f *Faulty) Open(ctx context.Context, group, path string, version uint64) (io.ReadSeekCloser, vfs.File, error) {
	fault, err := f.enter(ctx)
	if err != nil {
		return nil, vfs.File{}, err
	}
	r, file, err := f.Files.Open(ctx, group, path, version)
	if err != nil {
		return nil, vfs.File{}, err
	}
	switch fault {
	case Cut:
		return &cutReader{ReadSeekCloser: r, left: file.Size / 2}, file, nil
	case Garbage:
		return garbageReader{r}, file, nil
	}
	return r, file, nil
}

// A cutReader breaks off.
type cutReader struct {
	io.ReadSeekCloser
	left int64
}

func (r *cutReader) Read(p []byte) (int, error) {
	if r.left <= 0 {
		return 0, unavailable(io.ErrUnexpectedEOF)
	}
	n, err := r.ReadSeekCloser.Read(p[:min(int64(len(p)), r.left)])
	r.left -= int64(n)
	return n, err
}

// A garbageReader turns every bit round.
type garbageReader struct{ io.ReadSeekCloser }

func (r garbageReader) Read(p []byte) (int, error) {
	n, err := r.ReadSeekCloser.Read(p)
	for i := range p[:n] {
		p[i] = ^p[i]
	}
	return n, err
}

// Put implements [vfs.Files].
func (f *Faulty) Put(ctx context.Context, group, path string, r io.Reader, o vfs.PutOptions) (vfs.File, error) {
	fault, err := f.enter(ctx)
	if err != nil {
		return vfs.File{}, err
	}
	switch fault {
	case Full:
		return vfs.File{}, vfs.NoRoom("the disk is full")
	case Denied:
		return vfs.File{}, denied()
	case Cut:
		_, _ = io.CopyN(io.Discard, r, max(1, o.Size/2))
		return vfs.File{}, unavailable(io.ErrUnexpectedEOF)
	}
	file, err := f.Files.Put(ctx, group, path, r, o)
	if fault == Forgets {
		return vfs.File{}, unavailable(io.ErrUnexpectedEOF)
	}
	return file, err
}

// Delete implements [vfs.Files].
func (f *Faulty) Delete(ctx context.Context, group, path string, ifVersion uint64) (vfs.File, error) {
	fault, err := f.enter(ctx)
	if err != nil {
		return vfs.File{}, err
	}
	switch fault {
	case Denied:
		return vfs.File{}, denied()
	case Cut:
		return vfs.File{}, unavailable(io.ErrUnexpectedEOF)
	}
	file, err := f.Files.Delete(ctx, group, path, ifVersion)
	if fault == Forgets {
		return vfs.File{}, unavailable(io.ErrUnexpectedEOF)
	}
	return file, err
}

func denied() error {
	return protocol.Errorf(protocol.VFSPermission, "you may not write here")
}

// List implements [vfs.Files].
func (f *Faulty) List(ctx context.Context, group, prefix, cursor string, limit int, deleted bool) ([]vfs.File, string, error) {
	fault, err := f.enter(ctx)
	if err != nil {
		return nil, "", err
	}
	if fault == Cut || fault == Forgets {
		return nil, "", unavailable(io.ErrUnexpectedEOF)
	}
	return f.Files.List(ctx, group, prefix, cursor, limit, deleted)
}

// Usage implements [vfs.Meter].
func (f *Faulty) Usage(ctx context.Context) (vfs.Usage, error) {
	if _, err := f.enter(ctx); err != nil {
		return vfs.Usage{}, err
	}
	if m, ok := f.Files.(vfs.Meter); ok {
		return m.Usage(ctx)
	}
	return vfs.Usage{}, nil
}
