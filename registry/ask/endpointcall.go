package ask

import (
	"context"
	"errors"
	"net/http"

	"github.com/aibridge/aibridge/internal/telemetry/semconv"
	"github.com/aibridge/aibridge/protocol"
)

// An endpointCall is one request to one of some endpoints.
type endpointCall struct {
	service   *Service
	exchange  *exchange
	endpoints []string
	envelope  []byte
	caller    string
	again     bool // running it twice is as good as once
}

// run calls the endpoints in turn: the next one where the one before could not
// be reached, or where calling twice does no harm.
func (p *endpointCall) run(ctx context.Context) {
	for i, endpoint := range p.endpoints {
		p.service.exchanges.at(p.exchange, endpoint)
		f := p.call(ctx, endpoint)
		if f == nil {
			return
		}
		if i == len(p.endpoints)-1 || !f.mayRepeat(p.again) || ctx.Err() != nil {
			p.service.exchanges.end(p.exchange, outcome{failure: f})
			return
		}
		p.service.metrics.retries.Inc()
	}
}

// call posts the request to one endpoint. An answer ends the exchange; a failure
// leaves it open.
func (p *endpointCall) call(ctx context.Context, endpoint string) *failure {
	ctx, end := p.service.startSpan(ctx, "skill request", "aibridge.endpoint", endpoint, p.exchange.id)
	defer end()
	t := target{"endpoint", endpoint}
	if p.exchange.Agent != nil {
		t = p.exchange.target()
	}
	q := httpRequest{endpoint: endpoint, envelope: p.envelope, traceparent: semconv.Traceparent(ctx), caller: p.caller}
	var f *failure
	err := p.service.http.post(ctx, q, func(a httpAnswer) {
		if a.streamed {
			p.hear(a.body)
		} else {
			f = p.answered(t, a)
		}
	})
	switch {
	case p.exchange.done.Load():
		return nil
	case err != nil:
		return httpFailure(ctx, t, err)
	case f == nil:
		return t.gone("its event stream ended before it answered")
	}
	return f
}

var errNoResponse = errors.New("it is no response")

// answered handles an answer of one message: the response.
func (p *endpointCall) answered(t target, a httpAnswer) *failure {
	message, err := protocol.ViewReply(a.body, p.service.opts.Limits)
	response := message.Response
	if err == nil && response == nil {
		err = errNoResponse
	}
	switch {
	case err != nil && a.status/100 != 2:
		return statusFailure(t, a.status)
	case err != nil:
		p.service.complain(Sender{Agent: p.exchange.Agent}, Unreadable, err.Error())
		return t.garbled(err.Error())
	case response.ID != p.exchange.id:
		return t.nonsense("id", "is not that of the request")
	case response.Err != nil:
		return t.refused(response.Err)
	}
	p.service.hear(p.exchange, message, nil)
	return nil
}

// hear handles a message of an event stream, about this request or another one of the
// same agent.
func (p *endpointCall) hear(body []byte) {
	message, err := protocol.ViewReply(body, p.service.opts.Limits)
	e := p.service.exchanges.find(message.ID())
	defer e.release()
	if e == nil && err != nil {
		e = p.exchange // an unreadable message counts for this request
	}
	switch {
	case e == nil:
		p.service.drop(dropUnknown, p.endpoints[0], message.ID())
	case e != p.exchange && (e.Agent == nil || p.exchange.Agent == nil || e.Agent.Key() != p.exchange.Agent.Key()):
		p.service.drop(dropForeign, p.endpoints[0], e.id)
	default:
		p.service.hear(e, message, err)
	}
}

// httpFailure judges a POST that brought no answer.
func httpFailure(ctx context.Context, t target, err error) *failure {
	if cause := context.Cause(ctx); cause != nil {
		return t.gaveUp(cause)
	}
	var w *httpError
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
	f.err, f.open = f.err.With("http_status", status), code == protocol.OutcomeUnknown
	return f
}
