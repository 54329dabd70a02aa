package mirror

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/vfs/mirror/tree"
)

// A scope is the part of both ends that a round scans, besides the paths noted with
// [Engine.Touch], failed paths that are due again, and orders that wait for the
// VFS.
type scope struct {
	folder bool // everything in the folder
	remote bool // everything in the VFS
}

// Sync looks at everything at both ends and makes them the same. Errors of
// single files are in the [Status]; the error is why nothing could be done.
func (e *Engine) Sync(ctx context.Context) error {
	return e.round(ctx, scope{folder: true, remote: true})
}

// SyncPath makes both ends the same at one path.
func (e *Engine) SyncPath(ctx context.Context, path string) error {
	if reason := tree.CheckPath(path); reason != "" {
		return protocol.InvalidParam("path", reason)
	}
	if e.ignored(path) {
		return errIgnored(path)
	}
	if e.Paused() {
		e.Touch(path)
		return errPaused
	}
	if err := e.checkInstance(ctx); err != nil {
		e.work.add(path)
		return err
	}
	moment := e.state.now()
	r, err := e.statRemote(ctx, path)
	if err != nil {
		e.work.add(path)
		return err
	}
	return e.report(ctx, path, e.reconcile(ctx, path, hint{remote: r, moment: moment, seen: true}))
}

// round does one round of work.
func (e *Engine) round(ctx context.Context, s scope) error {
	e.turn.Lock()
	defer e.turn.Unlock()
	began := time.Now()
	e.begin()
	defer e.end()
	defer func() { e.o.Metrics.rounds.Observe(time.Since(began).Seconds()) }()

	var scanErr error
	if e.readIgnore() {
		s = scope{folder: true, remote: true}
		e.suspect()
	}
	if s.folder {
		scanErr = e.scan(ctx)
	}
	if e.Paused() {
		return errors.Join(errPaused, scanErr)
	}
	var listed *listing
	if err := e.checkInstance(ctx); err != nil {
		return errors.Join(err, scanErr)
	}
	if s.remote && !e.sameThere(ctx) {
		var err error
		if listed, err = e.list(ctx); err != nil {
			return err
		}
		if err := e.compare(listed); err != nil {
			return err
		}
	}
	if s.remote {
		for _, path := range e.state.unconfirmed() {
			e.work.add(path)
		}
	}
	if err := e.replay(ctx); err != nil {
		return err
	}
	due, _ := e.work.due(e.o.Now())
	if slices.Contains(due, e.o.Ignore) { // others may be ignored then
		if err := e.report(ctx, e.o.Ignore, e.apply(ctx, e.o.Ignore, listed.hint(e.o.Ignore))); unavailable(err) {
			return err
		}
		if e.readIgnore() {
			e.scanAgain()
		}
		due, _ = e.work.due(e.o.Now())
	}
	// Deletions of the VFS come last: another file may have the content now.
	come, gone := listed.split(due)
	err := e.carryOut(ctx, come, listed)
	if err == nil {
		err = e.carryOut(ctx, gone, listed)
	}
	if err == nil {
		err = scanErr
	}
	return errors.Join(err, e.finish(s, err == nil))
}

func (e *Engine) begin() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.rounds++
	e.moved = 0
}

func (e *Engine) end() {
	e.mu.Lock()
	e.rounds--
	moved := e.moved
	e.mu.Unlock()
	e.o.Metrics.pending.Set(float64(e.work.size()))
	if moved > 0 {
		e.o.OnRound(e.Status())
	}
}

// finish notes that a round is over.
func (e *Engine) finish(s scope, whole bool) error {
	if s.remote && whole {
		err := e.state.update(func(m *meta) {
			m.lastSync = e.o.Now().UnixMilli()
			m.syncs++
		})
		if err != nil {
			return err
		}
	}
	if s.folder && whole {
		if err := e.trimVersions(); err != nil {
			e.o.Log.Warn("kept copies cannot be looked through", "error", err)
		}
	}
	if err := e.state.compactIfWorth(); err != nil {
		return err
	}
	return e.state.sync()
}

