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
	pace    = 50 * time.Millisecond // between looks at a task
	backlog = 256                   // events that wait for one listener
)

// feeds tell listeners how tasks are. A task that somebody listens to is looked at by
// one goroutine, whoever else listens; so all that listen hear the same, in the same
// order.
type feeds struct {
	door *Door

	mu   sync.Mutex
	open map[protocol.TaskID]*feed
}

// A feed is the news of one task.
type feed struct {
	id        protocol.TaskID
	env       tools.Environment
	last      *Task // as the listeners know it
	listeners map[*listener]struct{}
	stop      context.CancelFunc
}

// A listener hears of a task. Its channel is closed when there is no more to hear, or
// when it does not keep up.
type listener struct {
	events chan StreamResponse
	slow   bool // closed because it did not keep up; set before
}

func newFeeds(d *Door) *feeds { return &feeds{door: d, open: make(map[protocol.TaskID]*feed)} }

// listen begins to hear of a task: first how it is, then what changes. It fails if
// there is no such task of the environment's principal.
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

// look is a task as it is right now.
func (fs *feeds) look(ctx context.Context, env tools.Environment, id protocol.TaskID) (*Task, error) {
	s, err := fs.door.opts.Tasks.Standing(env.Principal, id)
	if err != nil {
		return nil, err
	}
	return fs.door.form(ctx, env, s), nil
}

// watch looks at a task until it has ended or nobody listens.
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
			ended = nil // it may go on as another
		}
		now, err := fs.look(ctx, f.env, f.id)
		fs.mu.Lock()
		if err != nil || fs.tell(f, now) {
			fs.end(f)
		}
		fs.mu.Unlock()
	}
}

// tell sends the changes to the listeners, and reports whether there will be no more.
// fs.mu is held.
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

// changes are the events between two looks at a task: artifacts that are new or other
// than before, and then the status.
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

// rest waits until a task has ended or waits for somebody, or ctx ends.
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
			return protocol.Errorf(protocol.ShuttingDown, "the bridge is shutting down; GetTask tells later what became of the task").With("task_id", id)
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
