package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"runtime/debug"
	"sync"
	"time"

	"github.com/aibridge/aibridge/internal/fair"
	"github.com/aibridge/aibridge/protocol"
)

const (
	// maxRemembered bounds the invocations whose answers are kept for
	// repeats, the oldest going first.
	maxRemembered = 1024

	// acceptAfter is the time that work may take before its acceptance is sent: an
	// immediate answer makes that needless.
	acceptAfter = 200 * time.Millisecond

	// maxSending bounds the refusals and repeated answers on their way. With as
	// many, the next request waits to be read.
	maxSending = 256

	// maxAnswer is the length of a response envelope at most, in bytes.
	maxAnswer = protocol.DefaultMaxBytes

	// answerTimeout is the time that an answer is tried to be sent, beyond the
	// invocation's own deadline.
	answerTimeout = 5 * time.Second
)

// Jobs are the invocations an agent runs and has run. Each id is run once.
type jobs struct {
	server *server
	places *fair.Semaphore // one for each handler at work
	posted chan struct{}   // one for each answer on its way that no handler gave

	mu      sync.Mutex
	closed  bool
	byID    map[string]*job
	order   []string  // ids of byID, oldest first
	since   time.Time // no invocation that came later is forgotten
	running sync.WaitGroup

	closing context.Context // ends when close begins
	begin   context.CancelFunc
}

// A job is one invocation, from its arrival until its answer is forgotten.
type job struct {
	in          *Invocation
	correlation []byte
	cancel      context.CancelCauseFunc
	answer      []byte       // the response envelope; nil while at work
	ticket      *fair.Ticket // for its place among those at work

	mu       sync.Mutex // orders the messages of the job
	seq      uint64
	accepted bool
	done     bool
}

// party is the party whose share of places a call uses. Calls of administrators, which
// name no caller, have places reserved.
func (j *job) party() fair.Party {
	return fair.Party{Principal: j.in.Caller, Privileged: j.in.Caller == ""}
}

func newJobs(s *server) *jobs {
	closing, begin := context.WithCancel(context.Background())
	return &jobs{
		closing: closing, begin: begin,
		server: s,
		places: fair.New(fair.Options{
			What: "calls of the agent's", Capacity: int64(s.client.options.concurrency), Waiting: s.client.options.queue,
		}),
		posted: make(chan struct{}, maxSending),
		byID:   make(map[string]*job),
		since:  time.Now(),
	}
}

// start runs a handler for an invocation, unless its id was seen before: then
// the answer is sent again, or will be when there is one.
func (x *jobs) start(in *Invocation, m *Message, handle Handler) {
	j := &job{in: in, correlation: m.CorrelationData}
	// The client's context does not end work: close does, with a reason.
	ctx, cancel := context.WithDeadline(context.WithoutCancel(x.server.client.ctx), in.Deadline)
	ctx, j.cancel = context.WithCancelCause(withInvocation(ctx, in))
	in.emit = func(name string, data any) { x.emit(j, name, data) }

	switch admission, answer := x.admit(j); admission {
	case admitted:
		go func() {
			defer x.running.Done()
			defer cancel()
			x.run(ctx, j, handle)
		}()
		return
	case repeated:
		if answer != nil {
			x.post(answer, j.correlation)
		}
	case overloaded:
		x.refuse(&protocol.Request{ID: in.ID, Metadata: protocol.Metadata{TraceID: in.TraceID}}, m,
			protocol.BusyFor(time.Second, "the agent has too much to do"))
	case stopping:
		x.refuse(&protocol.Request{ID: in.ID, Metadata: protocol.Metadata{TraceID: in.TraceID}}, m, errStopping)
	}
	cancel()
}

type admission uint8

const (
	admitted admission = iota
	repeated
	overloaded
	stopping
)

// admit decides about an invocation. The answer to one that is repeated is nil
// while it is at work.
func (x *jobs) admit(j *job) (a admission, answer []byte) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if known := x.byID[j.in.ID]; known != nil {
		return repeated, known.answer
	}
	if x.closed {
		return stopping, nil
	}
	ticket, full := x.places.Enter(j.party(), 1)
	if full != nil {
		return overloaded, nil
	}
	j.ticket = ticket
	x.remember(j)
	x.running.Add(1)
	return admitted, nil
}

