package app

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// A lifecycle remembers how to undo what was acquired, last first.
type lifecycle struct {
	steps []step
}

type step struct {
	name   string
	drains bool
	stop   func(context.Context) error
}

// add notes how to stop what was just started.
func (l *lifecycle) add(name string, stop func(context.Context) error) {
	l.steps = append(l.steps, step{name: name, stop: stop})
}

// drain is add for what waits for others when it stops, and cuts off what they
// have not ended in time.
func (l *lifecycle) drain(name string, stop func(context.Context) error) {
	l.steps = append(l.steps, step{name, true, stop})
}

// stop undoes every step, last first, whatever the others return. Together,
// steps that drain wait for patience at most; the others have the time that ctx
// gives.
func (l *lifecycle) stop(ctx context.Context, patience time.Duration) error {
	draining, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var errs []error
	for i := len(l.steps) - 1; i >= 0; i-- {
		s := &l.steps[i]
		within := ctx
		if s.drains {
			within = draining
		}
		err := s.stop(within)
		if s.drains && errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
			continue // which it has said
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("stop %s: %w", s.name, err))
		}
	}
	l.steps = nil
	return errors.Join(errs...)
}
