package store

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/nats-io/nats.go"
)

// startPatience bounds how long a bridge that starts waits for an answer of NATS.
const startPatience = time.Minute

type patientKey struct{}

// Patiently is ctx for a bridge that starts: with it, the store waits up to a
// minute where it otherwise fails after some seconds without an answer of NATS. The
// servers of a cluster elect leaders anew when one of them comes back, so a bridge
// with a server of its own starts in the very moment without leaders.
func Patiently(ctx context.Context) context.Context {
	return context.WithValue(ctx, patientKey{}, true)
}

// isPatient reports whether ctx is one of [Patiently].
func isPatient(ctx context.Context) bool { return ctx.Value(patientKey{}) != nil }

// bounded is ctx with a timeout, which is longer if ctx is patient.
func bounded(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, patience(ctx, timeout))
}

// patience is a timeout, or the longer one of a patient ctx.
func patience(ctx context.Context, timeout time.Duration) time.Duration {
	if isPatient(ctx) {
		return max(timeout, startPatience)
	}
	return timeout
}

// askOnce asks, and reports whether to ask again: without an answer in time, and if
// ctx is patient, also when NATS cannot answer at the moment.
func askOnce(ctx context.Context, l *connection, msg *nats.Msg, timeout time.Duration) (data []byte, again bool, err error) {
	attempt, done := context.WithTimeout(ctx, timeout)
	defer done()
	got, err := l.request(attempt, msg)
	if err == nil {
		data = got.Data
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
	case isPatient(ctx) && Passing(cmp.Or(err, refusal(data))):
		<-attempt.Done()
	default:
		return data, false, err
	}
	return data, ctx.Err() == nil, err
}

// refusal is the error in an answer of JetStream's API, nil if it has none.
func refusal(answer []byte) error {
	var got struct {
		Error *apiError `json:"error"`
	}
	if json.Unmarshal(answer, &got) != nil || got.Error == nil {
		return nil
	}
	return got.Error
}
