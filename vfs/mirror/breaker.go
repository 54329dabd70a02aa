package mirror

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// A Circuit says whether requests are sent to the VFS at all.
type Circuit string

// The states of the circuit. A half-open circuit lets one request through, to find
// out whether the VFS is back.
const (
	CircuitClosed   Circuit = "closed"
	CircuitOpen     Circuit = "open"
	CircuitHalfOpen Circuit = "half_open"
)

// BreakerOptions pace a [Breaker]. Zero values are the defaults.
type BreakerOptions struct {
	Timeout    time.Duration // of a question, and of the check below; 2 seconds
	Check      time.Duration // how often a silent VFS is asked whether it is there; 1 second
	RetryFrom  time.Duration // until the first check after a failure; 100 ms
	RetryUntil time.Duration // between two checks at most; 2 seconds
	OnChange   func(Circuit) // called after every change; must not block
}

func (o *BreakerOptions) setDefaults() {
	for _, d := range []struct {
		value    *time.Duration
		fallback time.Duration
	}{
		{&o.Timeout, 2 * time.Second}, {&o.Check, time.Second},
		{&o.RetryFrom, 100 * time.Millisecond}, {&o.RetryUntil, 2 * time.Second},
	} {
		if *d.value <= 0 {
			*d.value = d.fallback
		}
	}
	if o.OnChange == nil {
		o.OnChange = func(Circuit) {}
	}
}

// A Breaker guards the requests to a VFS, shared by everything that is mirrored there. It
// notices within about four seconds when the VFS is gone, whether it refuses,
// hangs or talks nonsense, and as soon when it is back.
type Breaker struct {
	o     BreakerOptions
	check func(context.Context) error

	mu       sync.Mutex
	circuit  Circuit
	why      error
	heard    time.Time       // when the VFS last answered
	failures int             // checks in a row
	up       context.Context // ends when the circuit opens, and with it the requests under way
	down     context.CancelCauseFunc
	waiting  map[*func()]bool
}

// NewBreaker makes a breaker that is closed at first: whether the VFS is there shows
// when it is used. check asks it something cheap.
func NewBreaker(check func(context.Context) error, o BreakerOptions) *Breaker {
	o.setDefaults()
	l := &Breaker{o: o, check: check, circuit: CircuitClosed, heard: time.Now(), waiting: make(map[*func()]bool)}
	l.up, l.down = context.WithCancelCause(context.Background())
	return l
}

// An unavailableError is the error of requests to a VFS that cannot be reached.
type unavailableError struct{ cause error }

func (e *unavailableError) Error() string { return "VFS unavailable: " + e.cause.Error() }
func (e *unavailableError) Unwrap() []error {
	return []error{protocol.Wrap(protocol.VFSUnavailable, e.cause, "the VFS cannot be reached"), e.cause}
}

var (
	errCircuitOpen = errors.New("the circuit is open")
	errTooSlow     = errors.New("no answer in time")
)

// Circuit returns the state of the circuit and why it is not closed.
func (l *Breaker) Circuit() (Circuit, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.circuit, l.why
}

// Standing is the state of the circuit, and why it is not closed as callers may
// learn it, "" while it is.
func (l *Breaker) Standing() (Circuit, string) {
	circuit, why := l.Circuit()
	return circuit, publicText(why)
}

// OnReturn has f called whenever the VFS is back, until forget is called. It
// must not block.
func (l *Breaker) OnReturn(f func()) (forget func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting[&f] = true
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.waiting, &f)
	}
}

// ask asks the VFS something that is answered quickly.
func (l *Breaker) ask(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, l.o.Timeout, errTooSlow)
	defer cancel()
	return l.transfer(ctx, f)
}

// transfer has the VFS do something that may take long. It ends early when
// checks meanwhile find that the VFS is gone.
func (l *Breaker) transfer(ctx context.Context, f func(context.Context) error) error {
	l.mu.Lock()
	up, open := l.up, l.circuit != CircuitClosed
	l.mu.Unlock()
	if open {
		return &unavailableError{errCircuitOpen}
	}
	inner, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(up, func() { cancel(context.Cause(up)) })() //nolint:contextcheck // the breaker's end is another one than the caller's
	return l.judge(ctx, up, f(inner))
}

// judge opens the circuit if an answer says that the VFS is gone.
func (l *Breaker) judge(ctx, up context.Context, err error) error {
	switch {
	case err == nil || refusal(err):
		l.mu.Lock()
		l.heard = time.Now()
		l.mu.Unlock()
		return err
	case errors.Is(err, errLocal):
		return err // says nothing about the VFS
	case up.Err() != nil:
		return &unavailableError{context.Cause(up)}
	case ctx.Err() != nil && !errors.Is(context.Cause(ctx), errTooSlow):
		return context.Cause(ctx) // the caller did not wait
	}
	if ctx.Err() != nil {
		err = errTooSlow
	}
	l.open(err)
	return &unavailableError{err}
}

// errLocal marks failures of this end in the middle of a transfer.
var errLocal = errors.New("this end failed")

// open stops asking.
func (l *Breaker) open(why error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.circuit == CircuitOpen {
		return
	}
	if l.circuit == CircuitClosed {
		l.down(why)
	}
	l.circuit, l.why = CircuitOpen, why
	l.o.OnChange(CircuitOpen)
}

// Probe asks the VFS whether it is there and opens or closes the circuit
// accordingly.
func (l *Breaker) Probe(ctx context.Context) error {
	l.mu.Lock()
	if l.circuit == CircuitOpen {
		l.circuit = CircuitHalfOpen
		l.o.OnChange(CircuitHalfOpen)
	}
	l.mu.Unlock()
	timed, cancel := context.WithTimeoutCause(ctx, l.o.Timeout, errTooSlow)
	err := l.check(timed)
	cancel()
	switch {
	case err == nil || refusal(err):
		l.close()
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	}
	l.mu.Lock()
	l.failures++
	l.mu.Unlock()
	l.open(err)
	return &unavailableError{err}
}

// close asks again.
func (l *Breaker) close() {
	l.mu.Lock()
	l.heard, l.failures = time.Now(), 0
	back := l.circuit != CircuitClosed
	var tell []func()
	if back {
		l.circuit, l.why = CircuitClosed, nil
		l.up, l.down = context.WithCancelCause(context.Background())
		l.o.OnChange(CircuitClosed)
		for f := range l.waiting {
			tell = append(tell, *f)
		}
	}
	l.mu.Unlock()
	for _, f := range tell {
		f()
	}
}

// Run checks on the VFS until ctx ends.
func (l *Breaker) Run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		if wait := l.untilCheck(); wait > 0 {
			timer.Reset(wait)
			continue
		}
		_ = l.Probe(ctx) // shows in the circuit
		timer.Reset(l.pause())
	}
}

// untilCheck is the time until a VFS that answered is to be checked again.
func (l *Breaker) untilCheck() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.circuit != CircuitClosed {
		return 0
	}
	return l.o.Check - time.Since(l.heard)
}

// pause is the time until the next check.
func (l *Breaker) pause() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.circuit == CircuitClosed {
		return min(l.o.Check, l.o.RetryFrom) // an open circuit is looked after soon
	}
	return backoff(l.o.RetryFrom, l.o.RetryUntil, l.failures)
}

// backoff doubles with every failure up to a cap, and shortens every wait by
// up to half so that clients do not all come back at once.
func backoff(from, until time.Duration, failures int) time.Duration {
	wait := until
	if shift := max(failures-1, 0); shift < 30 && from<<shift < until {
		wait = from << shift
	}
	return wait - rand.N(wait/2+1)
}
