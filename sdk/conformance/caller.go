package conformance

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/aibridge/aibridge/protocol"
)

// callerClauses hold the side that calls commands to its part. A device shows
// it with the capability ask, which runs a command of the bridge.
func callerClauses() []clause {
	const codes = "docs/protocol.md#codes"
	return []clause{
		{name: "caller/result", where: "docs/protocol.md#response", says: "a command that the device calls yields the result of the response with its id", needs: "ask", run: callsCommands},
		{name: "caller/error", where: codes, says: "an error of the bridge reaches the caller with code, message and details, and one of the class «never» is not sent again", needs: "ask", run: reportsErrors},
		{name: "caller/busy", where: codes, says: "a request that is answered with 4008 or 4009 is sent again after retry_after_ms, with the same id", needs: "ask", run: waitsForABusyBridge},
		{name: "caller/backoff", where: codes, says: "a request of the class «with backoff» is sent again, with the same id", needs: "ask", run: backsOff},
		{name: "caller/lost", where: codes, says: "after a broken connection the same request is sent again: with the same id and params, so that it runs once", needs: "ask", run: repeatsOverConnections},
		{name: "caller/revision", where: "docs/protocol.md#request", says: "min_revision goes with each attempt of a call, and the caller learns the revision of the answer", needs: "ask_seen", run: asksWhatWasSeen},
	}
}

// probe is a command that no bridge has.
const probe = "probe.run"

// ask has the device call a command and yields all requests that came of it.
func (s *stage) ask(ctx context.Context, replies ...reply) (*protocol.Response, []*protocol.Request, error) {
	return s.askBy(ctx, "ask", "", replies...)
}

// askBy is ask by a capability, with further params of it.
func (s *stage) askBy(ctx context.Context, capability, params string, replies ...reply) (*protocol.Response, []*protocol.Request, error) {
	s.bridge.set(func(b *bridge) { b.check = nil }) // the command is made up
	defer s.bridge.set(func(b *bridge) { b.check = s.options.CheckParams })
	s.bridge.next(probe, replies...)
	place := s.bridge.record.here()
	x, err := s.send(ctx, invocation(capability, `{"command":"`+probe+`","params":{"depth":3,"unit":"m"}`+params+`}`))
	if err != nil {
		return nil, nil, err
	}
	r, err := x.response(ctx)
	if err != nil {
		return nil, nil, err
	}
	var requests []*protocol.Request
	seen, _ := s.bridge.record.since(place)
	for i := range seen {
		if isCommand(probe)(&seen[i]) {
			requests = append(requests, seen[i].request)
		}
	}
	if len(requests) == 0 {
		return nil, nil, fmt.Errorf("it sent no %s", probe)
	}
	for _, q := range requests {
		if q.ID != requests[0].ID || !equal(q.Params, []byte(`{"depth":3,"unit":"m"}`)) {
			return nil, nil, fmt.Errorf("the requests have the ids %s and %s, and the params %s", requests[0].ID, q.ID, q.Params)
		}
	}
	return r, requests, nil
}

// asks expects a number of requests and success.
func (s *stage) asks(ctx context.Context, requests int, replies ...reply) error {
	r, sent, err := s.ask(ctx, append(replies, reply{result: `{"found":[1,2]}`})...)
	switch {
	case err != nil:
		return err
	case r.Err != nil:
		return fmt.Errorf("its call fails with %w after %d requests", r.Err, len(sent))
	case !equal(r.Result, []byte(`{"found":[1,2]}`)):
		return fmt.Errorf("its call yields %s", r.Result)
	case len(sent) != requests:
		return fmt.Errorf("it sent %d requests, not %d", len(sent), requests)
	}
	return nil
}

func callsCommands(ctx context.Context, s *stage) error { return s.asks(ctx, 1) }

func reportsErrors(ctx context.Context, s *stage) error {
	for _, code := range []protocol.Code{protocol.InvalidParameter, protocol.PermissionDenied, protocol.InvalidState} {
		r, sent, err := s.ask(ctx, reply{err: protocol.Errorf(code, "not like this").With("param_name", "depth")}, reply{result: `{}`})
		if err != nil {
			return err
		}
		if len(sent) != 1 {
			return fmt.Errorf("it sent the request again after %s", code)
		}
		if r.Err == nil {
			return fmt.Errorf("its call succeeds, although it was answered with %s", code)
		}
		told, _ := json.Marshal(r.Err)
		if r.Err.Code != code || r.Err.Message != "not like this" || r.Err.Details["param_name"] != "depth" {
			return fmt.Errorf("the error %s was told on as %s", code, told)
		}
	}
	return nil
}

func waitsForABusyBridge(ctx context.Context, s *stage) error {
	return s.asks(ctx, 3,
		reply{err: protocol.Errorf(protocol.Busy, "too much to do").With("retry_after_ms", 20)},
		reply{err: protocol.Errorf(protocol.RateLimited, "too many").With("retry_after_ms", 20)})
}

func backsOff(ctx context.Context, s *stage) error {
	return s.asks(ctx, 3,
		reply{err: protocol.Errorf(protocol.StoreUnavailable, "the store is away")},
		reply{err: protocol.Errorf(protocol.TargetUnavailable, "nobody is there")})
}

func repeatsOverConnections(ctx context.Context, s *stage) error {
	return s.asks(ctx, 2, reply{cut: true})
}

// asksWhatWasSeen has the device call with a revision, which the bridge answers with
// another, at the second attempt.
func asksWhatWasSeen(ctx context.Context, s *stage) error {
	const before, after uint64 = 41, 1<<40 + 42
	r, requests, err := s.askBy(ctx, "ask_seen", fmt.Sprintf(`,"min_revision":%d`, before),
		reply{err: protocol.Errorf(protocol.Busy, "too much to do").With("retry_after_ms", 20)}, reply{result: `{"found":1}`, revision: after})
	switch {
	case err != nil:
		return err
	case r.Err != nil:
		return fmt.Errorf("its call fails with %w", r.Err)
	case !equal(r.Result, fmt.Appendf(nil, `{"result":{"found":1},"revision":%d}`, after)):
		return fmt.Errorf("its call yields %s, not the revision %d", r.Result, after)
	case len(requests) != 2:
		return fmt.Errorf("it sent %d requests, not 2", len(requests))
	}
	for i, q := range requests {
		if q.Metadata.MinRevision != before {
			return fmt.Errorf("attempt %d has min_revision %d, not %d", i+1, q.Metadata.MinRevision, before)
		}
	}
	return nil
}
