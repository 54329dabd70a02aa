package commands

import (
	"context"
	"encoding/json"

	"github.com/aibridge/aibridge/protocol"
)

// A State is memory that commands read and that follows the writes of several
// processes. Its revisions count up with every change.
type State interface {
	// Revision is the one that this process has seen.
	Revision() uint64
	// CatchUp waits until this process has seen everything written before the call,
	// and reports whether anything was missing.
	CatchUp(ctx context.Context) (moved bool, err error)
}

// reach waits until this process has seen the revision that a request asks for.
func (r *Router) reach(c *Call) error {
	wanted := c.request.Metadata.MinRevision
	if wanted == 0 || r.opts.State == nil || r.opts.State.Revision() >= wanted {
		return nil
	}
	err := c.Park(c.ctx, func(ctx context.Context) error {
		_, err := r.opts.State.CatchUp(ctx)
		return err
	})
	if seen := r.opts.State.Revision(); err == nil && seen < wanted {
		err = protocol.InvalidParam("metadata.min_revision", "is none that the state has had").With("revision", seen)
	}
	return err
}

// revision is the one that this process has seen, 0 without a state.
func (r *Router) revision() uint64 {
	if r.opts.State == nil {
		return 0
	}
	return r.opts.State.Revision()
}

// again runs a read that found nothing at a revision once more, if this process had not
// seen everything written before: another process may have confirmed the record to the
// caller.
func (r *Router) again(ctx context.Context, c *Call, run invocation, at uint64, result json.RawMessage, err error) (json.RawMessage, error) {
	if r.opts.State == nil || c.command.Effect != Read || c.command.async || protocol.CodeOf(err) != protocol.NotFound {
		return result, err
	}
	_ = c.Park(ctx, func(ctx context.Context) error { // without it, the present knowledge has to do
		_, failed := r.opts.State.CatchUp(ctx)
		return failed
	})
	if r.revision() == at {
		return result, err
	}
	return within(ctx, r.opts.Extensions.Processors, c, run)
}
