package task

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/fair"
	"github.com/aibridge/aibridge/internal/records"
	"github.com/aibridge/aibridge/protocol"
)

// Options configure a [Service].
type Options struct {
	Tasks records.Table[Task]
	// Others keep tasks of their own: those of groups, and those that wait for an
	// approval.
	Others []Source
	// Runs are runs of workflows, which do the work of tasks that messages began; nil:
	// there are none.
	Runs func(protocol.TaskID) (*Task, bool)
	// Run reports whether a principal may see a run of that id; nil: there are none.
	Run func(who *protocol.Principal, id protocol.TaskID) bool
	// Publish sends an event of a task on its topic.
	Publish  func(to protocol.Recipients, id protocol.TaskID, e *protocol.Event)
	BridgeID string
	// Owner names this process among those that have tasks at the same time, "" if it is the only
	// one. Orphaned returns a function that reports whether an owner has ended, of those that
	// records named before the call; nil: all have.
	Owner    string
	Orphaned func(ctx context.Context) (func(owner string) bool, error)
	// Elsewhere returns the function that cancels a task of another process; ok is false
	// if this one does. Nil where there is no other.
	Elsewhere  func(*Task) (cancel func(ctx context.Context, reason string) (Task, error), ok bool)
	MaxRunning int // tasks at once, default 1000; more are pending
	MaxTasks   int // running and pending ones, default 10 000; more are refused
	MaxOwn     int // of these, of one principal, default 1000
	MaxResult  int // bytes of a result, default 512 KiB
	Log        *slog.Logger
	Now        func() time.Time
	Registerer prometheus.Registerer // nil keeps the metrics to itself
}

// A Service runs tasks and answers questions about them.
type Service struct {
	Options
	ctx    context.Context // ends when the service closes
	stop   context.CancelCauseFunc
	wg     sync.WaitGroup
	places *fair.Semaphore // for those that run

	mu     sync.Mutex
	closed bool
	live   map[protocol.TaskID]*run // pending and running
	own    map[protocol.Party]int   // of these
}

var _ commands.Tasks = (*Service)(nil)

