package run

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// Recover has the runs go on that an earlier process left running. It is
// called once, when the tables are loaded and the bridge can run commands.
func (s *Service) Recover(ctx context.Context) {
	s.recovered.Store(s.opts.Now().UnixNano())
	for _, r := range s.opts.Runs.All() {
		if r.Phase != Running {
			continue
		}
		if _, err := os.Stat(s.folder(r.ID)); errors.Is(err, os.ErrNotExist) {
			continue // of another node
		}
		if err := s.resume(ctx, r); err != nil {
			s.opts.Log.Warn("a run cannot go on", "run", r.ID, "error", err)
		}
	}
	s.wg.Go(s.sweep)
}

// youth is for how long after a start devices may not be back yet.
const youth = 30 * time.Second

// young reports whether the bridge has just begun.
func (s *Service) young() bool {
	return s.opts.Now().Sub(time.Unix(0, s.recovered.Load())) < youth
}

// lostEvents is more than a run can have told before the bridge stopped, so
// that the numbers of its events still rise.
const lostEvents = 1 << 20

// resume has one run go on after a restart.
func (s *Service) resume(ctx context.Context, r *Record) error {
	l, err := s.reserve(r)
	if err != nil {
		return err
	}
	l.seq += lostEvents
	o, err := s.reopen(ctx, r)
	if err == nil && o.story.rest != nil {
		o.close()
	}
	switch {
	case err != nil:
		e := &engine{}
		s.settle(l, e.broken(l.ctx, err), r.Turns)
		return err
	case o.story.rest != nil: // and the bridge stopped before it knew
		s.settle(l, o.story.rest.stop(), len(o.story.turns))
		return nil
	}
	return s.launch(ctx, l, o, o.again(ctx))
}

// reopen opens a run for who started it, as far as that may go on with it now.
func (s *Service) reopen(ctx context.Context, r *Record) (*opened, error) {
	if _, err := s.owner(r); err != nil {
		return nil, err
	}
	o, err := s.open(ctx, r)
	if code := protocol.CodeOf(err); code == protocol.PermissionDenied || code == protocol.VFSPermission {
		err = &endedError{err}
	}
	return o, err
}

// again is how a run is taken up that broke off. A workflow has its documents
// for that, a conversation the words so far.
func (o *opened) again(ctx context.Context) word {
	w := word{intent: IntentResume, input: o.story.unheard(o.workspace.mode, o.workspace.node(ctx))}
	if o.workspace.mode != ModeRun {
		w.talk = o.story.conversation()
	}
	return w
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

// fresh is for how long the zip of a package is left alone, whatever refers to
// it.
const fresh = 24 * time.Hour

// tidy forgets the runs that are old, folders of runs that other bridges have
// forgotten, and the packages that no run needs any more.
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

// isOld reports whether a run has been at rest for long.
func (s *Service) isOld(r *Record) bool {
	return r.Phase != Running && s.opts.Now().Sub(r.Changed) > s.opts.Keep
}

// forget removes an old run, unless somebody has it go on just now.
func (s *Service) forget(old *Record) {
	l, err := s.reserve(old)
	if err != nil {
		return
	}
	defer s.release(l)
	r, revision, ok := s.opts.Runs.Get(old.ID)
	if !ok || !s.isOld(r) || s.opts.Runs.Delete(s.ctx, r.ID, revision) != nil {
		return
	}
	if err := os.RemoveAll(s.folder(r.ID)); err != nil {
		s.opts.Log.Warn("the folder of an old run cannot be removed", "run", r.ID, "error", err)
	}
}
