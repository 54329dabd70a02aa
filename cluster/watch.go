package cluster

import "sync"

// watchers are the functions called for changes, one change at a time.
type watchers struct {
	mu      sync.Mutex
	pending []Change
	wake    chan struct{}
	ended   chan struct{}
	once    sync.Once
	next    int
	all     map[int]func(Change)
}

func (w *watchers) start(group *sync.WaitGroup) {
	w.wake, w.ended, w.all = make(chan struct{}, 1), make(chan struct{}), make(map[int]func(Change))
	group.Go(w.run)
}

func (w *watchers) add(f func(Change)) (stop func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.next++
	id := w.next
	w.all[id] = f
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.all, id)
	}
}

func (w *watchers) tell(c Change) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c.Member = c.Member.clone()
	w.pending = append(w.pending, c)
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (w *watchers) run() {
	for {
		select {
		case <-w.wake:
		case <-w.ended:
			return
		}
		changes, all := w.take()
		for _, c := range changes {
			for _, f := range all {
				f(c)
			}
		}
	}
}

func (w *watchers) take() ([]Change, []func(Change)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	changes := w.pending
	w.pending = nil
	all := make([]func(Change), 0, len(w.all))
	for _, f := range w.all {
		all = append(all, f)
	}
	return changes, all
}

func (w *watchers) end() { w.once.Do(func() { close(w.ended) }) }
