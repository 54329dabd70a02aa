package dispatch

import (
	"context"

	"github.com/aibridge/aibridge/protocol"
)

// Wait returns when a dispatch has ended. The error is 3001 for an unknown
// dispatch, and the cause of ctx if that ends first.
func (e *Engine) Wait(ctx context.Context, id protocol.TaskID) error {
	r := e.find(id)
	if r == nil {
		if _, known := e.Get(id); !known {
			return protocol.Errorf(protocol.NotFound, "there is no task %q", string(id)).With("task_id", string(id))
		}
		return nil // it has ended, and no member is pending any more
	}
	return r.wait(ctx)
}

// wait returns when the run has ended, the bridge stops, or ctx ends. A run that
// has ended is let go of right afterwards, maybe before a waiter looks: its end is
// what counts then.
func (r *run) wait(ctx context.Context) error {
	select {
	case <-r.done:
	case <-r.gone.Done():
	case <-ctx.Done():
	}
	switch {
	case r.ended():
		return nil
	case r.gone.Err() != nil:
		return protocol.Errorf(protocol.ShuttingDown, "the bridge is stopping")
	}
	return ctx.Err()
}
