package mirror

import "time"

// A Rest is a closed engine's knowledge beyond its journal. With it the next
// engine of the folder goes on where that one ended, instead of looking at
// everything first. So an engine with nothing to do need not stay open: an idle
// mirror costs only its Rest.
type Rest struct {
	next     schedule
	work     *backlog    // nil for an empty one
	chunks   *chunkCache // the same
	everSeen bool
	returned bool
	scanned  bool
	revision string
	listed   time.Time
}

// Revision is the VFS's when its files were listed last, "" if they are to be
// listed anew.
func (r *Rest) Revision() string {
	if !r.everSeen || r.returned {
		return ""
	}
	return r.revision
}

// Revision is the VFS's when its files were listed last, "" if they are to be
// listed anew.
func (e *Engine) Revision() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.everSeen || e.returned {
		return ""
	}
	return e.revision
}

// Suspect has the next engine list the VFS's files: they may have changed, or
// it was away.
func (r *Rest) Suspect() { r.returned = true }

// Waits reports whether there is something to do as soon as the VFS is there.
func (r *Rest) Waits() bool { return r.work != nil }

// Rest closes the engine and returns its knowledge.
func (e *Engine) Rest() (*Rest, error) {
	e.turn.Lock()
	e.mu.Lock()
	r := &Rest{next: e.next, everSeen: e.everSeen, returned: e.returned, scanned: e.scanned, revision: e.revision, listed: e.listed}
	if e.rescan {
		r.next.full = e.o.Now()
	}
	e.mu.Unlock()
	e.turn.Unlock()
	if !e.work.empty() {
		r.work = e.work
	}
	if !e.chunks.empty() {
		r.chunks = e.chunks
	}
	return r, e.Close()
}

// resume goes on where another engine ended.
func (e *Engine) resume(r *Rest) {
	if r == nil {
		e.next.full = e.o.Now()
		return
	}
	e.next, e.everSeen, e.returned, e.scanned, e.revision, e.listed = r.next, r.everSeen, r.returned, r.scanned, r.revision, r.listed
	if r.work != nil {
		e.work = r.work
	}
	if r.chunks != nil {
		e.chunks = r.chunks
	}
}

// Suspect has the engine list the VFS's files: they may have changed.
func (e *Engine) Suspect() {
	e.suspect()
	e.Wake()
}

func (e *Engine) suspect() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.returned = true
}
