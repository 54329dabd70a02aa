package client

import (
	"context"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

const (
	firstBackoff = 50 * time.Millisecond
	maxBackoff   = 5 * time.Second

	// maxRepeats bounds the repeats of a command while something that the bridge
	// needs is out of order. Repeats for a busy bridge and a lost connection are
	// bounded only by the time.
	maxRepeats = 4

	// defaultRetryAfter is the pause after a 4008 or 4009 that names none.
	defaultRetryAfter = 250 * time.Millisecond
)

// backoff is the pause before an attempt, the first repeat being 1: it doubles
// up to a limit, and half of it is up to chance, so that clients that failed
// together do not come back together.
func backoff(attempt int, limit time.Duration) time.Duration {
	pause := limit
	if attempt < 20 {
		pause = min(firstBackoff<<max(attempt-1, 0), limit)
	}
	return pause/2 + rand.N(pause/2+1)
}

// A lostConnection is a failure of the network: whether the bridge got the
// request is not known.
type lostConnection struct{ cause error }

func (e *lostConnection) Error() string { return "connection lost: " + e.cause.Error() }
func (e *lostConnection) Unwrap() error { return e.cause }

// repeatAfter is the pause before a command is repeated that was answered with
// an error, by its code's class (docs/protocol.md#codes). The same request is
// sent again: the bridge does not remember the answers that ask for that.
func repeatAfter(err *protocol.Error, attempt int) (pause time.Duration, again bool) {
	if code, _ := err.Details["agent_code"].(string); strings.HasPrefix(code, "1") || strings.HasPrefix(code, "2") {
		return 0, false // the agent has said no, in a code that is the bridge's own
	}
	switch err.Code.Retry() {
	case protocol.RetryAfter:
		pause = retryAfter(err)
		return pause + rand.N(pause/10+1), true
	case protocol.RetryBackoff:
		return backoff(attempt, maxBackoff), attempt <= maxRepeats
	}
	return 0, false
}

// retryAfter is the pause an error asks for.
func retryAfter(err *protocol.Error) time.Duration {
	var ms int64
	switch v := err.Details["retry_after_ms"].(type) {
	case int64:
		ms = v
	case float64:
		ms = int64(v)
	}
	if ms <= 0 {
		return defaultRetryAfter
	}
	return time.Duration(min(ms, protocol.MaxTimeout.Milliseconds())) * time.Millisecond
}

// sleep pauses until ctx ends, whose error it returns then.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
