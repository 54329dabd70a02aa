package task

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/fair"
	"github.com/aibridge/aibridge/internal/telemetry/semconv"
	"github.com/aibridge/aibridge/protocol"
)

// A run is a task until it ends.
type run struct {
	id     protocol.TaskID
	do     func(context.Context) (json.RawMessage, error)
	cancel context.CancelCauseFunc
	place  *fair.Ticket  // among those that run
	done   chan struct{} // closed when the end is stored

	parent string // W3C trace context of the call, "" without one

	mu   sync.Mutex
	task *Task  // as it is now, progress included
	seq  uint64 // of events

	noting sync.Mutex // held before mu while the task is stored
}

// now is the task as it is now. It must not be changed.
func (r *run) now() *Task {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.task
}

// Start stores a task for the call and runs it in the background until the
// call's deadline.
func (s *Service) Start(ctx context.Context, call *commands.Call, do func(context.Context) (json.RawMessage, error)) (protocol.TaskID, error) {
	return s.start(ctx, call, nil, do)
}

func (s *Service) start(ctx context.Context, call *commands.Call, of *Dialogue, do func(context.Context) (json.RawMessage, error)) (protocol.TaskID, error) {
	id, err := uuid.NewV7() // grows with time, which is the order of task.list
	if err != nil {
		return "", err
	}
	r := &run{id: protocol.TaskID(id.String()), do: do, done: make(chan struct{}), parent: semconv.Traceparent(ctx)}
	r.task = &Task{
		ID:        r.id,
		Command:   call.Command,
		State:     Pending,
		Principal: call.Principal.ID,
		Kind:      call.Principal.Kind,
		Space:     call.Principal.Home(),
		TraceID:   call.TraceID,
		Started:   s.Now().UTC(),
		Owner:     s.Owner,
		Dialogue:  of,
	}
	taskCtx, cancel := context.WithCancelCause(context.WithoutCancel(ctx)) // keeps the trace
	r.cancel = cancel
	if err := s.admit(r); err != nil {
		cancel(nil)
		return "", err
	}
	ticket, full := s.places.Enter(fair.Of(call.Principal), 1)
	if full != nil {
		cancel(nil)
		s.leave(r)
		return "", full
	}
	r.place = ticket
	begins := ticket.Granted()
	if begins {
		r.task.State = Running
	}
	if _, err := s.Tasks.Create(ctx, string(r.id), r.task); err != nil {
		r.place.GiveUp()
		cancel(nil)
		s.leave(r)
		return "", err
	}
	call.SendEventsTo(func(event string, data any) { s.progress(r, event, data) })
	go s.carry(taskCtx, r, begins, call.Deadline)
	return r.id, nil
}

// carry brings a task to its end.
func (s *Service) carry(ctx context.Context, r *run, begun bool, deadline time.Time) {
	defer s.leave(r)
	defer r.cancel(nil)
	defer s.onClose(func() { r.cancel(errClosing) })()
	ctx, release := context.WithDeadline(ctx, deadline)
	defer release()
	if !begun {
		if err := s.begin(ctx, r); err != nil {
			s.finish(ctx, r, nil, err)
			return
		}
	}
	defer r.place.GiveUp()
	result, err := r.do(ctx)
	if err != nil {
		err = reason(ctx, err)
	}
	s.finish(ctx, r, result, err)
}

// onClose has f called when the service closes, unless it is stopped before.
func (s *Service) onClose(f func()) (stop func() bool) { return context.AfterFunc(s.ctx, f) }

// begin waits for a place and makes durable that the task runs.
func (s *Service) begin(ctx context.Context, r *run) error {
	err := r.place.Wait(ctx)
	had := err == nil
	r.noting.Lock()
	defer r.noting.Unlock()
	running := *s.noted(r)
	running.State = Running
	if had {
		err = context.Cause(ctx)
	}
	switch {
	case s.ctx.Err() != nil: // the slot may have come from one that the end of the service stopped
		err = stopped(Pending)
	case err == nil:
		_, err = s.Tasks.Put(ctx, string(r.id), &running)
	}
	if err != nil {
		if had {
			r.place.GiveUp()
		}
		return err
	}
	r.mu.Lock()
	r.task = &running
	r.mu.Unlock()
	return nil
}

// reason is the error of a failed task: the cause of its end from outside, or
// else the command's own error.
func reason(ctx context.Context, err error) error {
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errClosing):
		return stopped(Running)
	case cause != nil && errors.Is(err, context.Canceled):
		return cause
	}
	return err
}

// wait returns when the run has ended and its end is stored.
func (r *run) wait(ctx context.Context) error {
	select {
	case <-r.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// finish stores the end of a task and publishes it on the task's topic.
func (s *Service) finish(ctx context.Context, r *run, result json.RawMessage, err error) {
	if len(result) > s.MaxResult {
		result = nil
		if err == nil {
			err = protocol.Errorf(protocol.PayloadTooLarge, "the result has more than %d bytes and is not kept", s.MaxResult).
				With("limit", s.MaxResult)
		}
	}
	r.noting.Lock()
	defer r.noting.Unlock()
	noted := s.noted(r)
	ended := noted.end(result, err, s.Now())
	if next := new(HandOver); errors.As(err, &next) && noted.Dialogue != nil {
		ended = noted.handedOver(next.To, s.Now())
	}
	s.store(context.WithoutCancel(ctx), ended)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.task = ended
	s.publish(r, "task."+string(ended.State), ended.shown())
}

const (
	endWrite     = 10 * time.Second // for storing an end, even past the task's own deadline
	firstPause   = 100 * time.Millisecond
	longestPause = 30 * time.Second
)

// store stores the end of a task. While the store is away it keeps trying for
// about a minute; after that the task ends with 4012 at the next start.
func (s *Service) store(ctx context.Context, ended *Task) {
	for pause := firstPause; ; pause *= 2 {
		writeCtx, cancel := context.WithTimeout(ctx, endWrite)
		_, err := s.Tasks.Put(writeCtx, string(ended.ID), ended)
		cancel()
		if err == nil {
			return
		}
		if pause > longestPause || s.ctx.Err() != nil {
			s.Log.Error("the end of a task is not stored", "task", ended.ID, "state", ended.State, "error", err)
			return
		}
		select {
		case <-time.After(pause):
		case <-s.ctx.Done():
		}
	}
}

// progress notes an event of a running task and passes it on.
func (s *Service) progress(r *run, event string, data any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.task.State.over() {
		return
	}
	raw := s.publish(r, event, data)
	if raw == nil {
		return
	}
	told := *r.task
	told.Progress = &Progress{Event: event, Seq: r.seq, Data: raw}
	r.task = &told
}

// publish sends the next event of a run, whose lock is held, and returns its
// data.
func (s *Service) publish(r *run, event string, data any) json.RawMessage {
	raw, err := json.Marshal(data)
	if err != nil {
		s.Log.Error("an event of a task cannot be told", "task", r.id, "event", event, "error", err)
		return nil
	}
	r.seq++
	s.Publish(protocol.Everybody(cmp.Or(r.task.Space, protocol.DefaultSpace)), r.id, &protocol.Event{
		Version:   protocol.Version,
		ID:        string(r.id),
		Timestamp: s.Now().UnixMilli(),
		Name:      event,
		Seq:       r.seq,
		Data:      raw,
		Metadata:  protocol.Metadata{SenderID: s.BridgeID, TraceID: r.task.TraceID}, Traceparent: r.parent,
	})
	return raw
}
