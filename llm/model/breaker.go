package model

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/aibridge/aibridge/llm/chat"
)

// The behaviour of a breaker.
const (
	openAfter   = 3                // failures in a row
	firstPause  = time.Second      // doubled each time, with jitter
	longestWait = 2 * time.Minute  // between two tries
	authPause   = 30 * time.Second // within which an operator may replace a wrong key
)

// leftAlone is the message about a failure for the callers of other requests.
const leftAlone = "the provider failed and is left alone for a while"

// A breaker stops requests to a failing target. After its pause one request passes as a
// probe.
type breaker struct {
	now func() time.Time

	mu       sync.Mutex
	failures int
	until    time.Time   // end of the pause
	probing  bool        // a probe is under way
	last     *chat.Error // nil if the last request did not fail
}

// admit reports whether a request may pass, and if not, the time until it may.
func (b *breaker) admit() (ok bool, wait time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.until.IsZero() {
		return true, 0
	}
	if wait := b.until.Sub(b.now()); wait > 0 {
		return false, wait
	}
	if b.probing {
		return false, firstPause
	}
	b.probing = true
	return true, 0
}

// succeeded closes the breaker.
func (b *breaker) succeeded() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failures, b.until, b.probing, b.last = 0, time.Time{}, false, nil
}

// abandoned records the end of a request without a verdict about its target, as when
// the caller disconnects.
func (b *breaker) abandoned() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.probing = false
}

// failed records a failure of the target. A pause that the service asks for begins at
// once and lasts as long as asked.
func (b *breaker) failed(e *chat.Error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.probing = false
	b.last = &chat.Error{Kind: e.Kind, Status: e.Status, Message: leftAlone} // the service's text is for one caller
	b.failures++
	pause := time.Duration(0)
	switch {
	case e.RetryAfter > 0:
		pause = e.RetryAfter
	case e.Kind == chat.AuthFailed:
		if b.failures >= openAfter {
			pause = authPause
		}
	case e.Kind == chat.RateLimited, b.failures >= openAfter, !b.until.IsZero():
		pause = firstPause << min(max(b.failures-openAfter, 0), 10)
		pause = min(pause, longestWait)
		pause = pause/2 + rand.N(pause/2+1)
	}
	if pause > 0 {
		b.until = b.now().Add(pause)
	}
}

// inherit copies the state of another breaker of the same target. After a refused key
// it starts anew, since the key may be another one.
func (b *breaker) inherit(old *breaker) {
	old.mu.Lock()
	defer old.mu.Unlock()
	if old.last == nil || old.last.Kind != chat.AuthFailed {
		b.failures, b.until, b.last = old.failures, old.until, old.last
	}
}

// state is closed, open or half-open, with the kind of the last failure and the rest of
// the pause.
func (b *breaker) state() (state string, last chat.ErrorKind, wait time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.last != nil {
		last = b.last.Kind
	}
	switch {
	case b.until.IsZero():
		return "closed", last, 0
	case b.now().Before(b.until):
		return "open", last, b.until.Sub(b.now())
	}
	return "half-open", last, 0
}

// why is the failure of the last request, nil after a success.
func (b *breaker) why() *chat.Error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.last
}
