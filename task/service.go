package task

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

// What is kept of tasks that have ended.
const (
	keepFor   = 24 * time.Hour
	keepCount = 10_000
	sweepPace = time.Minute
	endWrite  = 10 * time.Second // for storing how a task ended, whatever its own deadline
)

// A Table keeps tasks durably, by id.
type Table interface {
	Get(id string) (t *Task, revision uint64, ok bool)
	All() iter.Seq2[string, *Task]
	Len() int
	Create(ctx context.Context, id string, t *Task) (revision uint64, err error)
	Put(ctx context.Context, id string, t *Task) (revision uint64, err error)
	Delete(ctx context.Context, id string, expect uint64) error
}

// Options configure a [Service].
type Options struct {
	Tasks Table
	// Publish sends an event of a task on its topic.
	Publish  func(id protocol.TaskID, e *protocol.Event)
	BridgeID string
	MaxTasks int // running at once, default 10 000
	Log      *slog.Logger
	Now      func() time.Time
}

// A Service runs tasks and answers questions about them.
type Service struct {
	Options
	ctx  context.Context // ends when the service closes
	stop context.CancelCauseFunc
	wg   sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	running map[protocol.TaskID]*run
}

var _ commands.Tasks = (*Service)(nil)

// A run is a task while it runs.
type run struct {
	task   *Task // as stored
	cancel context.CancelCauseFunc
	done   chan struct{} // closed when the end is stored

	mu       sync.Mutex
	progress *Progress
}

// New makes a service. Start its housekeeping with [Service.Recover].
func New(o Options) *Service {
	if o.MaxTasks == 0 {
		o.MaxTasks = 10_000
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Publish == nil {
		o.Publish = func(protocol.TaskID, *protocol.Event) {}
	}
	s := &Service{Options: o, running: make(map[protocol.TaskID]*run)}
	s.ctx, s.stop = context.WithCancelCause(context.Background())
	return s
}

// Recover fails the tasks that an earlier process left running, and from then
// on forgets old ones. It is called once, when the table is loaded.
func (s *Service) Recover(ctx context.Context) error {
	for id, t := range s.Tasks.All() {
		if t.State != Running {
			continue
		}
		lost := t.end(nil, protocol.Errorf(protocol.OutcomeUnknown, "the bridge stopped while the task was running"), s.Now())
		if _, err := s.Tasks.Put(ctx, id, lost); err != nil {
			return err
		}
	}
	s.wg.Go(s.sweep)
	return nil
}

// Close cancels what is running with 5002 and waits until its end is stored.
func (s *Service) Close(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.stop(protocol.Errorf(protocol.ShuttingDown, "the bridge is stopping"))
	done := make(chan struct{})
	go func() {
		s.wg.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Start stores a task for the call and runs it in the background until the
// call's deadline.
func (s *Service) Start(ctx context.Context, call *commands.Call, do func(context.Context) (json.RawMessage, error)) (protocol.TaskID, error) {
	id, err := uuid.NewV7() // grows with time, which is the order of task.list
	if err != nil {
		return "", err
	}
	r := &run{
		task: &Task{
			ID:        protocol.TaskID(id.String()),
			Command:   call.Command,
			State:     Running,
			Principal: call.Principal.ID,
			Space:     call.Principal.Space,
			TraceID:   call.TraceID,
			Started:   s.Now().UTC(),
		},
		done: make(chan struct{}),
	}
	taskCtx, cancel := context.WithCancelCause(s.ctx)
	r.cancel = cancel
	if err := s.admit(r); err != nil {
		cancel(nil)
		return "", err
	}
	if _, err := s.Tasks.Create(ctx, id.String(), r.task); err != nil {
		cancel(nil)
		s.leave(r)
		return "", err
	}
	call.SendEventsTo(func(event string, data any) { s.progress(r, event, data) })
	go func() {
		defer s.leave(r)
		defer cancel(nil)
		taskCtx, release := context.WithDeadline(taskCtx, call.Deadline)
		defer release()
		result, err := do(taskCtx)
		if cause := context.Cause(taskCtx); err != nil && errors.Is(err, context.Canceled) && cause != nil {
			err = cause // says who cancelled, which the handler does not know
		}
		s.finish(r, result, err)
	}()
	return r.task.ID, nil
}

// admit takes a run up, if there is room.
func (s *Service) admit(r *run) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return protocol.Errorf(protocol.ShuttingDown, "the bridge is stopping")
	case len(s.running) >= s.MaxTasks:
		return protocol.BusyFor(time.Second, "too many tasks are running")
	}
	s.running[r.task.ID] = r
	s.wg.Add(1)
	return nil
}

func (s *Service) leave(r *run) {
	s.mu.Lock()
	delete(s.running, r.task.ID)
	s.mu.Unlock()
	close(r.done)
	s.wg.Done()
}

func (s *Service) find(id protocol.TaskID) *run {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.running[id]
}

// finish stores how a task ended and tells it on the task's topic.
func (s *Service) finish(r *run, result json.RawMessage, err error) {
	ended := r.task.end(result, err, s.Now())
	ctx, cancel := context.WithTimeout(context.Background(), endWrite)
	defer cancel()
	if _, err := s.Tasks.Put(ctx, string(ended.ID), ended); err != nil {
		s.Log.Error("the end of a task is not stored", "task", ended.ID, "state", ended.State, "error", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	s.publish(r, "task."+string(ended.State), ended)
}

// progress notes an event of a running task and passes it on.
func (s *Service) progress(r *run, event string, data any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s.publish(r, event, data)
}

// publish sends the next event of a run, whose lock is held.
func (s *Service) publish(r *run, event string, data any) {
	raw, err := json.Marshal(data)
	if err != nil {
		s.Log.Error("an event of a task cannot be told", "task", r.task.ID, "event", event, "error", err)
		return
	}
	next := &Progress{Event: event, Seq: 1, Data: raw}
	if r.progress != nil {
		next.Seq = r.progress.Seq + 1
	}
	r.progress = next
	s.Publish(r.task.ID, &protocol.Event{
		Version:   protocol.Version,
		ID:        string(r.task.ID),
		Timestamp: s.Now().UnixMilli(),
		Name:      event,
		Seq:       next.Seq,
		Data:      raw,
		Metadata:  protocol.Metadata{SenderID: s.BridgeID, TraceID: r.task.TraceID},
	})
}

// view is a task as it is right now.
func (s *Service) view(t *Task) Task {
	shown := *t
	if r := s.find(t.ID); r != nil && t.State == Running {
		r.mu.Lock()
		shown.Progress = r.progress
		r.mu.Unlock()
	}
	return shown
}

// lookup finds a task that the caller may see.
func (s *Service) lookup(who *protocol.Principal, id protocol.TaskID) (*Task, error) {
	t, _, ok := s.Tasks.Get(string(id))
	if !ok || !t.visibleTo(who) {
		return nil, protocol.Errorf(protocol.NotFound, "no task %q", id).With("task_id", id)
	}
	return t, nil
}

// Commands are the commands of the family.
func (s *Service) Commands() []commands.Command {
	return []commands.Command{
		commands.New(get, s.Get),
		commands.New(cancel, s.Cancel),
		commands.New(list, s.List),
	}
}
