package mirror

import (
	"cmp"
	"errors"
	"maps"
	"slices"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/vfs/mirror/tree"
)

// A Standing is the state of a file or of a whole mirror.
type Standing string

// The standings (docs/sync.md#commands).
const (
	Synced     Standing = "synced"
	Pending    Standing = "pending"
	Syncing    Standing = "syncing"
	Conflicted Standing = "conflict" // resolved; the copy that lost is kept
	Failed     Standing = "failed"   // is tried again, or cannot be mirrored
)

// A Status describes the state of a mirror.
type Status struct {
	Standing  Standing
	Pending   int   // files to be looked at or transferred
	Failed    int   // of them, or besides, those that failed or are not mirrored at all
	Conflicts int   // copies kept of resolved conflicts
	LastSync  int64 // Unix milliseconds; 0 for never
	Syncs     int64 // rounds over everything that succeeded
	Circuit   Circuit
	Trouble   string // why the circuit is open
	Paused    bool   // nothing is carried over
	Free      int64  // bytes that may be written to the folder's disk; -1 if that is unknown
}

// Status returns the state of the mirror.
func (e *Engine) Status() Status {
	circuit, trouble := e.o.Breaker.Standing()
	e.mu.Lock()
	busy, fresh := e.rounds > 0, !e.everSeen || !e.scanned
	e.mu.Unlock()
	s := Status{Circuit: circuit, Trouble: trouble, Paused: e.Paused(), Free: freeSpace(e.folder.Dir())}
	e.state.mu.Lock()
	s.LastSync, s.Syncs, s.Conflicts = e.state.meta.lastSync, e.state.meta.syncs, len(e.state.losers)
	orders := len(e.state.orders)
	e.state.mu.Unlock()
	pending, failed, refused := e.work.counts()
	s.Pending, s.Failed = max(pending, orders), failed+refused
	switch {
	case s.Pending > failed && busy && circuit == CircuitClosed:
		s.Standing = Syncing
	case s.Pending > failed, fresh:
		s.Standing = Pending
	case failed > 0:
		s.Standing = Failed
	default:
		s.Standing = Synced
	}
	return s
}

// publicText is the part of an error that callers may learn.
func publicText(err error) string {
	if err == nil {
		return ""
	}
	if errors.Is(err, errTooSlow) || errors.Is(err, errCircuitOpen) {
		return err.Error()
	}
	for _, known := range []error{errUnsteady, tree.ErrChanged, tree.ErrNotRegular} {
		if errors.Is(err, known) {
			return known.Error()
		}
	}
	return protocol.AsError(localError(err)).Message
}

// A FileStatus describes the state of one file.
type FileStatus struct {
	Path     string
	Standing Standing
	SHA256   Sum   // agreed on last; zero if there is none
	Size     int64 // of that
	Version  uint64
	Reason   string // why it failed or is refused
	Kept     string // where the copy is that lost a conflict
}

// Files lists files by path, from after the cursor on, at most limit of them.
func (e *Engine) Files(cursor string, limit int) (list []FileStatus, next string) {
	return e.FilesIn("", cursor, limit)
}

// FilesIn lists only the files in a state; "" is any.
func (e *Engine) FilesIn(standing Standing, cursor string, limit int) (list []FileStatus, next string) {
	all := e.fileMap("")
	paths := make([]string, 0, len(all))
	for path, f := range all {
		if path > cursor && (standing == "" || f.Standing == standing) {
			paths = append(paths, path)
		}
	}
	slices.SortFunc(paths, cmp.Compare[string])
	if len(paths) > limit {
		paths = paths[:limit]
		next = paths[limit-1]
	}
	list = make([]FileStatus, len(paths))
	for i, path := range paths {
		list[i] = all[path]
	}
	return list, next
}

// File returns the state of one file.
func (e *Engine) File(path string) (FileStatus, bool) {
	f, ok := e.fileMap(path)[path]
	return f, ok
}

// only is the part of a map at a path, or all of it if that is "".
func only[V any](m map[string]V, path string) map[string]V {
	if path == "" {
		return m
	}
	if v, ok := m[path]; ok {
		return map[string]V{path: v}
	}
	return nil
}

// fileMap holds the state of the file at a path, or of all files if that is "".
func (e *Engine) fileMap(at string) map[string]FileStatus {
	all := make(map[string]FileStatus)
	e.state.mu.Lock()
	for path, known := range only(e.state.entries, at) {
		if known.holds() {
			all[path] = FileStatus{Path: path, Standing: Synced, SHA256: known.sum, Size: known.size, Version: known.version}
		}
	}
	for _, l := range e.state.losers {
		if at != "" && l.Path != at {
			continue
		}
		f := all[l.Path]
		f.Path, f.Standing, f.Kept = l.Path, Conflicted, l.Kept
		all[l.Path] = f
	}
	change := func(path string, standing Standing, reason string) {
		f := all[path]
		f.Path, f.Standing, f.Reason = path, standing, reason
		all[path] = f
	}
	for path := range only(e.state.orders, at) {
		change(path, Pending, "")
	}
	e.state.mu.Unlock()

	e.work.mu.Lock()
	defer e.work.mu.Unlock()
	for path := range only(e.work.dirty, at) {
		change(path, Pending, "")
	}
	for path, f := range only(e.work.failed, at) {
		change(path, Failed, publicText(f.err))
	}
	for path, r := range only(e.work.refused, at) {
		change(path, Failed, r.reason)
	}
	maps.DeleteFunc(all, func(path string, _ FileStatus) bool { return e.ignored(path) })
	return all
}

func (b *backlog) counts() (pending, failed, refused int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.dirty), len(b.failed), len(b.refused)
}

func (b *backlog) size() int {
	pending, _, _ := b.counts()
	return pending
}