// scan notes the changes in the folder since both ends agreed.
func (e *Engine) scan(ctx context.Context) error {
	e.state.mu.Lock()
	room := len(e.state.entries)
	e.state.mu.Unlock()
	found := e.folder.Scan(".", room, e.state.mirrored)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var dirty, expired []string
	e.state.mu.Lock()
	for path, stamp := range found.Files {
		if !e.state.entries[path].covers(stamp) {
			dirty = append(dirty, path)
		}
	}
	old := e.o.Now().Add(-e.o.TombstoneLife).UnixNano()
	for path, known := range e.state.entries {
		if _, there := found.Files[path]; there {
			continue
		}
		switch {
		case known.holds() && found.Covers(path):
			dirty = append(dirty, path)
		case !known.holds() && known.at < old:
			expired = append(expired, path)
		}
	}
	e.state.mu.Unlock()
	maps.DeleteFunc(found.Refused, func(path, _ string) bool { return e.ignored(path) })
	e.work.refuseAll(found.Refused)
	for _, path := range dirty {
		e.todo(path)
	}
	for _, path := range expired {
		if err := e.state.remove(path); err != nil {
			return err
		}
	}
	e.mu.Lock()
	e.scanned, e.dirs, e.twins = true, found.Dirs, found.Twins
	e.mu.Unlock()
	if len(found.Unread) > 0 {
		return errors.New("some folders cannot be read")
	}
	return nil
}

// A listing is everything the VFS has, at about the moment.
type listing struct {
	files  map[string]File
	moment uint64 // of the state when it was begun
}

func (l *listing) hint(path string) hint {
	if l == nil {
		return hint{}
	}
	h := hint{moment: l.moment, seen: true, remote: remote{File: File{Path: path}}}
	if f, ok := l.files[path]; ok {
		h.remote = remoteOf(f)
	}
	return h
}

// split takes out the paths that the VFS has deleted.
func (l *listing) split(paths []string) (come, gone []string) {
	if l == nil {
		return paths, nil
	}
	for _, path := range paths {
		if l.files[path].Deleted {
			gone = append(gone, path)
		} else {
			come = append(come, path)
		}
	}
	return come, gone
}

// pageSize is the number of files that are asked for at once.
const pageSize = 1000

// listAnyway is the interval after which all files of a VFS are listed although it
// says that nothing has changed.
const listAnyway = 10 * time.Minute

// sameThere reports whether the VFS says that nothing has changed since its
// files were listed.
func (e *Engine) sameThere(ctx context.Context) bool {
	e.mu.Lock()
	since := e.o.Now().Sub(e.listed)
	before := e.revision
	worth := e.everSeen && !e.returned && before != "" && since >= 0 && since < listAnyway
	e.mu.Unlock()
	if !worth {
		return false
	}
	revision, err := e.remoteRevision(ctx)
	return err == nil && revision == before
}

// knowsVFS reports whether the VFS's files have been listed.
func (e *Engine) knowsVFS() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.everSeen
}

// list asks the VFS for everything.
func (e *Engine) list(ctx context.Context) (*listing, error) {
	revision, err := e.remoteRevision(ctx)
	if err != nil {
		return nil, err
	}
	l := &listing{files: make(map[string]File), moment: e.state.now()}
	cursor, refused := "", make(map[string]string)
	for {
		var page []File
		var next string
		err := e.o.Breaker.ask(ctx, func(ctx context.Context) (err error) {
			page, next, err = e.o.Remote.List(ctx, cursor, pageSize)
			if err == nil && next != "" && next == cursor {
				err = protocol.Errorf(protocol.VFSUnavailable, "the VFS lists the same again and again")
			}
			return err
		})
		if err != nil {
			return nil, err
		}
		for _, f := range page {
			if reason := tree.CheckPath(f.Path); reason != "" {
				refused[clipText(f.Path)] = reason
			} else if sane(f, f.Path) == nil {
				l.files[f.Path] = f
			}
		}
		if cursor = next; cursor == "" {
			break
		}
	}
	for path, reason := range refused {
		e.work.refuse(path, reason)
	}
	e.mu.Lock()
	e.everSeen, e.returned, e.revision, e.listed = true, false, revision, e.o.Now()
	e.mu.Unlock()
	return l, nil
}

// clipText keeps names that are no paths from filling the memory.
func clipText(s string) string { return strings.ToValidUTF8(s[:min(len(s), 256)], "?") }

// remoteRevision asks whether anything has changed, "" if the VFS cannot tell.
func (e *Engine) remoteRevision(ctx context.Context) (revision string, err error) {
	r, ok := e.o.Remote.(Reviser)
	if !ok {
		return "", nil
	}
	err = e.o.Breaker.ask(ctx, func(ctx context.Context) (err error) {
		revision, err = r.Revision(ctx)
		return err
	})
	return revision, err
}

