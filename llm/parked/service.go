package parked

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/fair"
	"github.com/aibridge/aibridge/internal/records"
	"github.com/aibridge/aibridge/llm/approval"
	"github.com/aibridge/aibridge/llm/tools"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/protocol/grant"
)

// A Sealer encrypts data, bound to a purpose.
type Sealer interface {
	Seal(plain []byte, purpose string) ([]byte, error)
	Open(sealed []byte, purpose string) ([]byte, error)
}

// A Continue resumes a task and returns its result, or [ErrParked] when the task waits
// again. It must have no effect before it has used the approval or stored the state of
// the task, see [Job.Start] and [Job.Keep]: two bridges may begin, and only one of them
// succeeds in either.
type Continue func(ctx context.Context, job *Job) (json.RawMessage, error)

// Options configure a [Service]. Zero fields mean the defaults.
type Options struct {
	Tasks     records.Table[Record]
	Approvals *approval.Service
	// KeptElse reports whether a waiter outside this package keeps an approval. Nil for
	// no such waiters.
	KeptElse func(task, approval string) bool
	Grants   grant.Authority
	Sealer   Sealer
	// Publish sends an event of a task on its topic.
	Publish func(to protocol.Recipients, id protocol.TaskID, e *protocol.Event)
	// Return sends the end of a task to the address at which its caller got
	// task.waiting. Nil sends none.
	Return   func(who *protocol.Principal, to *commands.ReturnAddress, e *protocol.Event)
	BridgeID string

	Wait         time.Duration // time that a call waits for a decision before it is answered as parked, default 120 s
	MaxRunning   int           // tasks that run at once, shared among principals and spaces, default 64; more wait for their turn
	MaxKept      int           // bytes kept of one task, default 1 MiB
	MaxOwnBytes  int           // bytes of all waiting tasks of one principal, default 16 MiB
	MaxOpenBytes int           // bytes of all waiting tasks of a space, default 256 MiB
	Keep         time.Duration // retention of ended tasks, default 7 days
	MaxEnded     int           // ended tasks of one space, default 10 000
	MaxOwnEnded  int           // ended tasks of one principal, default 1000

	Log        *slog.Logger
	Now        func() time.Time
	Registerer prometheus.Registerer
}

// A Service stores and resumes tasks that wait for approvals. It is safe for use by
// many goroutines.
type Service struct {
	opts      Options
	continues map[string]Continue // by command
	began     time.Time
	beganAt   int64 // Unix ms
	tally     *tally

	ctx  context.Context // ends when the service closes
	stop context.CancelCauseFunc
	wg   sync.WaitGroup

	mu       sync.Mutex
	closed   bool
	running  bool              // [Service.Run] has begun
	ready    []protocol.TaskID // tasks to be taken up
	stir     chan struct{}
	busy     map[protocol.TaskID]*turn         // turns of the tasks that run here
	heard    map[protocol.TaskID][]*attendance // callers that wait
	seqs     map[protocol.TaskID]uint64        // sequence numbers of the last events, of tasks that have not ended
	disowned map[protocol.TaskID]time.Time     // tasks to be removed, see disown, with the times of their writes
	inVain   map[protocol.TaskID]int           // failed attempts in a row, see goesOnAgain
}

// A turn is the exclusive handling of a task by one goroutine.
type turn struct {
	cancel context.CancelCauseFunc
	again  bool          // the task was enqueued again meanwhile
	done   chan struct{} // closed at the end of the turn
}

// errClosing is the cause of the end of turns when the service closes. Their tasks are
// resumed later.
var errClosing = protocol.Errorf(protocol.ShuttingDown, "the bridge is stopping")

// New returns a service. It follows the tables, so call it before they are loaded; call
// [Service.Handle] before [Service.Run].
func New(o Options) *Service {
	o.Wait = cmp.Or(o.Wait, tools.DefaultTimeout)
	o.MaxRunning = cmp.Or(o.MaxRunning, 64)
	o.MaxKept = cmp.Or(o.MaxKept, 1<<20)
	o.MaxOwnBytes = cmp.Or(o.MaxOwnBytes, 16<<20)
	o.MaxOpenBytes = cmp.Or(o.MaxOpenBytes, 256<<20)
	o.Keep = cmp.Or(o.Keep, 7*24*time.Hour)
	o.MaxEnded = cmp.Or(o.MaxEnded, 10_000)
	o.MaxOwnEnded = cmp.Or(o.MaxOwnEnded, 1000)
	o.BridgeID = cmp.Or(o.BridgeID, "aibridge")
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Publish == nil {
		o.Publish = func(protocol.Recipients, protocol.TaskID, *protocol.Event) {}
	}
	s := &Service{
		opts: o, began: time.Now(), beganAt: o.Now().UnixMilli(), continues: make(map[string]Continue), tally: newTally(),
		stir: make(chan struct{}, 1), busy: make(map[protocol.TaskID]*turn), heard: make(map[protocol.TaskID][]*attendance), seqs: make(map[protocol.TaskID]uint64),
		disowned: make(map[protocol.TaskID]time.Time), inVain: make(map[protocol.TaskID]int),
	}
	s.ctx, s.stop = context.WithCancelCause(context.Background())
	o.Tasks.OnChange(s.changed)
	o.Approvals.OnSettled(s.settled)
	o.Approvals.OnSweep(s.keeps)
	s.register(o.Registerer)
	return s
}

