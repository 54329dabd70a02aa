package mirror

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/vfs/mirror/tree"
)

// Write stores a file at both ends. When it returns without an error, the file
// is durable here and will get to the VFS, in the order of writes; whether it
// is there already, the status says. It waits for the VFS only as long as
// Options.Patience.
func (e *Engine) Write(ctx context.Context, path string, content io.Reader) (FileStatus, error) {
	return e.WriteDated(ctx, path, content, 0)
}

// WriteDated is Write of a file that was changed last at a time, in Unix
// milliseconds; 0 is now.
func (e *Engine) WriteDated(ctx context.Context, path string, content io.Reader, mtime int64) (FileStatus, error) {
	if err := e.mayWrite(path); err != nil {
		return FileStatus{}, err
	}
	if err := e.writeHere(path, content, mtime); err != nil {
		return FileStatus{}, localError(err)
	}
	return e.ordered(ctx, path)
}

// Remove removes a file at both ends, as Write writes it. No file is 4003.
func (e *Engine) Remove(ctx context.Context, path string) (FileStatus, error) {
	if reason := tree.CheckPath(path); reason != "" {
		return FileStatus{}, protocol.InvalidParam("path", reason)
	}
	unlock := e.locks.lock(path)
	stamp, err := e.folder.Stat(path)
	if err == nil && stamp.Absent() {
		err = errNoFile(path)
	}
	if err == nil {
		err = e.folder.Remove(path, stamp)
	}
	unlock()
	if err != nil {
		return FileStatus{}, localError(err)
	}
	return e.ordered(ctx, path)
}

// Read opens a file. While the VFS can be reached, it is the VFS's latest.
func (e *Engine) Read(ctx context.Context, path string) (*os.File, FileStatus, error) {
	if reason := tree.CheckPath(path); reason != "" {
		return nil, FileStatus{}, protocol.InvalidParam("path", reason)
	}
	if circuit, _ := e.o.Breaker.Circuit(); circuit == CircuitClosed {
		patient, cancel := context.WithTimeout(ctx, e.o.Patience)
		_ = e.SyncPath(patient, path) // the local version will do
		cancel()
	}
	file, _, err := e.folder.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		err = errNoFile(path)
	}
	if err != nil {
		return nil, FileStatus{}, localError(err)
	}
	status, ok := e.File(path)
	if !ok {
		status = FileStatus{Path: path, Standing: Pending}
	}
	return file, status, nil
}

// writeHere puts a file into the folder, in place of any other.
func (e *Engine) writeHere(path string, content io.Reader, mtime int64) error {
	fresh, err := e.folder.Create()
	if err != nil {
		return err
	}
	defer fresh.Discard()
	if _, err := fresh.ReadFrom(content); err != nil {
		return err
	}
	fresh.SetTime(mtime)
	return e.place(fresh, path)
}

// place moves a new file to its path, in place of any other.
func (e *Engine) place(fresh *tree.Unfinished, path string) (err error) {
	defer e.locks.lock(path)()
	for range maxTurns {
		var stamp tree.Stamp
		if stamp, err = e.folder.Stat(path); err != nil {
			return err
		}
		if _, err = fresh.Replace(path, stamp); !errors.Is(err, tree.ErrChanged) {
			return err
		}
	}
	return err
}

// ordered notes durably that a path is to be sent, and sends it if it can.
func (e *Engine) ordered(ctx context.Context, path string) (FileStatus, error) {
	e.work.add(path)
	if _, err := e.state.enqueue(path); err != nil {
		return FileStatus{}, localError(err)
	}
	patient, cancel := context.WithTimeout(ctx, e.o.Patience)
	defer cancel()
	if e.replay(patient) != nil {
		e.Wake()
	}
	status, ok := e.File(path)
	if !ok { // removed at both ends
		status = FileStatus{Path: path, Standing: Synced}
	}
	return status, nil
}

