package mirror

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/vfs/mirror/tree"
)

// errPaused is the error of transfers while the mirror is paused.
var errPaused = protocol.Errorf(protocol.InvalidState, "the mirror is paused")

// Paused reports whether nothing is carried over.
func (e *Engine) Paused() bool {
	e.state.mu.Lock()
	defer e.state.mu.Unlock()
	return e.state.meta.paused
}

// Pause has nothing carried over until [Engine.Resume], over restarts too.
// Transfers under way end first. Writes through the engine wait in the folder.
func (e *Engine) Pause() error { return e.setPaused(true) }

// Resume ends a pause: both ends are compared as a whole.
func (e *Engine) Resume() error { return e.setPaused(false) }

func (e *Engine) setPaused(paused bool) error {
	e.turn.Lock()
	defer e.turn.Unlock()
	if e.Paused() == paused {
		return nil
	}
	err := errors.Join(e.state.update(func(m *meta) { m.paused = paused }), e.state.sync())
	e.scanAgain()
	return err
}

// scanAgain has everything at both ends looked at soon.
func (e *Engine) scanAgain() {
	e.mu.Lock()
	e.rescan, e.returned = true, true
	e.mu.Unlock()
	e.Wake()
}

// Rescan has everything at both ends looked at soon, and every file here read
// again if contents are not to be known by size and times.
func (e *Engine) Rescan(contents bool) error {
	e.turn.Lock()
	defer e.turn.Unlock()
	var err error
	if contents {
		err = e.state.forgetPrints()
	}
	e.scanAgain()
	return err
}

// forgetPrints forgets the fingerprints of the files here.
func (s *state) forgetPrints() error {
	s.mu.Lock()
	for path, e := range s.entries {
		again := *e
		again.print = fingerprint{}
		s.entries[path] = &again
	}
	s.mu.Unlock()
	return s.compact()
}

// turnPaused is a turn of a paused mirror: it only finds out the work that there
// will be.
func (e *Engine) turnPaused(ctx context.Context, watch *Watch) (next time.Time) {
	now := e.o.Now()
	e.next.poll, e.next.retry = time.Time{}, time.Time{}
	if !now.Before(e.next.full) {
		e.turn.Lock()
		err := e.scan(ctx)
		e.turn.Unlock()
		if err != nil && ctx.Err() == nil {
			e.o.Log.Warn("sync round failed", "error", err)
		}
		if watch != nil {
			watch.follow(e.dirsFound())
		}
		e.next.full = e.o.Now().Add(e.interval(watch))
	}
	if watch == nil {
		return e.next.full
	}
	return e.next.first(watch.due())
}

// Restore brings back a copy that lost a conflict, or was replaced on purpose,
// by its checksum. The replaced version is kept in turn. A copy that is not kept
// (any more) is 4003.
func (e *Engine) Restore(ctx context.Context, path string, sum Sum) (FileStatus, error) {
	if reason := tree.CheckPath(path); reason != "" {
		return FileStatus{}, protocol.InvalidParam("path", reason)
	}
	fresh, err := e.folder.Create()
	if err != nil {
		return FileStatus{}, localError(err)
	}
	defer fresh.Discard()
	if err := e.copyKept(ctx, path, sum, fresh); err != nil {
		return FileStatus{}, localError(err)
	}
	if err := e.KeepVersion(ctx, path); err != nil {
		return FileStatus{}, localError(err)
	}
	if err := e.place(fresh, path); err != nil {
		return FileStatus{}, localError(err)
	}
	return e.ordered(ctx, path)
}

// copyKept copies a kept copy of a path to a file, and checks it.
func (e *Engine) copyKept(ctx context.Context, path string, sum Sum, to io.Writer) error {
	lost := protocol.Errorf(protocol.FileNotFound, "no copy of %q with this checksum is kept", path).With("path", path)
	for _, l := range e.Losers() {
		if l.Path != path || l.SHA256 != sum || l.Deleted || l.Kept != "" {
			continue
		}
		f, err := e.fetch(ctx, path, l.Version, to)
		switch {
		case stale(err):
			return lost
		case err == nil && f.SHA256 != sum:
			return errWrongContent(path)
		}
		return err
	}
	file, err := e.openKept(path, sum)
	if errors.Is(err, fs.ErrNotExist) {
		return lost
	}
	if err != nil {
		return err
	}
	defer file.Close()
	h := sha256.New()
	if _, err := io.Copy(io.MultiWriter(h, to), file); err != nil {
		return err
	}
	if Sum(h.Sum(nil)) != sum {
		return protocol.Errorf(protocol.SyncFailed, "the kept copy of %q is damaged", path).With("path", path)
	}
	return nil
}

// openKept opens a copy that is kept in the folder: beside the file, or among
// the versions.
func (e *Engine) openKept(path string, sum Sum) (io.ReadCloser, error) {
	for _, l := range e.Losers() {
		if l.Path != path || l.SHA256 != sum || tree.CheckPath(l.Kept) != "" {
			continue
		}
		if file, _, err := e.folder.Open(l.Kept); err == nil {
			return file, nil
		}
	}
	file, err := e.folder.OpenKept(hex.EncodeToString(sum[:]))
	if err != nil {
		return nil, fmt.Errorf("kept copy: %w", err)
	}
	return file, nil
}

// trimVersions removes kept copies that are too old, and the oldest if there
// are too many, and forgets the conflicts that they lost.
func (e *Engine) trimVersions() error {
	now := e.o.Now()
	e.mu.Lock()
	due := now.Sub(e.trimmed).Abs() >= trimEvery
	if due {
		e.trimmed = now
	}
	e.mu.Unlock()
	if !due || e.o.KeepAge < 0 && e.o.KeepBytes < 0 {
		return nil
	}
	before := now.Add(-e.o.KeepAge)
	if e.o.KeepAge < 0 {
		before = time.Time{}
	}
	removed, err := e.folder.TrimVersions(before, e.o.KeepBytes)
	if err != nil || len(removed) == 0 {
		return err
	}
	gone := make(map[string]bool, len(removed))
	for _, name := range removed {
		gone[name] = true
	}
	e.o.Log.Info("removed kept copies that were too old or too many", "copies", len(removed))
	return e.state.forgetLosers(func(l *Loser) bool { return gone[l.Kept] })
}

// trimEvery is the interval at which kept copies are looked through.
const trimEvery = time.Hour

// forgetLosers forgets conflicts that a condition holds for.
func (s *state) forgetLosers(gone func(*Loser) bool) error {
	s.mu.Lock()
	var left []Loser
	for i := range s.losers {
		if !gone(&s.losers[i]) {
			left = append(left, s.losers[i])
		}
	}
	same := len(left) == len(s.losers)
	s.losers = left
	s.mu.Unlock()
	if same {
		return nil
	}
	return s.compact()
}