// remember keeps a job for repeats of its id.
func (x *jobs) remember(j *job) {
	if len(x.order) >= maxRemembered+x.server.client.options.concurrency+x.server.client.options.queue {
		delete(x.byID, x.order[0])
		x.since = time.Now()
		x.order = x.order[1:]
	}
	x.byID[j.in.ID] = j
	x.order = append(x.order, j.in.ID)
}

// run waits for a place, runs the handler and sends the answer.
func (x *jobs) run(ctx context.Context, j *job, handle Handler) {
	var result any
	err := j.ticket.Wait(ctx)
	if err == nil {
		result, err = x.work(ctx, j, handle)
		x.places.Release(j.party(), 1)
	}
	var rejected *rejection
	if errors.As(err, &rejected) {
		x.reject(j, rejected.reason)
		return
	}
	response := x.response(ctx, j, result, err)
	answer := response.Append(nil)
	if len(answer) > maxAnswer { // the bridge would drop the connection
		err = protocol.Errorf(protocol.Internal, "the skill's answer is too large: %d bytes, %d are possible", len(answer), maxAnswer)
		answer = x.response(ctx, j, nil, err).Append(nil)
	}
	j.mu.Lock()
	j.done = true
	j.mu.Unlock()
	x.mu.Lock()
	j.answer = answer
	x.mu.Unlock()
	x.send(answer, j.correlation, j.in.Deadline.Add(answerTimeout))
}

func (x *jobs) work(ctx context.Context, j *job, handle Handler) (result any, err error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	accept := time.AfterFunc(acceptAfter, func() { x.accept(j) })
	defer accept.Stop()
	defer func() {
		if p := recover(); p != nil {
			x.server.client.log.Error("skill handler panicked", "skill", j.in.SkillID, "capability", j.in.CapabilityID,
				"trace", j.in.TraceID, "panic", p, "stack", string(debug.Stack()))
			err = protocol.Errorf(protocol.Internal, "the skill failed")
		}
	}()
	return handle(ctx, j.in)
}

// encode is json.Marshal without the escapes for HTML, which make some results
// six times as long.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte{'\n'}), err
}

func (x *jobs) response(ctx context.Context, j *job, result any, err error) *protocol.Response {
	response := &protocol.Response{
		Version:   protocol.Version,
		ID:        j.in.ID,
		Timestamp: time.Now().UnixMilli(),
		Metadata:  protocol.Metadata{SenderID: string(x.server.agent.ID), TraceID: j.in.TraceID},
	}
	if err == nil {
		response.Result, err = encode(result)
		if err == nil && result == nil {
			response.Result = nil // {} on the wire
		}
	}
	if err != nil {
		var known *protocol.Error
		if ctx.Err() != nil && (!errors.As(err, &known) || known.Code == protocol.Cancelled) {
			err = context.Cause(ctx) // why it was made to stop, not how it took it
		}
		response.Result, response.Err = nil, protocol.AsError(err)
		if response.Err.Code == protocol.Internal {
			x.server.client.log.Error("skill failed", "skill", j.in.SkillID, "capability", j.in.CapabilityID, "trace", j.in.TraceID, "error", err)
		}
	}
	return response
}