// checkInstance finds out whether the VFS is still the one that versions were
// agreed on with.
func (e *Engine) checkInstance(ctx context.Context) error {
	i, ok := e.o.Remote.(Instancer)
	if !ok {
		return nil
	}
	var instance string
	err := e.o.Breaker.ask(ctx, func(ctx context.Context) (err error) {
		instance, err = i.Instance(ctx)
		return err
	})
	if err != nil {
		return err
	}
	e.state.mu.Lock()
	before := e.state.meta.instance
	e.state.mu.Unlock()
	if before == instance {
		return nil
	}
	if before != "" {
		e.o.Log.Warn("the VFS is another one than before: all files are compared with it anew")
		e.mu.Lock()
		e.revision = ""
		e.mu.Unlock()
		if err := e.state.distrust(); err != nil {
			return err
		}
	}
	return e.state.update(func(m *meta) { m.instance = instance })
}

// compare notes the changes in the VFS since both ends agreed.
func (e *Engine) compare(l *listing) error {
	if e.hasLost(l) {
		e.o.Log.Warn("the VFS has lost files: all files are compared with it anew")
		if err := e.state.distrust(); err != nil {
			return err
		}
	}
	var dirty []string
	e.state.mu.Lock()
	for path, f := range l.files {
		known := e.state.entries[path]
		switch {
		case known == nil || !known.known:
			if !f.Deleted {
				dirty = append(dirty, path)
			}
		case known.version != f.Version || known.deleted != f.Deleted || contradicts(known.base, f):
			dirty = append(dirty, path)
		}
	}
	for path, known := range e.state.entries {
		if _, listed := l.files[path]; !listed && known.known {
			dirty = append(dirty, path)
		}
	}
	e.state.mu.Unlock()
	for _, path := range dirty {
		e.todo(path)
	}
	return nil
}

// hasLost reports whether the VFS lists less than was agreed on. Then its other
// version numbers may stand for other contents too.
func (e *Engine) hasLost(l *listing) bool {
	e.state.mu.Lock()
	defer e.state.mu.Unlock()
	for path, known := range e.state.entries {
		if !known.holds() || known.version == 0 || known.touched > l.moment {
			continue
		}
		if f := l.files[path]; f.Version < known.version || contradicts(known.base, f) {
			return true
		}
	}
	return false
}

// carryOut applies paths, several at once, and ends early only if the VFS is
// gone.
func (e *Engine) carryOut(ctx context.Context, paths []string, l *listing) error {
	if len(paths) == 0 {
		return nil
	}
	slices.Sort(paths)
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	batches := e.newBatcher(ctx)
	feed := make(chan string)
	var workers sync.WaitGroup
	for range min(e.o.Workers, len(paths)) {
		workers.Go(func() {
			for path := range feed {
				taken, seen := batches.take(path, l.hint(path))
				if taken {
					continue
				}
				err := e.apply(ctx, path, seen)
				if obstructed(err) {
					batches.block(path)
					continue
				}
				if err := e.report(ctx, path, err); unavailable(err) {
					stop(err)
				}
			}
		})
	}
	for _, path := range paths {
		select {
		case feed <- path:
			continue
		case <-ctx.Done():
		}
		break
	}
	close(feed)
	workers.Wait()
	batches.flush()
	if err := batches.err(); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return e.carryOutBlocked(ctx, batches.blocked)
}

// carryOutBlocked applies the paths that others were in the way of, now that
// most of those are applied, one by one.
func (e *Engine) carryOutBlocked(ctx context.Context, paths []string) error {
	slices.Sort(paths)
	for _, path := range paths {
		moment := e.state.now()
		r, err := e.statRemote(ctx, path)
		if err == nil {
			err = e.reconcile(ctx, path, hint{remote: r, moment: moment, seen: true})
		}
		if err := e.report(ctx, path, err); unavailable(err) || ctx.Err() != nil {
			return err
		}
	}
	return nil
}

// refusedHere reports whether a file is not mirrored because of its kind or its
// name.
func refusedHere(err error) bool {
	return errors.Is(err, tree.ErrNotRegular) || protocol.CodeOf(err) == protocol.AlreadyExists
}

// report notes the outcome for a path and returns the error.
func (e *Engine) report(ctx context.Context, path string, err error) error {
	switch {
	case err == nil:
		e.work.done(path, e.state.get(path).holds())
	case unavailable(err) || ctx.Err() != nil:
		e.work.add(path) // not the file's fault
	case errors.Is(err, tree.ErrNotRegular):
		e.work.refuse(path, tree.ErrNotRegular.Error())
	case refusedHere(err):
		e.work.refuse(path, protocol.AsError(err).Message)
	case errors.Is(err, errUnsteady), errors.Is(err, tree.ErrChanged):
		e.work.fail(path, err, e.o.Now())
	default:
		e.o.Metrics.failures.Inc()
		e.o.Log.Warn("file not synced, will be tried again", "path", path, "error", err)
		e.work.fail(path, err, e.o.Now())
	}
	return err
}