// Handle registers the [Continue] of a command's tasks.
func (s *Service) Handle(command string, c Continue) { s.continues[command] = c }

// changed counts a task and wakes the callers that wait for it.
func (s *Service) changed(_ string, old, now *Record) {
	s.tally.changed(old, now)
	s.mu.Lock()
	defer s.mu.Unlock()
	if now == nil {
		if old != nil {
			delete(s.heard, old.ID)
		}
		return
	}
	for _, a := range s.heard[now.ID] {
		a.wake()
	}
	if t := s.busy[now.ID]; t != nil && now.State.Over() { // by another bridge, or as this turn has stored
		t.cancel(errNotMine)
	}
	if _, unwanted := s.disowned[now.ID]; unwanted && s.running {
		s.ready = append(s.ready, now.ID)
		s.wake()
	}
}

// settled enqueues a task whose approval is settled.
func (s *Service) settled(task string) { s.enqueue(protocol.TaskID(task)) }

// enqueue adds a task to those to be taken up, if [Service.Run] runs here. In a cluster
// one bridge resumes the tasks of all, and looks at each task when it begins.
func (s *Service) enqueue(id protocol.TaskID) {
	s.mu.Lock()
	if s.running {
		s.ready = append(s.ready, id)
	}
	s.mu.Unlock()
	s.wake()
}

// wake has [Service.Run] look at the ready tasks.
func (s *Service) wake() {
	select {
	case s.stir <- struct{}{}:
	default:
	}
}

// dequeue removes and returns all ready tasks.
func (s *Service) dequeue() []protocol.TaskID {
	s.mu.Lock()
	defer s.mu.Unlock()
	ready := s.ready
	s.ready = nil
	return ready
}

// tidyPace is the interval of [Service.tidy].
const tidyPace = time.Minute

// Run resumes the tasks that an earlier process has left, and those whose approvals are
// settled from then on, until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	s.mu.Lock()
	s.running = true
	s.mu.Unlock()
	s.recover(ctx)
	tick := time.NewTicker(tidyPace)
	defer tick.Stop()
	q, places := newQueue(), fair.New(fair.Options{What: "parked tasks", Capacity: int64(s.opts.MaxRunning)})
	for {
		if !s.takeUpReady(q, places) {
			return nil
		}
		select {
		case <-s.stir:
		case <-tick.C:
			s.tidy(ctx)
		case <-ctx.Done():
			return nil
		}
	}
}

// takeUpReady takes up the tasks that are ready, as far as their principals and
// spaces have places left. The others stay in the queue. It reports false when the
// service closes.
func (s *Service) takeUpReady(q *queue, places *fair.Semaphore) bool {
	for _, id := range s.dequeue() {
		if r, _, ok := s.opts.Tasks.Get(string(id)); ok && !q.has(id) {
			party := r.Grant.Party()
			q.add(fair.Party{Principal: party.String(), Space: string(party.Space)}, id)
		}
	}
	for who, id := range q.take(places) {
		if !s.admit() {
			return false
		}
		go func() {
			defer s.wg.Done()
			defer s.wake()
			defer places.Release(who, 1)
			s.takeUp(s.ctx, id)
		}()
	}
	return true
}

// admit counts a goroutine for Close, unless the service closes. It reports whether it
// did.
func (s *Service) admit() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.wg.Add(1)
	}
	return !s.closed
}

// Close ends all waits with the answer that the task still waits, and stops the running
// tasks, which the next bridge resumes.
func (s *Service) Close(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
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

func (s *Service) register(r prometheus.Registerer) {
	if r == nil {
		return
	}
	r.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "aibridge_parked_tasks", Help: "Tasks that wait for an approval, or go on after one.",
	}, func() float64 { tasks, _ := s.tally.total(); return float64(tasks) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "aibridge_parked_bytes", Help: "Bytes that are kept of them.",
		}, func() float64 { _, bytes := s.tally.total(); return float64(bytes) }))
}
