package run

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// Recover resumes the runs that an earlier process left running. Call it once, when the
// tables are loaded and the bridge can run commands.
func (s *Service) Recover(ctx context.Context) {
	s.recovered.Store(s.opts.Now().UnixNano())
	if s.opts.Logs != nil {
		if err := s.TakeOver(ctx); err != nil {
			s.opts.Log.Warn("runs of bridges that ended do not go on yet", "error", err)
		}
		s.beginSweeping()
		return
	}
	s.unpack(ctx)
	for _, r := range s.opts.Runs.All() {
		if r.Phase != Running || !s.hasRun(r) {
			continue
		}
		if err := s.resume(ctx, r.ID); err != nil {
			s.opts.Log.Warn("a run cannot go on", "run", r.ID, "error", err)
		}
	}
	s.lookAtAll()
	s.beginSweeping()
}

// TakeOver resumes the runs of ended processes that this one inherits, and runs of this
// process that it could not open, or whose end it could not store, during an outage of
// the store. It is for bridges with logs. It converts runs in folders on this disk to
// logs first.
func (s *Service) TakeOver(ctx context.Context) error {
	if err := s.move(ctx); err != nil {
		return err
	}
	var orphans []*Record
	for _, r := range s.opts.Runs.All() {
		if r.Phase == Running && s.find(r.ID) == nil && (r.Node != "" || s.isMoved(r.ID)) {
			orphans = append(orphans, r)
		}
	}
	heir, err := s.opts.Heir(ctx)
	if err != nil {
		return err
	}
	for _, r := range orphans {
		if r.Node != s.opts.Node && r.Node != "" && !heir(r.Node, r.ID) {
			continue
		}
		if err := s.resume(ctx, r.ID); err != nil {
			s.opts.Log.Warn("a run is not resumed yet", "run", r.ID, "error", err)
		}
	}
	s.lookAtAll()
	return nil
}

// youth is the time after a start within which devices may not have reconnected yet.
const youth = 30 * time.Second

// young reports whether the bridge has just started.
func (s *Service) young() bool {
	return s.opts.Now().Sub(time.Unix(0, s.recovered.Load())) < youth
}

// lostEvents is more than the number of events that a run can have published since its
// last record, so that the numbers of its events still rise.
const lostEvents = 1 << 20

// resume resumes one run that an earlier process left running. The run belongs to this
// process once its record names it.
func (s *Service) resume(ctx context.Context, id string) error {
	held, revision, ok := s.opts.Runs.Get(id)
	if !ok || held.Phase != Running {
		return nil
	}
	l, err := s.reserve(held, revision)
	if err != nil {
		return err
	}
	l.seq += lostEvents
	r := *held
	if r.Node != s.opts.Node || s.opts.Logs != nil { // the table's view of the owner may be old
		r.Node = s.opts.Node
		if err := s.store(ctx, l, &r); err != nil {
			s.release(l)
			if errors.Is(err, errElsewhere) {
				return nil
			}
			return err
		}
	}
	o, err := s.reopen(ctx, &r, l.revision)
	if err == nil && o.story.rest != nil {
		s.close(l, o)
	}
	switch {
	case errors.Is(err, errElsewhere), later(err):
		s.release(l)
		return err
	case err != nil:
		e := &engine{}
		s.settle(l, e.broken(l.ctx, err), r.Turns)
		return err
	case o.story.rest != nil: // the bridge stopped before it had stored the rest in the record
		s.settle(l, o.story.rest.stop(), len(o.story.turns))
		return nil
	}
	if o.story.wait != nil {
		return s.resumeWaiting(l, o)
	}
	return s.launch(ctx, l, o, o.again(ctx))
}

// later reports whether an error of opening a run is transient.
func later(err error) bool {
	switch protocol.CodeOf(err) {
	case protocol.StoreUnavailable, protocol.VFSUnavailable, protocol.ShuttingDown:
		return true
	}
	return false
}

// resumeWaiting resumes a run at a call that waits for an approval or uses one. The
// bridge may have stopped before it had opened the approval.
func (s *Service) resumeWaiting(l *live, o *opened) error {
	r, wait := *l.now(), o.story.wait
	if _, settled := s.opts.Approvals.Known(wait.Asks.ID); !settled {
		s.close(l, o)
		s.settle(l, wait.stop(), len(o.story.turns))
		return nil
	}
	r.Waits = wait.stop().waits.waits()
	l.mu.Lock()
	l.record = &r
	l.mu.Unlock()
	go s.carry(l, s.engine(l, o), o, o.decided())
	return nil
}

// decided is the word of a settled approval.
func (o *opened) decided() word {
	return word{wait: o.story.wait, talk: o.story.talk, last: o.story.turns[len(o.story.turns)-1]}
}

// reopen opens a run for its owner, and fails if the owner may not continue it.
func (s *Service) reopen(ctx context.Context, r *Record, claim uint64) (*opened, error) {
	if _, err := s.owner(r); err != nil {
		return nil, err
	}
	o, err := s.open(ctx, r, claim)
	if code := protocol.CodeOf(err); code == protocol.PermissionDenied || code == protocol.VFSPermission {
		err = &endedError{err}
	}
	return o, err
}

