package app

import (
	"context"
	"time"

	"github.com/aibridge/aibridge/cluster"
	"github.com/aibridge/aibridge/cluster/estate"
	a2adoor "github.com/aibridge/aibridge/doors/a2a"
	"github.com/aibridge/aibridge/llm/approval"
	"github.com/aibridge/aibridge/llm/run"
)

// owner names this process in the records of its work, "" if no other process can
// take work over.
func (s *state) owner() string {
	if !s.Members.Shared() {
		return ""
	}
	return s.Members.Self().String()
}

// node names this bridge among those of its cluster, "" if it works alone.
func (s *state) node() string {
	if !s.Members.Shared() {
		return ""
	}
	return s.config.ID
}

// ended reports whether the owner of a record is no member of the cluster, as
// far as this bridge knows.
func (s *state) ended(owner string) bool {
	n, err := cluster.ParseNode(owner)
	return err != nil || !s.Members.Alive(n) // without an owner it is an earlier process's
}

// carrier is the process that goes on with an owner's work: the owner itself, or
// once that has ended the oldest one. ok is false if it is this one.
func (s *state) carrier(owner string) (n cluster.Node, ok bool) {
	if !s.Members.Shared() {
		return n, false
	}
	n, err := cluster.ParseNode(owner)
	if err != nil || !s.Members.Alive(n) {
		all := s.Members.Members()
		if len(all) == 0 {
			return n, false
		}
		n = all[0].Node
	}
	return n, n != s.Members.Self()
}

// orphaned returns a function that reports whether an owner has ended, of those
// that records had named before the call.
func (s *state) orphaned(ctx context.Context) (func(owner string) bool, error) {
	return s.ended, s.Members.Catchup(ctx)
}

// inherited is orphaned on the oldest bridge, which takes over the work of ended
// ones, so that nothing is taken over twice. On the others it reports that no owner
// has ended.
func (s *state) inherited(ctx context.Context) (func(owner string) bool, error) {
	if !s.Members.Oldest() {
		return func(string) bool { return false }, nil
	}
	return s.orphaned(ctx)
}

// once is a part that runs on one bridge of the cluster: on the oldest, once it
// is that.
func (s *state) once(part func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		select {
		case <-s.Members.Elected():
			return part(ctx)
		case <-ctx.Done():
			return nil
		}
	}
}

// heir returns a function that reports whether this bridge takes over a thing of a
// bridge that has ended: of the bridges that take relayed work, rendezvous hashing
// chooses one for each thing; where one bridge works at a time it is that one.
func (s *state) heir(ctx context.Context) (func(node, thing string) bool, error) {
	if err := s.Members.Catchup(ctx); err != nil {
		return nil, err
	}
	heirs, self := s.heirs(), s.Members.Self().ID
	return func(node, thing string) bool { return s.ended(node) && estate.Adopter(thing, heirs) == self }, nil
}

// heirs are the bridges that can take over the work of others, this one included.
func (s *state) heirs() (ids []string) {
	self := s.Members.Self()
	if s.Members.Working() != cluster.All {
		return []string{self.ID}
	}
	for _, m := range s.Members.Members() {
		if takesRelayed(m) && m.State != cluster.Draining || m.Node == self {
			ids = append(ids, m.ID)
		}
	}
	return ids
}

// orphansEvery is the interval at which the oldest bridge looks for work of bridges that
// ended, beside when one does: a record may have been on its way.
const orphansEvery = 15 * time.Second

// takeOver takes over the work of bridges that end while this one is the oldest,
// until ctx ends.
func takeOver(ctx context.Context, s *state, d *domains) error {
	return afterEach(ctx, s, func() {
		if err := d.tasks.FailOrphans(ctx); err != nil && ctx.Err() == nil {
			s.log.Warn("tasks of bridges that ended are not failed yet", "error", err)
		}
		if err := d.groups.TakeOver(ctx); err != nil && ctx.Err() == nil {
			s.log.Warn("dispatches of bridges that ended do not go on yet", "error", err)
		}
		if err := d.rollouts.TakeOver(ctx); err != nil && ctx.Err() == nil {
			s.log.Warn("rollouts of bridges that ended do not go on yet", "error", err)
		}
	})
}

// takeOverRuns goes on with the runs of workflows that this bridge inherits, until
// ctx ends.
func takeOverRuns(ctx context.Context, s *state, runs *run.Service) error {
	return afterEach(ctx, s, func() {
		if err := runs.TakeOver(ctx); err != nil && ctx.Err() == nil {
			s.log.Warn("runs of bridges that ended do not go on yet", "error", err)
		}
	})
}

// retellWebhooks has the undelivered notifications of ended bridges sent to
// webhooks, until ctx ends.
func retellWebhooks(ctx context.Context, s *state, approvals *approval.Service) error {
	return afterEach(ctx, s, func() {
		if err := approvals.Retell(ctx); err != nil && ctx.Err() == nil {
			s.log.Warn("webhooks are not told yet what bridges that ended were to tell", "error", err)
		}
	})
}

// retellPushes has this bridge send the push notifications of A2A that bridges which
// ended were to send, until ctx ends.
func retellPushes(ctx context.Context, s *state, door *a2adoor.Door) error {
	return afterEach(ctx, s, func() {
		if err := door.TakeOver(ctx); err != nil && ctx.Err() == nil {
			s.log.Warn("push notifications of bridges that ended are not sent yet", "error", err)
		}
	})
}

// afterEach calls do at once, after each end of a bridge, and now and then, until ctx
// ends.
func afterEach(ctx context.Context, s *state, do func()) error {
	left := make(chan struct{}, 1)
	defer s.Members.Watch(func(c cluster.Change) {
		if c.Kind == cluster.Departed || c.Kind == cluster.Declared {
			select {
			case left <- struct{}{}:
			default: // it looks at all of them
			}
		}
	})()
	tick := time.NewTicker(orphansEvery)
	defer tick.Stop()
	for {
		do()
		select {
		case <-left:
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}
