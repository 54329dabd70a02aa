package lifecycle

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aibridge/aibridge/internal/bubble"
	"github.com/aibridge/aibridge/protocol"
)

func TestWhatWasStartedFirstStopsLast(t *testing.T) {
	var l Lifecycle
	var stopped []string
	step := func(name string, err error) func(context.Context) error {
		return func(context.Context) error {
			stopped = append(stopped, name)
			return err
		}
	}
	broken := errors.New("broken")
	l.Add("store", step("store", nil))
	l.Add("broker", step("broker", broken))
	l.Run("sweep", func(ctx context.Context) error {
		<-ctx.Done()
		stopped = append(stopped, "sweep")
		return nil
	})
	err := l.Stop(t.Context(), time.Minute)
	if !errors.Is(err, broken) || !strings.HasPrefix(err.Error(), "stop broker: ") {
		t.Errorf("it ended with %v", err)
	}
	if want := []string{"sweep", "broker", "store"}; !slices.Equal(stopped, want) {
		t.Errorf("stopped %q, want %q", stopped, want)
	}
	if err := l.Stop(t.Context(), time.Minute); err != nil || len(stopped) != 3 {
		t.Errorf("stopped again: %q, %v", stopped, err)
	}
}

func TestStepsThatDrainShareTheirPatienceAndOthersHaveTheirs(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var l Lifecycle
		began := time.Now()
		l.Add("state", func(ctx context.Context) error { return ctx.Err() })
		for _, name := range []string{"calls", "listener"} {
			l.Drain(name, func(ctx context.Context) error {
				<-ctx.Done()
				return ctx.Err()
			})
		}
		if err := l.Stop(t.Context(), 3*time.Second); err != nil {
			t.Errorf("it ended with %v", err)
		}
		if took := time.Since(began); took != 3*time.Second {
			t.Errorf("draining took %v", took)
		}
	})
}

func TestReadinessNamesTheFirstPartThatFailsAndLogsItOnce(t *testing.T) {
	var log bytes.Buffer
	var store, disk error
	r := NewReadiness(slog.New(slog.NewTextHandler(&log, nil)), func() error { return store }, func() error { return disk })
	if err := r.Check(t.Context()); protocol.CodeOf(err) != protocol.ShuttingDown {
		t.Errorf("before it serves: %v", err)
	}
	r.Serve(true)
	if err := r.Check(t.Context()); err != nil {
		t.Errorf("when all is well: %v", err)
	}
	store, disk = errors.New("secret detail"), protocol.Errorf(protocol.StoreUnavailable, "the disk is full")
	log.Reset()
	for range 3 {
		if err := r.Check(t.Context()); protocol.CodeOf(err) != protocol.StoreUnavailable || strings.Contains(protocol.AsError(err).Message, "secret") {
			t.Errorf("the store fails: %v", err)
		}
	}
	if n := strings.Count(log.String(), "secret detail"); n != 1 {
		t.Errorf("logged %d times: %s", n, &log)
	}
	store = nil
	if err := r.Check(t.Context()); protocol.AsError(err).Message != "the disk is full" {
		t.Errorf("the disk is full: %v", err)
	}
}