// again is the word that resumes an interrupted run: a workflow from its documents, a
// conversation from its messages so far.
func (o *opened) again(ctx context.Context) word {
	w := word{intent: IntentResume, input: o.story.unheard(o.workspace.mode, o.workspace.node(ctx))}
	if o.workspace.mode != ModeRun {
		w.talk = o.story.conversation()
	}
	return w
}

// beginSweeping starts the sweep and the care of waiting runs, unless the service is
// closed.
func (s *Service) beginSweeping() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.wg.Go(s.sweep)
		s.wg.Go(s.lookAfterWaiting)
	}
}

// sweep removes runs that have been at rest for long.
func (s *Service) sweep() {
	ticker := time.NewTicker(time.Hour)
	defer ticker.Stop()
	for {
		s.tidy()
		select {
		case <-ticker.C:
		case <-s.ctx.Done():
			return
		}
	}
}

// fresh is the time for which a new zip of a package stays, even without a reference.
const fresh = 24 * time.Hour

// tidy removes old runs, folders of runs that other bridges have removed, and packages
// without a reference.
func (s *Service) tidy() {
	for _, r := range s.opts.Runs.All() {
		if s.isOld(r) {
			s.forget(r)
		}
	}
	s.removeOrphans()
	zips, err := s.library.before(s.opts.Now().Add(-fresh))
	if err != nil {
		s.opts.Log.Warn("the zips of packages cannot be listed", "error", err)
	}
	s.prune(zips)
}

// Sweep removes packages without a reference, and the blobs of removed runs, from the
// shared store, every hour until ctx ends. One bridge of a cluster runs it.
func (s *Service) Sweep(ctx context.Context) error {
	if s.opts.Blobs == nil {
		return nil
	}
	ticker := time.NewTicker(time.Hour)
	defer ticker.Stop()
	suspects := make(map[string]bool)
	for {
		var err error
		if suspects, err = s.sweepBlobs(ctx, suspects); err != nil && ctx.Err() == nil {
			s.opts.Log.Warn("blobs without a reference are not removed yet", "error", err)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// sweepBlobs removes the suspects, blobs without a reference in the previous round,
// that still have none, and returns the suspects of this round.
func (s *Service) sweepBlobs(ctx context.Context, suspects map[string]bool) (map[string]bool, error) {
	before := s.opts.Now().Add(-fresh)
	var old []string
	err := s.opts.Blobs.All(ctx, func(name string, since time.Time) bool {
		if since.Before(before) {
			old = append(old, name)
		}
		return ctx.Err() == nil
	})
	if err != nil || s.opts.Current != nil && !s.opts.Current() {
		return suspects, err
	}
	unneeded := make(map[string]bool)
	needed := s.referredTo()
	for _, name := range old {
		if s.needsBlob(name, needed) {
			continue
		}
		if !suspects[name] {
			unneeded[name] = true // a run may be about to refer to it
			continue
		}
		if err := s.removeBlob(ctx, name); err != nil {
			return unneeded, err
		}
	}
	if err := s.sweepLogs(ctx, suspects, unneeded); err != nil {
		return unneeded, err
	}
	_, err = s.opts.Blobs.Sweep(ctx, before)
	return unneeded, err
}

// sweepLogs removes the logs of runs without a record since the previous round. A new
// run has a log before it has a record.
func (s *Service) sweepLogs(ctx context.Context, suspects, unneeded map[string]bool) error {
	all, err := s.opts.Logs.All(ctx)
	for _, id := range all {
		name := "log/" + id
		switch _, _, known := s.opts.Runs.Get(id); {
		case known || s.find(id) != nil:
		case suspects[name]:
			if err := s.opts.Logs.Remove(ctx, id); err != nil {
				return err
			}
		default:
			unneeded[name] = true
		}
	}
	return err
}

// needsBlob reports whether a blob is a package with a reference, or a file of a run
// with a record.
func (s *Service) needsBlob(name string, packages map[string]bool) bool {
	if sum, ok := strings.CutPrefix(name, packageBlobs); ok {
		return packages[sum]
	}
	id, _, _ := strings.Cut(strings.TrimPrefix(name, runBlobs), "/")
	_, _, ok := s.opts.Runs.Get(id)
	return ok || s.find(id) != nil
}

// removeBlob removes a blob without a reference. If it gets one meanwhile, it is stored
// again.
func (s *Service) removeBlob(ctx context.Context, name string) error {
	data, err := s.opts.Blobs.Get(ctx, name)
	if err != nil {
		return err
	}
	if err := s.opts.Blobs.Remove(ctx, name); err != nil {
		return err
	}
	if s.needsBlob(name, s.referredTo()) {
		return s.opts.Blobs.Put(ctx, name, data)
	}
	return nil
}

// isOld reports whether a run has been at rest for long.
func (s *Service) isOld(r *Record) bool {
	return r.Phase != Running && r.Phase != WaitingApproval && s.opts.Now().Sub(r.Changed) > s.opts.Keep
}

// forget removes an old run, unless it is being resumed.
func (s *Service) forget(old *Record) {
	l, err := s.reserve(old, 0)
	if err != nil {
		return
	}
	defer s.release(l)
	r, revision, ok := s.opts.Runs.Get(old.ID)
	if !ok || !s.isOld(r) || s.opts.Runs.Delete(s.ctx, r.ID, revision) != nil {
		return
	}
	if err := s.shelf.forget(s.ctx, r.ID); err != nil {
		s.opts.Log.Warn("the files of an old run are not removed yet", "run", r.ID, "error", err)
	}
}
