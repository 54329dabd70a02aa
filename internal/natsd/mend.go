package natsd

import (
	"context"
	"fmt"
	"time"
)

const (
	lookEvery  = 500 * time.Millisecond // at a server that works
	firstRetry = 250 * time.Millisecond
	lastRetry  = 2 * time.Second

	// hopeless is the number of times that a server may fail to open on a disk that takes writes,
	// before an operator has to see to it.
	hopeless = 5
)

// mend looks after a server until ctx ends: when its files have failed it is
// closed, and opened anew once the disk takes writes. A caller that waited for it
// then sees the state without unacknowledged writes.
func (s *Server) mend(ctx context.Context, i *instance) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-i.log.alarm:
		case <-ctx.Done():
			return
		}
		sick := i.sick()
		if sick == nil {
			continue
		}
		s.log.Error("the state is not stored; it is opened anew when the disk takes it", "nats", i.name, "error", sick)
		i.close(fmt.Errorf("the embedded NATS (%s) was closed: %w", i.name, sick))
		if err := s.reopen(ctx, i); err != nil {
			s.fail(err)
			return
		}
	}
}

// reopen opens a closed server as soon as that is possible. It fails when it
// never will be.
func (s *Server) reopen(ctx context.Context, i *instance) error {
	began, failures := time.Now(), 0
	for wait := firstRetry; ; wait = min(2*wait, lastRetry) {
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil
		}
		err := i.probe()
		if err != nil {
			i.set(nil, fmt.Errorf("the embedded NATS (%s) is closed: %w", i.name, err))
			continue
		}
		if err = i.open(); err == nil {
			s.reopened.Add(1)
			s.log.Info("the state is stored again", "nats", i.name, "after", time.Since(began).Round(time.Millisecond))
			return nil
		}
		i.set(nil, err)
		s.log.Error("the state cannot be opened anew", "nats", i.name, "error", err)
		if failures++; failures >= hopeless {
			return fmt.Errorf("the state cannot be opened anew, though the disk takes writes: %w", err)
		}
	}
}

// fail reports that the server cannot be mended.
func (s *Server) fail(err error) {
	select {
	case s.failed <- err:
	default:
	}
}
