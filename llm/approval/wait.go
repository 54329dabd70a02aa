package approval

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/aibridge/aibridge/protocol"
)

// newID returns a new id. Ids grow with time.
func newID() string {
	id, err := uuid.NewV7()
	if err != nil { // no randomness, which does not happen
		return protocol.NewID()
	}
	return id.String()
}

// The share of a call's remaining time that is reserved for its run and answer: a
// fifth, but at most five seconds.
const (
	reserveShare = 5
	maxReserve   = 5 * time.Second
)

// patience is the time until which a decision helps a call with context ctx.
func (s *Service) patience(ctx context.Context, now time.Time) time.Time {
	end := now.Add(s.opts.Wait)
	if deadline, ok := ctx.Deadline(); ok {
		left := deadline.Sub(now)
		if usable := now.Add(left - min(left/reserveShare, maxReserve)); usable.Before(end) {
			end = usable
		}
	}
	return end
}

// writing is the time limit for storing the state of an approval.
const writing = protocol.DefaultTimeout

// await opens an approval and waits for its decision. It returns nil only if the
// approval was given for exactly this call and is used by it.
func (s *Service) await(ctx context.Context, r *Record, unchanged func() error) error {
	now := s.opts.Now()
	if before := s.deniedBefore(r, now); before != nil {
		return denied(before)
	}
	until := s.patience(ctx, now)
	r.AskedAt, r.Expires = ms(now), ms(until)
	release, err := s.Reserve(r)
	if err != nil {
		return err
	}
	changed := s.enter(r)
	defer s.leave(r.ID)
	step := s.happens(r, "approval.requested")
	revision, err := s.create(ctx, r)
	release()
	if err != nil {
		s.opts.Log.Warn("a call is denied, as its approval could not be stored", "tool", r.Tool, "error", err)
		return protocol.Errorf(protocol.PermissionDenied, "the call needs an approval, and its request could not be stored").With("reason", "fault")
	}
	s.tell(r, step, nil)
	timer := time.NewTimer(until.Sub(now))
	defer timer.Stop()
	for {
		var gaveUp State
		select {
		case <-changed:
		case <-timer.C:
			gaveUp = Expired
		case <-ctx.Done():
			gaveUp = Withdrawn
		case <-s.closing:
			cause := protocol.Errorf(protocol.ShuttingDown, "the bridge is stopping")
			ended, cancel := context.WithCancelCause(ctx)
			cancel(cause)
			_, err := s.settle(ended, r, revision, Withdrawn, unchanged)
			return err
		}
		done, err := s.settle(ctx, r, revision, gaveUp, unchanged)
		if done {
			return err
		}
	}
}

// create stores an approval also if its call ends meanwhile: a write that is given up may
// have been made, and nobody would take that approval back.
func (s *Service) create(ctx context.Context, r *Record) (revision uint64, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writing)
	defer cancel()
	return s.opts.Approvals.Create(ctx, r.ID, r)
}

// remembered is the time for which a denial holds for the same call in the same trace.
const remembered = 10 * time.Minute

// deniedBefore returns a recent denial of the same call, so that a model that repeats
// the call does not cause another request.
func (s *Service) deniedBefore(r *Record, now time.Time) *Record {
	other, _, ok := s.opts.Approvals.Get(s.tally.denied(r))
	if !ok || other.State != Denied || now.Sub(time.UnixMilli(other.DecidedAt)) >= remembered {
		return nil
	}
	return other
}

