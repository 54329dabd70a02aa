package registry

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// callOverHTTP has one of a skill's HTTP endpoints run a capability. The next
// one is tried where the one before could not be reached, or where calling
// twice does no harm.
func (s *Service) callOverHTTP(ctx context.Context, capability *Capability, endpoints []string, r request) (reply, error) {
	var last *failure
	for i, endpoint := range endpoints {
		if i > 0 {
			s.metrics.retries.Inc()
		}
		var response *protocol.Response
		err := r.call.Park(ctx, func(ctx context.Context) error {
			response, last = s.callEndpoint(ctx, endpoint, r)
			return nil
		})
		if err != nil && last == nil {
			return reply{}, err
		}
		if last == nil {
			last = s.checkResult(target{"endpoint", endpoint}, capability, response.Result)
		}
		if last == nil {
			return reply{data: response.Result}, nil
		}
		if !last.mayRepeat(capability.repeatable()) || ctx.Err() != nil {
			break
		}
	}
	return reply{}, last.err
}

// callEndpoint posts a request to one endpoint and reads the answer.
func (s *Service) callEndpoint(ctx context.Context, endpoint string, r request) (*protocol.Response, *failure) {
	t := target{"endpoint", endpoint}
	envelope := s.envelope(s.newID(), r.command, r.params, r.call, time.Now())
	envelope.Extension = r.call.VendorData()
	envelope.Metadata.Timeout = max(time.Until(r.call.Deadline).Truncate(time.Millisecond), time.Millisecond)
	ctx, end := s.startSpan(ctx, "skill request", "aibridge.endpoint", endpoint, envelope.ID)
	defer end()
	ctx, cancel := context.WithDeadline(ctx, r.call.Deadline)
	defer cancel()

	answer, err := s.web.post(ctx, endpoint, envelope.Append(nil), traceparent(ctx))
	if err != nil {
		return nil, webFailure(ctx, t, err)
	}
	response, err := protocol.DecodeResponse(answer.body, s.opts.Limits)
	switch {
	case err != nil && answer.status/100 != 2:
		return nil, statusFailure(t, answer.status)
	case err != nil:
		s.metrics.unreadable.Inc()
		return nil, t.garbled(err.Error())
	case response.ID != envelope.ID:
		return nil, t.nonsense("id", "is not that of the request")
	case response.Err != nil:
		return nil, t.refused(response.Err)
	}
	return response, nil
}

// webFailure judges a POST that brought no answer.
func webFailure(ctx context.Context, t target, err error) *failure {
	if cause := context.Cause(ctx); cause != nil {
		return t.gaveUp(cause)
	}
	var w *webError
	if errors.As(err, &w) && w.sent {
		return t.gone(w.reason)
	}
	f := t.fail(protocol.TargetUnavailable, always, "cannot be called: %s", err)
	f.err = f.err.With("reason", err.Error())
	return f
}

// statusFailure judges an HTTP status that came without a response envelope.
// A server that refuses has done nothing; one that breaks may have.
func statusFailure(t target, status int) *failure {
	code := protocol.TargetUnavailable
	if status >= 500 && status != http.StatusServiceUnavailable {
		code = protocol.OutcomeUnknown
	}
	f := t.fail(code, ifIdempotent, "answered with HTTP status %d", status)
	f.err = f.err.With("http_status", status)
	return f
}
