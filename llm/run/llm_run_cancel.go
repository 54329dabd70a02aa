package run

import (
	"context"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/llm/run/fault"
	"github.com/aibridge/aibridge/protocol"
)

var cancel = commands.Spec{
	Name:    "llm.run.cancel",
	Summary: "Stop a run; it can be continued later.",
	Effect:  commands.Write,
	Action:  "llm:run",
	Errors:  []protocol.Code{protocol.NotFound, protocol.InvalidState},
	Example: `{"run_id":"01989d3c-7a4e-7c11-9b52-2f6d1e0a4b7c"}`,
}

// CancelParams are the params of llm.run.cancel.
type CancelParams struct {
	Run string `json:"run_id" len:"1-64" audit:"yes" doc:"the run"`
}

// Target implements [commands.Targeter].
func (p CancelParams) Target() commands.Resource { return commands.Resource{Type: "llm", ID: "run"} }

// Cancel stops a run and returns when it is at rest.
func (s *Service) Cancel(ctx context.Context, call *commands.Call, p CancelParams) (Result, error) {
	if _, _, err := s.lookup(call.Principal, p.Run); err != nil {
		return Result{}, err
	}
	var cancelled Result
	err := call.Park(ctx, func(ctx context.Context) (err error) {
		cancelled, err = s.cancel(ctx, p)
		return err
	})
	return cancelled, err
}

// cancel stops a run at any bridge. If the run's bridge has ended, it waits for the
// heir.
func (s *Service) cancel(ctx context.Context, p CancelParams) (cancelled Result, err error) {
	for tried := false; ; tried = true {
		r, _, ok := s.opts.Runs.Get(p.Run)
		switch {
		case s.find(p.Run) != nil || !ok || !s.isElsewhere(r):
			if ok && tried && r.Phase == Failed && r.Code == fault.Aborted {
				return s.result(r), nil
			}
			return s.cancelHere(ctx, p.Run)
		}
		if err = s.opts.Elsewhere(ctx, r.Node, errandCancel, p, &cancelled); !unreachable(err) {
			return cancelled, err
		}
		if waitFor(ctx, nil, lookAgain) != nil {
			return Result{}, err
		}
	}
}

// cancelHere stops a run of this process, or one that waits.
func (s *Service) cancelHere(ctx context.Context, id string) (Result, error) {
	if l := s.find(id); l != nil {
		l.cancel(errAborted)
		select {
		case <-l.done:
			return s.result(l.now()), nil
		case <-ctx.Done():
			return Result{}, ctx.Err()
		}
	}
	r, revision, ok := s.opts.Runs.Get(id)
	switch {
	case !ok:
		return Result{}, noRun(id)
	case r.Phase == Completed || r.Phase == Failed:
		return Result{}, protocol.Errorf(protocol.InvalidState, "the run is at rest").With("phase", string(r.Phase))
	}
	l, err := s.reserve(r, revision)
	if err != nil {
		return Result{}, err
	}
	s.settle(l, stopped(Failed, fault.Aborted, "the run was cancelled"), r.Turns)
	if l.now().Phase == WaitingApproval {
		return s.cancel(ctx, CancelParams{Run: id}) // the approval was settled meanwhile, and the run continues
	}
	return s.result(l.now()), nil
}
