package run

import (
	"cmp"
	"context"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/protocol/grant"
)

var continueRun = commands.Spec{
	Name:    "llm.run.continue",
	Summary: "Answer a run that waits, or have one go on that failed.",
	Effect:  commands.Act,
	Action:  "llm:run",
	Errors:  []protocol.Code{protocol.NotFound, protocol.InvalidState, protocol.PermissionDenied, protocol.VFSPermission, protocol.Busy},
	Example: `{"run_id":"01989d3c-7a4e-7c11-9b52-2f6d1e0a4b7c","input":"Yes, 21 degrees."}`,
}

// ContinueParams are the params of llm.run.continue.
type ContinueParams struct {
	Run   string  `json:"run_id" len:"1-64" audit:"yes" doc:"the run"`
	Input *string `json:"input,omitempty" len:"0-1000000" doc:"words of the user; without them the run resumes where it stopped"`
}

// Target implements [commands.Targeter].
func (p ContinueParams) Target() commands.Resource {
	return commands.Resource{Type: "llm", ID: "run"}
}

// Continue continues a run, with the rights of the caller.
func (s *Service) Continue(ctx context.Context, call *commands.Call, p ContinueParams) (Result, error) {
	found, err := s.mine(call.Principal, p.Run)
	if err != nil {
		return Result{}, err
	}
	r := *found
	r.Owner = grant.Of(call.Principal)
	l, err := s.reserve(&r, 0)
	if err != nil {
		return Result{}, err
	}
	// Its last holder has stored its outcome.
	now, revision, ok := s.opts.Runs.Get(p.Run)
	if !ok {
		s.release(l)
		return Result{}, noRun(p.Run) // removed meanwhile
	}
	r = *now
	r.Owner = grant.Of(call.Principal)
	l.revision = revision
	switch {
	case r.Phase == Completed:
		err = protocol.Errorf(protocol.InvalidState, "the run is completed").With("run_id", p.Run).With("phase", string(Completed))
	case r.Phase == WaitingApproval:
		err = protocol.Errorf(protocol.InvalidState, "the run waits for an approval, and goes on by itself when somebody has decided").
			With("run_id", p.Run).With("phase", string(WaitingApproval)).With("approval_id", r.Waits.Approval)
	case s.isElsewhere(&r):
		err = goesOn(errElsewhere, p.Run)
	}
	if err != nil {
		s.release(l)
		return Result{}, err
	}
	o, err := s.open(ctx, &r, revision)
	if err != nil {
		s.release(l)
		return Result{}, told(goesOn(err, p.Run))
	}
	return s.begin(ctx, l, o, o.next(ctx, p.Input))
}

// next is the word for the request to continue a run.
func (o *opened) next(ctx context.Context, input *string) word {
	if o.story.rest == nil || !o.story.rest.clean() {
		w := o.again(ctx)
		w.input = cmp.Or(input, w.input)
		return w
	}
	w := word{intent: IntentResume, input: input, talk: o.story.conversation()}
	if input != nil {
		w.intent = IntentContinue
	}
	return w
}
