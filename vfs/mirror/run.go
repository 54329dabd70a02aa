package mirror

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/aibridge/aibridge/vfs/mirror/tree"
)

// Run mirrors until ctx ends: at once when something changes, if that is asked
// for, and everything in every interval.
func (e *Engine) Run(ctx context.Context) error {
	if e.o.RealTime && e.watch == nil {
		watcher, err := NewWatcher(0, e.o.Log)
		if err != nil {
			e.o.Log.Warn("changes are found by scanning", "error", err)
		} else {
			defer watcher.Close()
		}
		e.setWatch(watcher.Watch(e.folder.Dir(), err, e.Wake))
		defer e.setWatch(nil)
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-e.wake:
		case <-timer.C:
		}
		next := e.Turn(ctx)
		timer.Reset(max(next.Sub(e.o.Now()), 0))
	}
}

func (e *Engine) setWatch(w *Watch) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.watch = w
}

// A schedule holds the times of the next tasks.
type schedule struct {
	full  time.Time // a look at everything
	poll  time.Time // a question whether the VFS has changed
	retry time.Time // something that failed
}

// first is the time when there is something to do.
func (s *schedule) first(changes time.Time) time.Time {
	first := s.full
	for _, t := range []time.Time{s.poll, s.retry, changes} {
		if !t.IsZero() && t.Before(first) {
			first = t
		}
	}
	return first
}

// Turn does the due work and returns the time of the next. It is for callers that
// run many engines; one at a time calls it, instead of [Engine.Run].
func (e *Engine) Turn(ctx context.Context) (next time.Time) {
	now := e.o.Now()
	due := func(t time.Time) bool { return !t.IsZero() && !now.Before(t) }
	e.mu.Lock()
	watch := e.watch
	e.mu.Unlock()
	if watch != nil && due(watch.due()) {
		e.takeChanges(watch)
	}
	if e.takeRescan() {
		e.next.full = now
	}
	if e.Paused() {
		return e.turnPaused(ctx, watch)
	}
	var err error
	switch pending, _ := e.work.due(now); {
	case due(e.next.full):
		err = e.round(ctx, scope{folder: true, remote: true})
		wait := settleDown // for changes before it was watched
		if watch == nil || !watch.follow(e.dirsFound()) {
			wait = e.interval(watch)
		}
		e.next.full = e.o.Now().Add(wait)
	case e.o.RealTime && (due(e.next.poll) || e.unseen()) && e.remoteChanged(ctx):
		err = e.round(ctx, scope{remote: true})
	case len(pending) > 0 && (e.o.RealTime || e.urgent()):
		err = e.round(ctx, scope{})
	}
	if err != nil && ctx.Err() == nil && !unavailable(err) {
		e.o.Log.Warn("sync round failed", "error", err)
	}
	e.next.retry = time.Time{}
	switch left, again := e.work.due(e.o.Now()); {
	case len(left) > 0 && err == nil && (e.o.RealTime || e.urgent()):
		e.next.retry = e.o.Now().Add(settleDown) // came up meanwhile
	case !again.IsZero():
		e.next.retry = again
	}
	if e.o.RealTime && e.o.Poll > 0 && !e.o.Now().Before(e.next.poll) {
		e.next.poll = e.o.Now().Add(e.o.Poll)
	}
	if watch == nil {
		return e.next.first(time.Time{})
	}
	return e.next.first(watch.due())
}

// interval is the time until the next look at everything. It is longer where the
// system notifies of all changes, and shorter where it should but cannot.
func (e *Engine) interval(watch *Watch) time.Duration {
	wait := e.o.Interval
	switch {
	case !e.o.RealTime || watch == nil:
	case watch.Trouble() != nil, e.hasTwins(): // the other one may go
		wait = min(wait, e.o.Scan)
	default:
		wait = max(wait, e.o.Rarely)
	}
	return wait - rand.N(wait/10+1) // not all mirrors at once
}

func (e *Engine) hasTwins() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.twins
}

// takeChanges notes the changes that the system notified of.
func (e *Engine) takeChanges(watch *Watch) {
	paths, scan := watch.changed()
	if scan {
		e.next.full = e.o.Now()
		return
	}
	for _, path := range paths {
		for _, dir := range e.Touch(path) {
			if watch.add(dir) {
				watch.note(dir, false)
			}
		}
	}
}

// takeRescan reports whether everything is to be looked at soon.
func (e *Engine) takeRescan() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	rescan := e.rescan
	e.rescan = false
	return rescan
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
	if circuit, _ := e.o.Breaker.Circuit(); circuit != CircuitClosed {
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
	case errors.Is(err, tree.ErrNotRegular) && !e.ignored(path):
		e.work.refuse(path, err.Error())
		return nil
	case err != nil:
		return nil // the next scan knows more
	case !stamp.Absent():
		if !e.state.covers(path, stamp) {
			e.todo(path)
		}
		return nil
	}
	found := e.folder.Scan(path, 0, e.state.mirrored)
	if len(found.Dirs)+len(found.Unread) == 0 {
		e.work.vanished(path)
	}
	for file, stamp := range found.Files {
		if !e.state.covers(file, stamp) {
			e.todo(file)
		}
	}
	for at, reason := range found.Refused {
		if !e.ignored(at) {
			e.work.refuse(at, reason)
		}
	}
	for _, known := range e.state.below(path) {
		if _, there := found.Files[known]; !there && found.Covers(known) {
			e.todo(known)
		}
	}
	return found.Dirs
}

// dirsFound are the folders that the last look at everything found.
func (e *Engine) dirsFound() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.dirs
}
