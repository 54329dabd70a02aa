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
)

// valued is a message of the topic t, the nth.
func valued(n int64) *Message {
	return &Message{Queue: "q", Space: "home", By: "home/agent/a", At: n, Until: time.Now().Add(time.Hour).UnixNano(), Topic: "t", Payload: fmt.Append(nil, n)}
}

// The messages that a bridge left which died before it had deleted older ones of their
// topic: the newest comes to a worker, once no other one is there, and the others to
// nobody, whichever record is read first.
func TestTheNewestOfATopicIsGivenOutAlone(t *testing.T) {
	t.Parallel()
	for _, order := range [][]int64{{1, 2, 3}, {3, 2, 1}, {2, 3, 1}} {
		for _, self := range []string{"", "a/1"} {
			bubble.Test(t, func(t *testing.T) {
				d, table := newDesk("$queue/q"), recordstest.New[Message]()
				for _, n := range order {
					m := valued(n)
					if n == 2 {
						m.With = "b/1" // a worker of a bridge that died has it
					}
					if _, err := table.Create(t.Context(), fmt.Sprint("k", n), m); err != nil {
						t.Fatal(err)
					}
				}
				k := Open(Options{
					Queues: settled(t, Queue{Name: "q", Topic: "#", LastValue: true}), Table: table, Self: self, Gone: func(context.Context, string) bool { return true },
					Registerer: prometheus.NewRegistry(), Log: slog.New(slog.DiscardHandler),
				})
				if v := k.view(lineKey{"q", "home"}); v.Messages != 1 || v.Bytes != 2 || v.Publishers != 1 {
					t.Errorf("the queue is %+v", v)
				}
				k.Attend(d)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				go func() { _ = k.Run(ctx) }()
				l := d.next()
				if string(l.Payload) != "3" || table.Len() != 1 {
					t.Fatalf("%v: %q is given out while %d records are there", order, l.Payload, table.Len())
				}
				l.done(broker.Accepted)
				if l := d.next(); l.Topic != "" {
					t.Errorf("%v: %q is given out, too", order, l.Payload)
				}
				k.mu.Lock()
				defer k.mu.Unlock()
				if table.Len()+len(k.lines) != 0 {
					t.Errorf("%d records and %d lines are left", table.Len(), len(k.lines))
				}
			})
		}
	}
}

// A message that comes while a worker has the one before it is given out, and the one
// before is not, although its worker leaves.
func TestANewerMessageTakesThePlaceOfOneThatIsLent(t *testing.T) {
	t.Parallel()
	bubble.Test(t, func(t *testing.T) {
		d, table := newDesk("$queue/q"), recordstest.New[Message]()
		k := open(t, d, table, Queue{Name: "q", Topic: "#", LastValue: true, Deliveries: 1, DeadLetters: 8})
		publish := func(n int64) {
			m := valued(n)
			key := fmt.Sprint("k", n)
			end, _ := k.begin(key, m)
			k.store(key, m, end, func(v broker.Verdict) {
				if !v.Allowed() {
					t.Errorf("it is refused: %+v", v)
				}
			})
		}
		publish(1)
		first := d.next()
		publish(2)
		second := d.next()
		if string(first.Payload) != "1" || string(second.Payload) != "2" {
			t.Fatalf("%q and %q are given out", first.Payload, second.Payload)
		}
		first.done(broker.Abandoned)
		second.done(broker.Accepted)
		if l := d.next(); l.Topic != "" || table.Len() != 0 {
			t.Errorf("%q is given out, %d records are left", l.Payload, table.Len())
		}
	})
}

// A dead letter stays although newer messages of its topic come.
func TestADeadLetterOutlivesNewerMessages(t *testing.T) {
	t.Parallel()
	bubble.Test(t, func(t *testing.T) {
		d, table := newDesk("$queue/q"), recordstest.New[Message]()
		k := open(t, d, table, Queue{Name: "q", Topic: "#", LastValue: true, Deliveries: 1, DeadLetters: 8})
		for n := range int64(2) {
			m := valued(n + 1)
			key := fmt.Sprint("k", n)
			end, _ := k.begin(key, m)
			k.store(key, m, end, func(broker.Verdict) {})
			d.next().done(broker.Abandoned)
			synctest.Wait()
		}
		if v := k.view(lineKey{"q/dead", "home"}); v.Messages != 2 || table.Len() != 2 {
			t.Errorf("the dead letters are %+v, of %d records", v, table.Len())
		}
	})
}

// The memory of what waits is that of what is there, also while nobody works: a message that
// gave way to a newer one of its topic does not stay behind another topic's.
func TestWhatGaveWayIsForgottenWithoutWorkers(t *testing.T) {
	t.Parallel()
	bubble.Test(t, func(t *testing.T) {
		table := recordstest.New[Message]()
		k := open(t, newDesk("nothing"), table, Queue{Name: "q", Topic: "#", LastValue: true})
		for n := range int64(100) {
			m := valued(n + 1)
			if n == 0 {
				m.Topic = "first"
			}
			key := fmt.Sprint("k", n)
			end, _ := k.begin(key, m)
			k.store(key, m, end, func(broker.Verdict) {})
		}
		k.mu.Lock()
		defer k.mu.Unlock()
		if l := k.lines[lineKey{"q", "home"}]; len(l.entries) != 2 || len(l.waiting) != 2 {
			t.Errorf("of %d messages %d places are kept", len(l.entries), len(l.waiting))
		}
	})
}
