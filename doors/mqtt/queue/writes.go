package queue

import (
	"sync"

	"github.com/aibridge/aibridge/internal/records"
)

// atOnce is the number of writes that a command has under way.
const atOnce = 32

// writes are those of a command that changes many messages.
type writes struct {
	work  sync.WaitGroup
	once  sync.Once
	slots chan struct{}

	mu   sync.Mutex
	done int
	err  error
}

// do writes once there is a slot.
func (w *writes) do(write func() error) {
	w.once.Do(func() { w.slots = make(chan struct{}, atOnce) })
	w.slots <- struct{}{}
	w.work.Go(func() {
		defer func() { <-w.slots }()
		err := write()
		w.mu.Lock()
		defer w.mu.Unlock()
		if err == nil {
			w.done++
		} else if !records.Raced(err) {
			w.err = err
		}
	})
}

// wait is the number of writes that were made, and the fault of one that failed for
// another reason than that somebody else was faster.
func (w *writes) wait() (done int, err error) {
	w.work.Wait()
	return w.done, w.err
}