// settle handles the state of a waiting call's approval. With gaveUp it ends the
// approval in that state. It reports false if the approval is still pending.
func (s *Service) settle(ctx context.Context, asked *Record, revision uint64, gaveUp State, unchanged func() error) (done bool, err error) {
	release, _ := s.deciding.Lock(context.WithoutCancel(ctx), asked.ID) // the event of the decision precedes that of the use
	defer release()
	write, cancel := context.WithTimeout(context.WithoutCancel(ctx), writing)
	defer cancel()
	r, current, ok := s.opts.Approvals.Get(asked.ID)
	if !ok {
		r, current = asked, revision
	}
	switch {
	case r.State == Approved && gaveUp != Withdrawn:
		return true, s.use(write, r, current, unchanged)
	case r.State == Approved:
		_, _ = s.end(write, r, current, Withdrawn, "the call ended before it could be run")
		return true, context.Cause(ctx)
	case r.State == Denied:
		return true, denied(r)
	case r.State.over():
		return true, protocol.Errorf(protocol.PermissionDenied, "the question whether the call may run was withdrawn").
			With("approval_id", r.ID).With("reason", string(r.State))
	case gaveUp == "":
		return false, nil
	}
	why := "nobody decided in time"
	if gaveUp == Withdrawn {
		why = "the call ended first"
	}
	if _, err := s.end(write, r, current, gaveUp, why); err != nil { // another bridge decided at this very moment, or nothing can be stored
		s.opts.Log.Warn("the end of an approval is not stored", "approval", r.ID, "error", err)
	}
	if gaveUp == Withdrawn {
		return true, context.Cause(ctx)
	}
	return true, expired(r)
}

func patience(r *Record) time.Duration {
	return (time.Duration(r.Expires-r.AskedAt) * time.Millisecond).Round(100 * time.Millisecond)
}

// denied is the error, for the model, of a denied call.
func denied(r *Record) error {
	err := protocol.Errorf(protocol.PermissionDenied, "%s denied the call", r.DecidedBy)
	if r.Reason != "" {
		err = protocol.Errorf(protocol.PermissionDenied, "%s denied the call: %s", r.DecidedBy, r.Reason)
	}
	return err.With("approval_id", r.ID).With("reason", "denied").With("decided_by", r.DecidedBy)
}

// use uses a given approval for the waiting call. The compare-and-set of the record
// ensures that it is used once.
func (s *Service) use(ctx context.Context, r *Record, revision uint64, unchanged func() error) error {
	err := unchanged()
	if err == nil && s.lapsed(r) != nil {
		err = protocol.Errorf(protocol.PermissionDenied, "who approved the call may not any more").With("reason", "credential")
	}
	if err != nil {
		_, _ = s.end(ctx, r, revision, Withdrawn, protocol.AsError(err).Message)
		return protocol.AsError(err).With("approval_id", r.ID)
	}
	if _, err := s.end(ctx, r, revision, Used, r.Reason); err != nil {
		s.opts.Log.Warn("an approved call is denied, as the use of its approval could not be stored", "approval", r.ID, "error", err)
		return protocol.Errorf(protocol.PermissionDenied, "the call was approved, and could not be noted as made").
			With("approval_id", r.ID).With("reason", "fault")
	}
	return nil
}

// end stores and publishes the last state of an approval.
func (s *Service) end(ctx context.Context, r *Record, revision uint64, state State, reason string) (uint64, error) {
	next := *r
	next.State, next.Reason, next.EndedAt = state, reason, ms(s.opts.Now())
	step := s.happens(&next, "approval."+string(state))
	revision, err := s.opts.Approvals.Update(ctx, r.ID, &next, revision)
	if err != nil {
		return 0, err
	}
	s.tell(&next, step, nil)
	return revision, nil
}

// enter registers the wait for an approval. The channel signals changes of it.
func (s *Service) enter(r *Record) (changed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ch := make(chan struct{}, 1)
	s.waiting[r.ID] = ch
	return ch
}

// Reserve reserves a place for a draft among the pending approvals, until release. The
// error is 3004 if there are too many. A stored approval has its place already.
func (s *Service) Reserve(r *Record) (release func(), err error) {
	if _, _, stored := s.opts.Approvals.Get(r.ID); stored {
		return func() {}, nil
	}
	release, own, ok := s.tally.reserve(r, s.opts.MaxOwn, s.opts.MaxOpen)
	switch {
	case ok:
		return release, nil
	case own >= s.opts.MaxOwn:
		return nil, protocol.Errorf(protocol.LimitReached, "%d of your calls wait for an approval already, which is the limit", own).
			With("limit", s.opts.MaxOwn).With("reason", "approvals_of_principal")
	}
	return nil, protocol.Errorf(protocol.LimitReached, "too many calls of the space wait for an approval already").
		With("limit", s.opts.MaxOpen).With("reason", "approvals_of_space")
}

func (s *Service) leave(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.waiting, id)
}