// replay sends the local changes, in the order in which they were written.
// It ends early if the VFS is not there.
func (e *Engine) replay(ctx context.Context) error {
	if e.Paused() {
		return errPaused
	}
	select {
	case e.sender <- struct{}{}:
		defer func() { <-e.sender }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	waiting := e.state.waiting()
	if len(waiting) == 0 {
		return nil
	}
	if err := e.checkInstance(ctx); err != nil {
		return err
	}
	for _, o := range waiting {
		if e.work.held(o.path, e.o.Now()) {
			continue
		}
		err := e.report(ctx, o.path, e.reconcile(ctx, o.path, hint{}))
		switch {
		case err == nil || refusedHere(err): // a refused path is looked at again by every scan
			if err := e.state.sent(o); err != nil {
				return err
			}
		case unavailable(err) || ctx.Err() != nil:
			return err
		}
	}
	return nil
}

// errIgnored refuses a write of an ignored path, which would never be mirrored.
func errIgnored(path string) error {
	return protocol.InvalidParam("path", "is ignored: a line of "+IgnoreFile+" matches it").With("path", path)
}

func errNoFile(path string) error {
	return protocol.Errorf(protocol.FileNotFound, "there is no file %q", path).With("path", path)
}

// localError gives failures of the folder a code.
func localError(err error) error {
	var bad tree.BadPathError
	var obstacle *tree.ObstacleError
	switch {
	case errors.As(err, &bad):
		return protocol.InvalidParam("path", bad.Reason)
	case errors.As(err, &obstacle):
		return protocol.Errorf(protocol.AlreadyExists, "%s", obstacle.Error()).With("path", obstacle.Path).With("twin", obstacle.Obstacle)
	case errors.Is(err, tree.ErrNotRegular):
		return protocol.Errorf(protocol.InvalidState, "the path holds something that is not a regular file")
	case noSpace(err):
		return protocol.Wrap(protocol.NoSpace, err, "no space left in the folder")
	}
	return err
}

// Holds reports whether both ends agree on a file and it has the content.
func (e *Engine) Holds(path string, content []byte) bool {
	known := e.state.get(path)
	if !known.holds() || known.sum != sha256.Sum256(content) {
		return false
	}
	stamp, err := e.folder.Stat(path)
	return err == nil && known.print.covers(stamp)
}

// SyncNow makes both ends the same at one path, waiting for the VFS only as
// long as Options.Patience, and returns the state of the file then. A file that
// neither end has is 4003.
func (e *Engine) SyncNow(ctx context.Context, path string) (FileStatus, error) {
	patient, cancel := context.WithTimeout(ctx, e.o.Patience)
	defer cancel()
	err := e.SyncPath(patient, path)
	if err != nil && !unavailable(err) && !errors.Is(err, errPaused) && patient.Err() == nil {
		if status, ok := e.File(path); ok && status.Standing == Failed {
			return status, nil
		}
		return FileStatus{}, localError(err)
	}
	status, ok := e.File(path)
	if !ok {
		return FileStatus{}, errNoFile(path)
	}
	return status, nil
}

// Checksum is the checksum of a file in the folder.
func (e *Engine) Checksum(ctx context.Context, path string) (Sum, error) {
	known := e.state.get(path)
	stamp, err := e.folder.Stat(path)
	if err == nil && known.print.covers(stamp) {
		return known.print.sum, nil
	}
	if err != nil {
		return Sum{}, err
	}
	defer e.locks.lock(path)()
	l, err := e.read(ctx, path, e.state.get(path))
	if err == nil && !l.there {
		err = errNoFile(path)
	}
	return l.sum, err
}

// KeepVersion keeps a copy of the file in the folder, if there is one, as that
// of a loser: it is about to be replaced on purpose.
func (e *Engine) KeepVersion(ctx context.Context, path string) error {
	sum, err := e.Checksum(ctx, path)
	if protocol.CodeOf(err) == protocol.FileNotFound {
		return nil
	}
	if err != nil {
		return err
	}
	file, stamp, err := e.folder.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = e.folder.Keep(&steady{ctx: ctx, file: file, before: stamp}, hex.EncodeToString(sum[:]))
	return err
}
