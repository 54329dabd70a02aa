package a2a

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/aibridge/aibridge/llm/tools"
	"github.com/aibridge/aibridge/protocol"
)

// Bounds of feeds.
const (
	pace    = 50 * time.Millisecond // interval of looks at a task
	backlog = 256                   // events that wait for one listener
)

// feeds sends the changes of tasks to listeners. One goroutine watches a task for all
// its listeners, so all get the same events in the same order.
type feeds struct {
	door *Door

	mu   sync.Mutex
	open map[protocol.TaskID]*feed
}

// A feed is the news of one task.
type feed struct {
	id        protocol.TaskID
	env       tools.Environment
	last      *Task // state that the listeners have
	listeners map[*listener]struct{}
	stop      context.CancelFunc
}

// A listener receives the events of a task. Its channel is closed after the last event,
// or when it does not keep up.
type listener struct {
	events chan StreamResponse
	slow   bool // closed because it did not keep up; set before
}

func newFeeds(d *Door) *feeds { return &feeds{door: d, open: make(map[protocol.TaskID]*feed)} }

// listen adds a listener to a task: it gets first the current state, then the changes.
// It fails if the environment's principal has no such task.
func (fs *feeds) listen(ctx context.Context, env tools.Environment, id protocol.TaskID) (l *listener, leave func(), err error) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	f := fs.open[id]
	if f == nil {
		now, err := fs.look(ctx, env, id)
		if err != nil {
			return nil, nil, err
		}
		f = &feed{id: id, env: env, last: now, listeners: make(map[*listener]struct{})}
		var watching context.Context
		watching, f.stop = context.WithCancel(context.Background())
		fs.open[id] = f
		go fs.watch(watching, f)
	}
	l = &listener{events: make(chan StreamResponse, backlog)}
	first := *f.last
	l.events <- StreamResponse{Task: &first}
	if f.last.Status.State.terminal() {
		close(l.events)
		return l, func() {}, nil
	}
	f.listeners[l] = struct{}{}
	return l, func() { fs.leave(f, l) }, nil
}

// leave ends the listening of one.
func (fs *feeds) leave(f *feed, l *listener) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	delete(f.listeners, l)
	if len(f.listeners) == 0 {
		fs.end(f)
	}
}

// end forgets a feed. fs.mu is held.
func (fs *feeds) end(f *feed) {
	f.stop()
	if fs.open[f.id] == f {
		delete(fs.open, f.id)
	}
	for l := range f.listeners {
		delete(f.listeners, l)
		close(l.events)
	}
}

// look returns the current state of a task.
func (fs *feeds) look(ctx context.Context, env tools.Environment, id protocol.TaskID) (*Task, error) {
	s, err := fs.door.opts.Tasks.Standing(env.Principal, id)
	if err != nil {
		return nil, err
	}
	return fs.door.form(ctx, env, s), nil
}

// watch watches a task until it has ended or has no listeners.
func (fs *feeds) watch(ctx context.Context, f *feed) {
	ticker := time.NewTicker(pace)
	defer ticker.Stop()
	ended := fs.door.opts.Tasks.Ended(f.id)
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		case <-ended:
			ended = nil // another task may continue it
		}
		now, err := fs.look(ctx, f.env, f.id)
		fs.mu.Lock()
		if err != nil || fs.tell(f, now) {
			fs.end(f)
		}
		fs.mu.Unlock()
	}
}

// tell sends the changes to the listeners, and reports whether the task is over. The
// caller holds fs.mu.
func (fs *feeds) tell(f *feed, now *Task) (over bool) {
	for _, event := range changes(f.last, now) {
		for l := range f.listeners {
			select {
			case l.events <- event:
			default:
				l.slow = true
				delete(f.listeners, l)
				close(l.events)
			}
		}
	}
	f.last = now
	return now.Status.State.terminal() || len(f.listeners) == 0
}

// changes returns the events between two states of a task: new or changed artifacts,
// and then the status.
func changes(before, now *Task) []StreamResponse {
	var events []StreamResponse
	for i := range now.Artifacts {
		a := &now.Artifacts[i]
		known := slices.ContainsFunc(before.Artifacts, func(b Artifact) bool { return b.ID == a.ID && same(&b, a) })
		if !known {
			events = append(events, StreamResponse{Artifact: &ArtifactUpdate{Task: now.ID, Context: now.Context, Artifact: *a, Last: true}})
		}
	}
	if before.Status.State != now.Status.State || !same(before.Status.Message, now.Status.Message) {
		events = append(events, StreamResponse{Status: &StatusUpdate{Task: now.ID, Context: now.Context, Status: now.Status}})
	}
	return events
}

// same reports whether two values are written alike.
func same(a, b any) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

// rest waits until a task has ended or waits for an input, or ctx ends.
func (d *Door) rest(ctx context.Context, c *caller, id protocol.TaskID) error {
	ticker := time.NewTicker(pace)
	defer ticker.Stop()
	ended := d.opts.Tasks.Ended(id)
	for {
		select {
		case <-ended:
			ended = nil
		case <-ticker.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-d.opts.Leaving.Done():
			return protocol.Errorf(protocol.ShuttingDown, "the bridge is shutting down; GetTask returns the outcome of the task later").With("task_id", id)
		}
		s, err := d.opts.Tasks.Standing(c.who(), id)
		if err != nil {
			return err
		}
		if state, _ := d.state(ctx, c.env, s); state.terminal() || state.interrupted() {
			return nil
		}
	}
}
