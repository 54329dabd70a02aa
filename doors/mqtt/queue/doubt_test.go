package queue

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/aibridge/aibridge/broker"
	"github.com/aibridge/aibridge/internal/bubble"
	"github.com/aibridge/aibridge/internal/records/recordstest"
	"github.com/aibridge/aibridge/protocol"
)

// A message is stored once the store is back, within a minute.
func TestAMessageWaitsForTheStore(t *testing.T) {
	t.Parallel()
	bubble.Test(t, func(t *testing.T) {
		table := recordstest.New[Message]()
		k := open(t, newDesk("nothing"), table, Queue{Name: "q", Topic: "#"})
		m := &Message{Queue: "q", Space: "home", At: 1, Until: time.Now().Add(time.Hour).UnixNano(), Topic: "t"}
		end, _ := k.begin("1", m)
		table.BreakNext(5)
		k.store("1", m, end, func(v broker.Verdict) {
			if !v.Allowed() {
				t.Errorf("it is refused: %+v", v)
			}
		})
		if table.Len() != 1 {
			t.Error("it is not stored")
		}
	})
}

// A doubtful table confirms its first write only after a worker has acknowledged what that
// stored.
type doubtful struct {
	*recordstest.Memory[Message]
	doubted bool
}

func (d *doubtful) Create(ctx context.Context, key string, m *Message) (uint64, error) {
	return d.doubt(ctx, key, func() (uint64, error) { return d.Memory.Create(ctx, key, m) })
}

func (d *doubtful) CreateOnce(ctx context.Context, key string, m *Message) (uint64, error) {
	return d.doubt(ctx, key, func() (uint64, error) { return d.Memory.CreateOnce(ctx, key, m) })
}

func (d *doubtful) Update(ctx context.Context, key string, m *Message, expect uint64) (uint64, error) {
	return d.doubt(ctx, key, func() (uint64, error) { return d.Memory.Update(ctx, key, m, expect) })
}

func (d *doubtful) doubt(ctx context.Context, key string, write func() (uint64, error)) (uint64, error) {
	revision, err := write()
	if d.doubted || err != nil {
		return revision, err
	}
	d.doubted = true
	if err := d.Delete(ctx, key, revision); err != nil {
		return 0, err
	}
	return 0, protocol.Wrap(protocol.StoreUnavailable, protocol.ErrUnconfirmed, "the store did not confirm it")
}

// A message that was stored without a confirmation, and is done already, is not stored
// again, also where it took the place of an older one of its topic.
func TestAMessageThatIsDoneIsNotStoredAgain(t *testing.T) {
	t.Parallel()
	for _, lastValue := range []bool{false, true} {
		t.Run(fmt.Sprint(lastValue), func(t *testing.T) {
			t.Parallel()
			table := &doubtful{Memory: recordstest.New[Message]()}
			k := Open(Options{
				Queues: settled(t, Queue{Name: "q", Topic: "#", LastValue: lastValue}), Table: table, Registerer: prometheus.NewRegistry(), Log: slog.New(slog.DiscardHandler),
			})
			until := time.Now().Add(time.Hour).UnixNano()
			if lastValue {
				if _, err := table.Memory.Create(t.Context(), "0", &Message{Queue: "q", Space: "home", At: 1, Until: until, Topic: "t"}); err != nil {
					t.Fatal(err)
				}
			}
			m := &Message{Queue: "q", Space: "home", At: 2, Until: until, Topic: "t"}
			end, _ := k.begin("1", m)
			k.store("1", m, end, func(v broker.Verdict) {
				if !v.Allowed() {
					t.Errorf("it is refused: %+v", v)
				}
			})
			k.dropOutdated(t.Context(), k.allOutdated())
			if !table.doubted || table.Len() != 0 {
				t.Errorf("%d messages wait", table.Len())
			}
		})
	}
}

// A message that this process has by its record, since the write seemed to have failed,
// and no client, is given out.
func TestAMessageThatNoClientHasIsGivenOut(t *testing.T) {
	t.Parallel()
	bubble.Test(t, func(t *testing.T) {
		d, table := newDesk("$queue/q"), recordstest.New[Message]()
		stop := serveAs(t, d, table, "a/1")
		m := &Message{Queue: "q", Space: "home", At: 1, Until: time.Now().Add(time.Hour).UnixNano(), Topic: "t", With: "a/1"}
		if _, err := table.Create(t.Context(), "1", m); err != nil {
			t.Fatal(err)
		}
		l := d.next()
		if l.Topic != "t" {
			t.Fatal("nobody is given it")
		}
		time.Sleep(10 * interval)
		if synctest.Wait(); len(d.loans) > 0 {
			t.Error("it is given out again while a client has it")
		}
		l.done(broker.Accepted)
		stop()
		if table.Len() != 0 {
			t.Error("it is left")
		}
	})
}

// A bridge whose store does not take writes tries to give a message out once in a while.
func TestAMessageIsNotGivenOutWithoutPause(t *testing.T) {
	t.Parallel()
	bubble.Test(t, func(t *testing.T) {
		d, table := newDesk("nothing"), recordstest.New[Message]()
		stop := serveAs(t, d, table, "a/1")
		m := &Message{Queue: "q", Space: "home", At: 1, Until: time.Now().Add(time.Hour).UnixNano(), Topic: "t"}
		if _, err := table.Create(t.Context(), "1", m); err != nil {
			t.Fatal(err)
		}
		table.BreakNext(5)
		began, filter := time.Now(), "$queue/q"
		d.filter.Store(&filter)
		l := d.next()
		if l.Topic != "t" {
			t.Fatal("nobody is given it")
		}
		if waited := time.Since(began); waited < 5*interval {
			t.Errorf("it was tried six times in %v", waited)
		}
		l.done(broker.Accepted)
		stop()
	})
}

// serveAs runs a keeper of a process among others until stop.
func serveAs(t *testing.T, d *desk, table *recordstest.Memory[Message], self string) (stop func()) {
	k := Open(Options{
		Queues: settled(t, Queue{Name: "q", Topic: "#"}), Table: table, Self: self, Gone: func(context.Context, string) bool { return false },
		Registerer: prometheus.NewRegistry(), Log: slog.New(slog.DiscardHandler),
	})
	k.Attend(d)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- k.Run(ctx) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		synctest.Wait()
	}
}
