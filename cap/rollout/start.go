package rollout

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/aibridge/aibridge/cap/dispatch"
	"github.com/aibridge/aibridge/protocol"
)

// An Order is a rollout to be started. Its plan is complete.
type Order struct {
	dispatch.Command

	Caller   dispatch.Caller
	Patience time.Duration // that a member has to answer
	Plan     Plan
	Selector string // of the group, if it has one
	Members  []Member
}

// Start stores a rollout with its members and then begins.
func (e *Engine) Start(ctx context.Context, o Order) (*Rollout, error) {
	if len(o.Members) > maxMembers {
		return nil, protocol.Errorf(protocol.LimitReached, "a rollout has up to %d members, not %d", maxMembers, len(o.Members)).With("limit", maxMembers)
	}
	if n := len(o.Params) + len(o.Extension); n > maxCommand {
		return nil, protocol.Errorf(protocol.PayloadTooLarge, "params of a rollout have up to %d bytes with their extension, not %d: store what is large as a file, and send its name", maxCommand, n).
			With("param_name", "params").With("limit", maxCommand)
	}
	id, err := uuid.NewV7() // grows with time, which is the order of lists
	if err != nil {
		return nil, err
	}
	now := e.opts.Clock.Now()
	r := &Rollout{
		ID: protocol.TaskID(id.String()), Command: o.Command, Caller: o.Caller, Selector: o.Selector, Patience: o.Patience.Milliseconds(), Plan: o.Plan,
		StartedAt: now.UnixMilli(), Owner: e.opts.Owner, Status: Running, Since: now.UnixMilli(),
	}
	if o.Plan.ScheduleAt.After(now) {
		r.Status = Scheduled
	}
	e.starting.Lock()
	defer e.starting.Unlock()
	if err := e.hasRoom(r, len(o.Members)); err != nil {
		return nil, err
	}
	// Members are stored first: without their rollout they are ignored, but a
	// rollout without members would count as having none to ask.
	if r.Parts, err = e.storeMembers(ctx, r, 0, o.Members); err != nil {
		e.removeParts(context.WithoutCancel(ctx), r)
		return nil, err
	}
	if _, err := e.opts.Rollouts.Create(ctx, string(r.ID), r); err != nil {
		if ctx.Err() == nil {
			e.removeParts(ctx, r)
		}
		return nil, err
	}
	e.launch(r.ID)
	return r, nil
}

// storeMembers stores members in new parts from a number on, and returns the
// number after the last.
func (e *Engine) storeMembers(ctx context.Context, r *Rollout, from int, members []Member) (int, error) {
	now := e.opts.Clock.Now().UnixMilli()
	for len(members) > 0 {
		n := min(len(members), partSize)
		if _, err := e.opts.Parts.Put(ctx, partKey(r.ID, from), &Part{Members: members[:n], Round: r.Round, Owner: e.opts.Owner, MadeAt: now}); err != nil {
			return from, err
		}
		from, members = from+1, members[n:]
	}
	return from, nil
}

// hasRoom fails if there is no room for another rollout. The one that ended first
// makes room; one space may have half of all.
func (e *Engine) hasRoom(r *Rollout, members int) error {
	e.mu.Lock()
	closed := e.closed
	e.mu.Unlock()
	if closed {
		return protocol.Errorf(protocol.ShuttingDown, "the bridge is stopping")
	}
	running, near, own := 0, 0, 0
	for _, other := range e.opts.Rollouts.All() {
		if other.ended() {
			continue
		}
		running++
		if other.Space == r.Space {
			near++
		}
		if other.KeptFor() == r.KeptFor() {
			own++
		}
	}
	switch {
	case own >= e.opts.MaxOwn:
		return protocol.BusyFor(time.Minute, "too many of your rollouts have not ended").With("limit", e.opts.MaxOwn)
	case near >= half(e.opts.MaxRunning):
		return protocol.BusyFor(time.Minute, "too many rollouts of this space have not ended").With("limit", half(e.opts.MaxRunning))
	case running >= e.opts.MaxRunning:
		return protocol.BusyFor(time.Minute, "too many rollouts have not ended")
	}
	inSpace := func(other *Rollout) bool { return other.Space == r.Space }
	anywhere := func(*Rollout) bool { return true }
	if !e.forgetOldest(inSpace, half(e.opts.MaxKept)-members) || !e.forgetOldest(anywhere, e.opts.MaxKept-members) {
		return protocol.BusyFor(time.Minute, "the rollouts that have not ended have too many members")
	}
	return nil
}

// half is the share of one space of the places of all.
func half(all int) int { return max(all/2, 1) }
