package run

import (
	"context"
	"encoding/json"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// The errands between processes: a run under way is changed and shown by the process
// that runs it. The process that received the request has checked the right to it.
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

// awaitHere returns the status of a run once it is at rest, or after the time to wait.
func (s *Service) awaitHere(ctx context.Context, p StatusParams) (StatusResult, error) {
	if l := s.find(p.Run); l != nil && p.Wait > 0 {
		_ = waitFor(ctx, l.done, time.Duration(p.Wait)*time.Millisecond)
	}
	return s.statusHere(ctx, p)
}

// isElsewhere reports whether another process runs a run, or did so when it ended.
func (s *Service) isElsewhere(r *Record) bool {
	return r.Phase == Running && r.Node != "" && r.Node != s.opts.Node
}

// unreachable reports whether an errand failed because the other process has ended or
// did not receive it.
func unreachable(err error) bool {
	switch protocol.CodeOf(err) {
	case protocol.TargetUnavailable, protocol.OutcomeUnknown:
		return true
	}
	return false
}
