package conformance

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// An exchange is one request to the device and what it has to say to it.
type exchange struct {
	stage   *stage
	id      string
	trace   string
	payload []byte
	place   int // in the record, where it began
}

// callTimeout is the time that the device has for a call.
const callTimeout = 10 * time.Minute

// invocation is a request envelope for a capability of the skill.
func invocation(capability, params string) protocol.Request {
	return request("skill.invoke", fmt.Sprintf(`{"skill_id":%q,"capability_id":%q,"params":%s}`, Skill, capability, params))
}

func request(command, params string) protocol.Request {
	return protocol.Request{
		Version: protocol.Version, ID: protocol.NewID(), Timestamp: time.Now().UnixMilli(), Command: command, Params: []byte(params),
		Metadata: protocol.Metadata{SenderID: "bridge-1", TraceID: protocol.NewID(), Timeout: callTimeout},
	}
}

// send sends a request.
func (s *stage) send(ctx context.Context, r protocol.Request) (*exchange, error) {
	x := &exchange{stage: s, id: r.ID, trace: r.Metadata.TraceID, payload: r.Append(nil), place: s.bridge.record.here()}
	return x, x.again(ctx)
}

// again sends the same bytes once more.
func (x *exchange) again(ctx context.Context) error {
	return x.stage.deliver(ctx, x.payload, x.id)
}

// response waits for the answer.
func (x *exchange) response(ctx context.Context) (*protocol.Response, error) {
	place, seen, err := x.stage.await(ctx, x.place, "answer the request "+string(x.payload), isResponse(x.id))
	if err != nil {
		return nil, err
	}
	x.place = place
	r := seen.envelope.Response
	if r.Metadata.TraceID != x.trace {
		return nil, fmt.Errorf("its answer has the trace_id %q, the request has %q", r.Metadata.TraceID, x.trace)
	}
	return r, nil
}

// result waits for a success and reads its result.
func (x *exchange) result(ctx context.Context, into any) error {
	r, err := x.response(ctx)
	if err != nil {
		return err
	}
	if r.Err != nil {
		return fmt.Errorf("it answers %s with %w", x.payload, r.Err)
	}
	if err := json.Unmarshal(r.Result, into); err != nil {
		return fmt.Errorf("its result %s: %w", r.Result, err)
	}
	return nil
}

// failure waits for an error of a code.
func (x *exchange) failure(ctx context.Context, want protocol.Code) (*protocol.Error, error) {
	r, err := x.response(ctx)
	switch {
	case err != nil:
		return nil, err
	case r.Err == nil:
		return nil, fmt.Errorf("it answers %.300s with the success %s, not with %s", x.payload, r.Result, want)
	case r.Err.Code != want:
		return nil, fmt.Errorf("it answers %.300s with %w, not with %s", x.payload, r.Err, want)
	}
	return r.Err, nil
}

// call runs a capability to its end.
func (s *stage) call(ctx context.Context, capability, params string, into any) error {
	x, err := s.send(ctx, invocation(capability, params))
	if err != nil {
		return err
	}
	return x.result(ctx, into)
}

// echo says that the device works: it runs a call.
func (s *stage) echo(ctx context.Context) error {
	var result struct {
		Value string `json:"value"`
	}
	word := protocol.NewID()
	if err := s.call(ctx, "echo", fmt.Sprintf(`{"value":%q}`, word), &result); err != nil {
		return err
	}
	if result.Value != word {
		return fmt.Errorf("echo of %q is %q", word, result.Value)
	}
	return nil
}

// count is the number of times that the capability count has run, this time included.
func (s *stage) count(ctx context.Context) (int, error) {
	var result struct {
		Count int `json:"count"`
	}
	err := s.call(ctx, "count", `{}`, &result)
	return result.Count, err
}

// A recollection is what the device says to task.get about a call.
type recollection struct {
	state     string // done or running; "" if it does not know the call
	listening time.Duration
}

// recall asks the device about a call.
func (s *stage) recall(ctx context.Context, id string) (recollection, error) {
	x, err := s.send(ctx, request("task.get", fmt.Sprintf(`{"task_id":%q}`, id)))
	if err != nil {
		return recollection{}, err
	}
	r, err := x.response(ctx)
	if err != nil {
		return recollection{}, err
	}
	if r.Err != nil {
		return forgotten(r.Err)
	}
	var known struct {
		State string `json:"state"`
	}
	if json.Unmarshal(r.Result, &known) != nil || known.State != "done" && known.State != "running" {
		return recollection{}, fmt.Errorf(`it answers task.get with %s, not with {"state":"done"} or {"state":"running"}`, r.Result)
	}
	return recollection{state: known.State}, nil
}

func forgotten(e *protocol.Error) (recollection, error) {
	if e.Code != protocol.NotFound {
		return recollection{}, fmt.Errorf("it answers task.get with %w, not with a state or 3001", e)
	}
	var ms float64
	switch v := e.Details["listening_ms"].(type) {
	case float64:
		ms = v
	case int64:
		ms = float64(v)
	case json.Number:
		ms, _ = v.Float64()
	default:
		return recollection{}, fmt.Errorf("it answers task.get with 3001 without the number details.listening_ms: %v", e.Details)
	}
	if ms < 0 {
		return recollection{}, fmt.Errorf("details.listening_ms is %v", ms)
	}
	return recollection{listening: time.Duration(ms) * time.Millisecond}, nil
}

// running waits until the device is at work on a call.
func (s *stage) running(ctx context.Context, id string) error {
	return s.recalls(ctx, id, "at work", func(state string) bool { return state == "running" })
}

// arrived waits until the device knows a call.
func (s *stage) arrived(ctx context.Context, id string) error {
	return s.recalls(ctx, id, "at work, or done", func(state string) bool { return state != "" })
}

// ended waits until the device is no longer at work on a call.
func (s *stage) ended(ctx context.Context, id string) error {
	return s.recalls(ctx, id, "no longer at work", func(state string) bool { return state != "running" })
}

// recalls asks about a call until the device says what is wanted.
func (s *stage) recalls(ctx context.Context, id, what string, wanted func(state string) bool) error {
	for deadline := time.Now().Add(s.options.Patience); ; time.Sleep(10 * time.Millisecond) {
		r, err := s.recall(ctx, id)
		switch {
		case err != nil:
			return err
		case wanted(r.state):
			return nil
		case time.Now().After(deadline):
			return fmt.Errorf("task.get does not say that it is %s (%s waited)", what, s.options.Patience)
		}
	}
}

// equal says whether two JSON values are the same.
func equal(a, b []byte) bool {
	var x, y any
	dx, dy := json.NewDecoder(bytes.NewReader(a)), json.NewDecoder(bytes.NewReader(b))
	if dx.Decode(&x) != nil || dy.Decode(&y) != nil {
		return false
	}
	return reflect.DeepEqual(x, y)
}
