// Package lifecycle stops the started parts in reverse order, and reports whether
// all of them work.
package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// A Lifecycle remembers how to undo what was acquired, last first.
type Lifecycle struct {
	steps []step
}

type step struct {
	name   string
	drains bool
	stop   func(context.Context) error
}

// Add notes how to stop the part that was just started.
func (l *Lifecycle) Add(name string, stop func(context.Context) error) {
	l.steps = append(l.steps, step{name: name, stop: stop})
}

// Drain is Add for a step that waits for clients when it stops, and cuts off work
// that they have not ended in time.
func (l *Lifecycle) Drain(name string, stop func(context.Context) error) {
	l.steps = append(l.steps, step{name, true, stop})
}

// Run runs a part in the background until the stop.
func (l *Lifecycle) Run(name string, part func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- part(ctx) }()
	l.Add(name, func(context.Context) error {
		cancel()
		return <-done
	})
}

// Stop undoes every step, last first, even if others fail. Together, steps that
// drain wait for patience at most; the others have the time that ctx gives.
func (l *Lifecycle) Stop(ctx context.Context, patience time.Duration) error {
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
