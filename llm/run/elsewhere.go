package run

import (
	"context"
	"encoding/json"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// Errands that one process has another do: a run under way is changed and shown by
// the process that has it go on. The right to them is checked where the request came
// in.
const (
	errandCancel = "llm.run.cancel"
	errandStatus = "llm.run.status"
	errandTrace  = "llm.run.trace"
)

// Errands are the handlers of errands for other processes, by name.
func (s *Service) Errands() map[string]func(ctx context.Context, with json.RawMessage) (any, error) {
	return map[string]func(context.Context, json.RawMessage) (any, error){
		errandCancel: errand(func(ctx context.Context, p CancelParams) (Result, error) { return s.cancelHere(ctx, p.Run) }),
		errandStatus: errand(s.awaitHere),
		errandTrace:  errand(s.traceHere),
	}
}

// errand decodes the params of an errand.
func errand[P, R any](do func(context.Context, P) (R, error)) func(context.Context, json.RawMessage) (any, error) {
	return func(ctx context.Context, with json.RawMessage) (any, error) {
		var p P
		if err := json.Unmarshal(with, &p); err != nil {
			return nil, err
		}
		return do(ctx, p)
	}
}

// awaitHere shows a run once it is at rest, or when it was waited for long enough.
func (s *Service) awaitHere(ctx context.Context, p StatusParams) (StatusResult, error) {
	if l := s.find(p.Run); l != nil && p.Wait > 0 {
		_ = waitFor(ctx, l.done, time.Duration(p.Wait)*time.Millisecond)
	}
	return s.statusHere(ctx, p)
}

// isElsewhere reports whether another process has a run go on, or had it when it
// ended.
func (s *Service) isElsewhere(r *Record) bool {
	return r.Phase == Running && r.Node != "" && r.Node != s.opts.Node
}

// unreachable reports whether another process did not do an errand because it is
// not there any more, or never heard of it.
func unreachable(err error) bool {
	switch protocol.CodeOf(err) {
	case protocol.TargetUnavailable, protocol.OutcomeUnknown:
		return true
	}
	return false
}