// New makes a service. Start its housekeeping with [Service.Recover].
func New(o Options) *Service {
	o.MaxRunning = cmp.Or(o.MaxRunning, 1000)
	o.MaxTasks = cmp.Or(o.MaxTasks, 10_000)
	o.MaxOwn = cmp.Or(o.MaxOwn, 1000)
	o.MaxResult = cmp.Or(o.MaxResult, 512<<10)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Orphaned == nil {
		o.Orphaned = func(context.Context) (func(string) bool, error) { return func(string) bool { return true }, nil }
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Publish == nil {
		o.Publish = func(protocol.Recipients, protocol.TaskID, *protocol.Event) {}
	}
	s := &Service{
		Options: o,
		places:  fair.New(fair.Options{What: "tasks", Capacity: int64(o.MaxRunning), Waiting: o.MaxTasks}),
		live:    make(map[protocol.TaskID]*run),
		own:     make(map[protocol.Party]int),
	}
	s.ctx, s.stop = context.WithCancelCause(context.Background())
	s.register(o.Registerer)
	return s
}

// Recover fails the tasks that an earlier process did not bring to an end,
// and from then on forgets old ones. It is called once, when the table is
// loaded.
func (s *Service) Recover(ctx context.Context) error {
	if err := s.FailOrphans(ctx); err != nil {
		return err
	}
	s.wg.Go(s.sweep)
	return nil
}

// FailOrphans fails the tasks whose owner has ended.
func (s *Service) FailOrphans(ctx context.Context) error {
	var unfinished []protocol.TaskID
	for id, t := range s.Tasks.All() {
		if !t.State.over() && !t.hasSuccessor() && s.find(protocol.TaskID(id)) == nil {
			unfinished = append(unfinished, protocol.TaskID(id))
		}
	}
	if len(unfinished) == 0 {
		return nil
	}
	orphaned, err := s.Orphaned(ctx)
	if err != nil {
		return err
	}
	for _, id := range unfinished {
		_, _, err := records.Change(ctx, s.Tasks, string(id), func(t *Task, _ uint64) (*Task, error) {
			if t == nil || t.State.over() || t.hasSuccessor() || !orphaned(t.Owner) {
				return t, nil
			}
			return t.end(nil, stopped(t.State), s.Now()), nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// stopped is the error for a task that the bridge did not bring to an end.
func stopped(state State) error {
	if state == Pending {
		return protocol.Errorf(protocol.ShuttingDown, "the bridge stopped before the task began")
	}
	return protocol.Errorf(protocol.OutcomeUnknown, "the bridge stopped while the task was running")
}

// maxNamed is the number of tasks that are named when they were cut off.
const maxNamed = 20

// Close ends the running tasks, logs their ids, and waits until their ends are
// stored.
func (s *Service) Close(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	ids := make([]protocol.TaskID, 0, maxNamed)
	for id := range s.live {
		if len(ids) < maxNamed {
			ids = append(ids, id)
		}
	}
	live := len(s.live)
	s.mu.Unlock()
	if live > 0 {
		s.Log.Warn("tasks were cut off: the bridge stops", "tasks", live, "among_them", ids)
	}
	s.stop(errClosing)
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

// errClosing is the reason why tasks end when the service closes.
var errClosing = protocol.Errorf(protocol.ShuttingDown, "the bridge is stopping")

// admit takes a run up, if there is room.
func (s *Service) admit(r *run) error {
	owner := r.now().owner()
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return errClosing
	case s.own[owner] >= s.MaxOwn:
		return protocol.BusyFor(time.Second, "too many of your tasks have not ended").With("limit", s.MaxOwn)
	case len(s.live) >= s.MaxTasks:
		return protocol.BusyFor(time.Second, "too many tasks have not ended")
	}
	s.live[r.id] = r
	s.own[owner]++
	s.wg.Add(1)
	return nil
}

// leave forgets a run that is over.
func (s *Service) leave(r *run) {
	owner := r.now().owner()
	s.mu.Lock()
	delete(s.live, r.id)
	if s.own[owner]--; s.own[owner] == 0 {
		delete(s.own, owner)
	}
	s.mu.Unlock()
	close(r.done)
	s.wg.Done()
}

func (s *Service) find(id protocol.TaskID) *run {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.live[id]
}

// view is a task as it is right now, as callers see it.
func (s *Service) view(t *Task) Task {
	if t.Dialogue == nil {
		return s.latest(t)
	}
	return *s.standing(t).shown()
}

// latest is the newest state of a task: that in memory while it runs, else t.
func (s *Service) latest(t *Task) Task {
	if r := s.find(t.ID); r != nil {
		return *r.now()
	}
	return *t
}

// lookup finds a task that the caller may see.
func (s *Service) lookup(who *protocol.Principal, id protocol.TaskID) (*Task, error) {
	t, err := s.known(id)
	switch {
	case err == nil && !t.visibleTo(who):
		return nil, notFound(id)
	case err != nil && s.Run != nil && s.Run(who, id):
		return nil, protocol.Errorf(protocol.NotFound, "%q is a run of a workflow: llm.run.status shows it, llm.run.cancel ends it", id).With("run_id", id)
	}
	return t, err
}

func notFound(id protocol.TaskID) error {
	return protocol.Errorf(protocol.NotFound, "no task %q", id).With("task_id", id)
}

// known finds a task.
func (s *Service) known(id protocol.TaskID) (*Task, error) {
	t, _, ok := s.Tasks.Get(string(id))
	for i := 0; !ok && i < len(s.Others); i++ {
		t, ok = s.Others[i].Get(id)
	}
	if !ok {
		return nil, notFound(id)
	}
	return t, nil
}

// keeper is the other source that keeps a task, nil of one of the service's own.
func (s *Service) keeper(id protocol.TaskID) Source {
	for _, other := range s.Others {
		if _, ok := other.Get(id); ok {
			return other
		}
	}
	return nil
}

// MayFollow reports whether a principal may listen to the events of a task.
func (s *Service) MayFollow(who *protocol.Principal, id protocol.TaskID) bool {
	_, err := s.lookup(who, id)
	return err == nil
}

// Commands are the commands of the family.
func (s *Service) Commands() []commands.Command {
	return []commands.Command{
		commands.New(get, s.Get),
		commands.New(cancel, s.Cancel),
		commands.New(list, s.List),
	}
}

// register registers the metrics of tasks.
func (s *Service) register(r prometheus.Registerer) {
	if r == nil {
		return
	}
	for _, gauge := range []struct {
		name, help string
		value      func() int
	}{
		{"aibridge_tasks_running", "Tasks that run.", func() int { return int(s.places.Used()) }},
		{"aibridge_tasks_unfinished", "Tasks that run or wait for others to end.", func() int {
			s.mu.Lock()
			defer s.mu.Unlock()
			return len(s.live)
		}},
		{"aibridge_tasks_kept", "Tasks that are known, ended ones included.", s.Tasks.Len},
	} {
		err := r.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: gauge.name, Help: gauge.help},
			func() float64 { return float64(gauge.value()) }))
		if err != nil {
			s.Log.Warn("metric not registered", "metric", gauge.name, "error", err)
		}
	}
}
