package app

import (
	"context"
	"errors"
	"fmt"
)

// A lifecycle remembers how to undo what was acquired, last first.
type lifecycle struct {
	steps []step
}

type step struct {
	name string
	stop func(context.Context) error
}

// add notes how to stop what was just started.
func (l *lifecycle) add(name string, stop func(context.Context) error) {
	l.steps = append(l.steps, step{name, stop})
}

// stop undoes every step, last first, whatever the others return.
func (l *lifecycle) stop(ctx context.Context) error {
	var errs []error
	for i := len(l.steps) - 1; i >= 0; i-- {
		if err := l.steps[i].stop(ctx); err != nil {
			errs = append(errs, fmt.Errorf("stop %s: %w", l.steps[i].name, err))
		}
	}
	l.steps = nil
	return errors.Join(errs...)
}
