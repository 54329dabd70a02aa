package mirror

import (
	"context"
	"errors"
	"time"

	"github.com/aibridge/aibridge/vfs/mirror/tree"
)

// settleDown is how long a file must have been left alone before it is
// carried over in real time, and the longest that a busy folder waits.
const (
	settleDown   = 50 * time.Millisecond
	settleDownAt = time.Second
)

// Run mirrors until ctx ends: at once when something changes, if that is asked
// for, and everything in every interval.
func (e *Engine) Run(ctx context.Context) error {
	w := e.watch()
	defer w.close()
	timer := time.NewTimer(0)
	defer timer.Stop()
	next := schedule{full: e.o.Now()}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-e.wake:
		case event := <-w.events:
			if w.take(event) {
				next.change(e.o.Now())
			}
		case err := <-w.errors:
			e.o.Log.Debug("file notifications may have been lost", "error", err)
			next.full = e.o.Now()
		case <-timer.C:
		}
		e.turnOnce(ctx, w, &next)
		timer.Reset(next.wait(e.o.Now()))
	}
}

// A schedule says what is to be done when.
type schedule struct {
	full  time.Time // a look at everything
	poll  time.Time // a question whether the VFS has changed
	quiet time.Time // changes in the folder have settled down
	since time.Time // the first of them
	retry time.Time // something that failed
}

// change notes a change in the folder.
func (s *schedule) change(now time.Time) {
	if s.since.IsZero() {
		s.since = now
	}
	if s.quiet = now.Add(settleDown); s.quiet.After(s.since.Add(settleDownAt)) {
		s.quiet = s.since.Add(settleDownAt)
	}
}

// wait is how long there is nothing to do.
func (s *schedule) wait(now time.Time) time.Duration {
	first := s.full
	for _, t := range []time.Time{s.poll, s.quiet, s.retry} {
		if !t.IsZero() && t.Before(first) {
			first = t
		}
	}
	return max(first.Sub(now), 0)
}

// turnOnce does what is due.
func (e *Engine) turnOnce(ctx context.Context, w *watcher, next *schedule) {
	now := e.o.Now()
	due := func(t time.Time) bool { return !t.IsZero() && !now.Before(t) }
	if due(next.quiet) {
		for _, path := range w.changed() {
			for _, dir := range e.Touch(path) {
				if w.add(dir) {
					w.paths[dir] = true
				}
			}
		}
		next.quiet, next.since = time.Time{}, time.Time{}
		if len(w.paths) > 0 {
			next.change(now)
		}
	}
	var err error
	switch pending, again := e.work.due(now); {
	case due(next.full):
		err = e.round(ctx, scope{folder: true, remote: true})
		next.full = e.o.Now().Add(e.o.Interval)
		if w.follow(e) {
			next.full = e.o.Now().Add(settleDown)
		}
	case e.o.RealTime && (due(next.poll) || e.unseen()) && e.remoteChanged(ctx):
		err = e.round(ctx, scope{remote: true})
	case len(pending) > 0 && (e.o.RealTime || e.urgent()):
		err = e.round(ctx, scope{})
	default:
		next.retry = again
	}
	if err != nil && ctx.Err() == nil && !unavailable(err) {
		e.o.Log.Warn("sync round failed", "error", err)
	}
	if _, again := e.work.due(e.o.Now()); !again.IsZero() {
		next.retry = again
	} else if !unavailable(err) {
		next.retry = time.Time{}
	}
	if e.o.RealTime && !e.o.Now().Before(next.poll) {
		next.poll = e.o.Now().Add(e.o.Poll)
	}
}

// unseen reports whether the VFS was away since its files were listed.
func (e *Engine) unseen() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.returned
}

// urgent reports whether writes through the engine wait to be sent: they do
// not wait for the interval.
func (e *Engine) urgent() bool {
	e.state.mu.Lock()
	defer e.state.mu.Unlock()
	return len(e.state.orders) > 0
}

// remoteChanged reports whether the VFS may have changed since its files were
// listed.
func (e *Engine) remoteChanged(ctx context.Context) bool {
	if circuit, _ := e.o.Link.Circuit(); circuit != CircuitClosed {
		return false
	}
	if _, ok := e.o.Remote.(Reviser); !ok {
		return true
	}
	revision, err := e.remoteRevision(ctx)
	e.mu.Lock()
	defer e.mu.Unlock()
	return err == nil && (revision == "" || revision != e.revision)
}

// Touch notes that something at a path in the folder has changed, be it a file
// or a folder, and returns the folders found there.
func (e *Engine) Touch(path string) (dirs []string) {
	stamp, err := e.folder.Stat(path)
	switch {
	case errors.Is(err, tree.ErrNotRegular):
		e.work.refuse(path, err.Error())
		return nil
	case err != nil:
		return nil // the next scan knows more
	case !stamp.Absent():
		e.work.add(path)
		return nil
	}
	found := e.folder.Scan(path, 0, e.state.mirrored)
	for file := range found.Files {
		e.work.add(file)
	}
	for at, reason := range found.Refused {
		e.work.refuse(at, reason)
	}
	for _, known := range e.state.below(path) {
		if _, there := found.Files[known]; !there && found.Covers(known) {
			e.work.add(known)
		}
	}
	return found.Dirs
}

// Dirs are the folders that the last look at everything found.
func (e *Engine) Dirs() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.dirs
}

// Due is when something that failed is to be tried again, zero if nothing is.
// Whatever else is to be done is due now.
func (e *Engine) Due() time.Time {
	now := e.o.Now()
	paths, again := e.work.due(now)
	if len(paths) > 0 || e.urgent() && again.IsZero() {
		return now
	}
	return again
}