// cancel makes an invocation stop, as the bridge asks for: task_id is its id.
// One that has not arrived yet is not run when it does.
func (x *jobs) cancel(request *protocol.Request) {
	var p struct {
		TaskID string `json:"task_id"`
		Reason string `json:"reason"`
	}
	if json.Unmarshal(request.Params, &p) != nil || p.TaskID == "" {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if j := x.byID[p.TaskID]; j != nil {
		if j.cancel != nil {
			j.cancel(protocol.Errorf(protocol.Cancelled, "cancelled: %s", p.Reason))
		}
		return
	}
	x.remember(&job{in: &Invocation{ID: p.TaskID}})
}

// refuse answers a request that is no job.
func (x *jobs) refuse(request *protocol.Request, m *Message, err *protocol.Error) {
	response := request.Answer(string(x.server.agent.ID), time.Now())
	response.Err = err
	x.post(response.Append(nil), m.CorrelationData)
}

// reject answers that an invocation will not be run, which ends it.
func (x *jobs) reject(j *job, reason string) {
	x.emit(j, "task.rejected", map[string]any{"reason": reason})
	j.mu.Lock()
	j.done = true
	j.mu.Unlock()
}

// accept reports that an invocation is running.
func (x *jobs) accept(j *job) { x.emit(j, "task.accepted", struct{}{}) }

// emit sends an event about a job that is at work, its acceptance first. It
// is sent at most once and not waited for.
func (x *jobs) emit(j *job, name string, data any) {
	raw, err := json.Marshal(data)
	if err != nil {
		x.server.client.log.Warn("event not sent", "event", name, "error", err)
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.done || j.accepted && name == "task.accepted" {
		return
	}
	if !j.accepted && name != "task.rejected" && name != "task.accepted" {
		x.event(j, "task.accepted", []byte("{}"))
	}
	j.accepted = true
	x.event(j, name, raw)
}

func (x *jobs) event(j *job, name string, data []byte) {
	j.seq++
	event := protocol.Event{
		Version: protocol.Version, ID: j.in.ID, Timestamp: time.Now().UnixMilli(),
		Name: name, Seq: j.seq, Data: data,
		Metadata: protocol.Metadata{SenderID: string(x.server.agent.ID), TraceID: j.in.TraceID},
	}
	if l := x.server.client.current(); l != nil {
		_ = x.publish(l.ctx, l, &Message{Payload: event.Append(nil), CorrelationData: j.correlation})
	}
}

// post sends an answer in the background. With too many on their way it waits for a
// place, and so do the requests that come next: they stay with the bridge, which
// has its own bounds. The acknowledgements that make room are read by another
// goroutine. If the connection is lost meanwhile the answer is dropped: the bridge
// sends the request again.
func (x *jobs) post(answer, correlation []byte) {
	if !x.enterPost() {
		x.server.client.log.Warn("answer not sent: the connection is lost", "agent", x.server.agent.ID)
		return
	}
	go func() {
		defer func() { <-x.posted }()
		x.send(answer, correlation, time.Now().Add(answerTimeout))
	}()
}

// enterPost waits for a place among the answers on their way, for as long as the
// connection lasts.
func (x *jobs) enterPost() bool {
	select {
	case x.posted <- struct{}{}:
		return true
	default:
	}
	l := x.server.client.current()
	if l == nil {
		return false
	}
	select {
	case x.posted <- struct{}{}:
		return true
	case <-l.ctx.Done():
		return false
	}
}

// send sends an answer, over the next connection if need be. A closing client does
// not wait for that.
func (x *jobs) send(answer, correlation []byte, until time.Time) {
	c := x.server.client
	ctx, cancel := context.WithDeadline(c.ctx, until)
	defer cancel()
	m := &Message{Payload: answer, QoS: 1, CorrelationData: correlation}
	for attempt := 1; ; attempt++ {
		l, err := x.connection(ctx)
		if err == nil {
			err = x.publish(ctx, l, m)
		}
		var refused *protocol.Error
		switch {
		case err == nil || c.ctx.Err() != nil:
			return
		case l == nil && x.closing.Err() != nil, errors.As(err, &refused) || sleep(ctx, backoff(attempt, maxBackoff)) != nil:
			c.log.Warn("answer not sent", "agent", x.server.agent.ID, "error", err)
			return
		}
	}
}

// connection waits for a connection, unless the client closes: then it is the one
// that is there, or none.
func (x *jobs) connection(ctx context.Context) (*connection, error) {
	c := x.server.client
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(x.closing, cancel)()
	l, err := c.online(waiting)
	if err != nil && x.closing.Err() != nil {
		if l = c.current(); l != nil {
			err = nil
		}
	}
	return l, err
}

// publish publishes on the agent's response topic.
func (x *jobs) publish(ctx context.Context, l *connection, m *Message) error {
	m.Topic = x.server.client.Topics().AgentResponse(x.server.agent.ID)
	m.ContentType = protocol.ContentJSON
	m.UserProperties = []UserProperty{{Key: "version", Value: protocol.Version}}
	return x.server.client.send(ctx, l, m)
}

// close stops taking invocations, cancels those at work and waits for them.
func (x *jobs) close(patience time.Duration) {
	x.mu.Lock()
	if !x.closed {
		x.closed = true
		for _, j := range x.byID {
			if j.cancel != nil && j.answer == nil {
				j.cancel(errStopping)
			}
		}
	}
	x.mu.Unlock()
	x.begin()
	done := make(chan struct{})
	go func() { x.running.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(patience):
		x.server.client.log.Warn("handlers do not stop")
	}
}
