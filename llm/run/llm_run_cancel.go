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
	r, l, err := s.lookup(call.Principal, p.Run)
	if err != nil {
		return Result{}, err
	}
	if l != nil {
		l.cancel(errAborted)
		err := call.Park(ctx, func(ctx context.Context) error {
			select {
			case <-l.done:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
		if err != nil {
			return Result{}, err
		}
		return s.result(l.now()), nil
	}
	if r.Phase == Completed || r.Phase == Failed {
		return Result{}, protocol.Errorf(protocol.InvalidState, "the run is at rest").With("phase", string(r.Phase))
	}
	if l, err = s.reserve(r); err != nil {
		return Result{}, err
	}
	s.settle(l, stopped(Failed, fault.Aborted, "the run was cancelled"), r.Turns)
	return s.result(l.now()), nil
}
