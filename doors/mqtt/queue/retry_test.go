package queue

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/aibridge/aibridge/broker"
	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/bubble"
	"github.com/aibridge/aibridge/internal/records/recordstest"
	"github.com/aibridge/aibridge/protocol"
)

// dies makes a dead letter of the topic.
func dies(t *testing.T, table *recordstest.Memory[Message], key, by, topic string, at int64) {
	t.Helper()
	m := &Message{
		Queue: "q/dead", Space: "home", By: by, At: at, Until: time.Now().Add(time.Hour).UnixNano(), Tries: 3, Dead: undeliverable, Topic: topic, Payload: []byte(key),
	}
	if _, err := table.Create(t.Context(), key, m); err != nil {
		t.Fatal(err)
	}
}

func operator(space protocol.SpaceID) *commands.Call {
	return &commands.Call{Principal: &protocol.Principal{Kind: protocol.KindOperator, ID: "olga", Space: space, Roles: []string{protocol.RoleOperator}}}
}

// waiting lists the messages of a queue, in their order.
func waiting(table *recordstest.Memory[Message], queue string) string {
	var found []*Message
	for _, m := range table.All() {
		if m.Queue == queue {
			found = append(found, m)
		}
	}
	slices.SortFunc(found, func(a, b *Message) int { return int(a.At - b.At) })
	var b strings.Builder
	for _, m := range found {
		fmt.Fprintf(&b, "%s ", m.Payload)
	}
	return b.String()
}

// Dead letters that are put back come to workers as new ones, in the order of their death.
func TestDeadLettersAreGivenOutAgain(t *testing.T) {
	t.Parallel()
	bubble.Test(t, func(t *testing.T) {
		d, table := newDesk("nothing"), recordstest.New[Message]()
		k := open(t, d, table, Queue{Name: "q", Topic: "#", Deliveries: 1, DeadLetters: 8})
		for i := range int64(3) {
			dies(t, table, fmt.Sprint("k", 3-i), "home/agent/a", "t", 10-i)
		}
		r, err := k.Retry(t.Context(), operator("home"), RetryParams{Chosen: Chosen{Queue: "q/dead"}})
		if err != nil || r != (RetryResult{Retried: 3}) {
			t.Fatalf("%+v, %v", r, err)
		}
		workers := "$queue/q"
		d.filter.Store(&workers)
		for i, became := range []broker.Return{broker.Accepted, broker.Rejected, broker.Accepted} {
			l := d.next()
			if want := fmt.Sprint("k", i+1); string(l.Payload) != want || l.properties() != "" {
				t.Fatalf("%q with %q is given out, not %s", l.Payload, l.properties(), want)
			}
			l.done(became)
		}
		time.Sleep(time.Minute)
		if got := waiting(table, "q/dead"); got != "k2 " {
			t.Errorf("%q are dead letters again", got)
		}
	})
}

// Dead letters are put back by who may, those that are chosen, as far as there is room.
func TestChosenDeadLettersArePutBack(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name       string
		queue      Queue
		waits      []string // topics
		call       *commands.Call
		p          RetryParams
		want       RetryResult
		code       protocol.Code
		back, left string
	}{
		{name: "one publisher", p: RetryParams{By: By{"agent/b"}}, want: RetryResult{1, 3}, back: "b1 ", left: "a1 a2 a3 "},
		{name: "one message", p: RetryParams{ID: "a2"}, want: RetryResult{1, 3}, back: "a2 ", left: "a1 a3 b1 "},
		{name: "no such message", p: RetryParams{ID: "a9"}, code: protocol.NotFound, left: "a1 a2 a3 b1 "},
		{name: "share", queue: Queue{Messages: 8, Share: 25}, want: RetryResult{3, 1}, back: "a1 a2 b1 ", left: "a3 "},
		{name: "full", queue: Queue{Messages: 1}, waits: []string{"x"}, code: protocol.LimitReached, back: "w0 ", left: "a1 a2 a3 b1 "},
		{name: "newest of each topic", queue: Queue{LastValue: true}, want: RetryResult{2, 2}, back: "a3 b1 ", left: "a1 a2 "},
		{name: "newer one waits", queue: Queue{LastValue: true}, waits: []string{"ta"}, want: RetryResult{1, 3}, back: "w0 b1 ", left: "a1 a2 a3 "},
		{name: "queue itself", p: RetryParams{Chosen: Chosen{Queue: "q"}}, code: protocol.InvalidState, left: "a1 a2 a3 b1 "},
		{name: "another space", call: operator("away"), p: RetryParams{Chosen: Chosen{Space: "home"}}, code: protocol.NotFound, left: "a1 a2 a3 b1 "},
		{name: "agent", call: &commands.Call{Principal: publisher("a", "home").Principal()}, code: protocol.PermissionDenied, left: "a1 a2 a3 b1 "},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			bubble.Test(t, func(t *testing.T) {
				table := recordstest.New[Message]()
				c.queue.Name, c.queue.Topic, c.queue.DeadLetters = "q", "#", 8
				k := open(t, newDesk("nothing"), table, c.queue)
				for i, topic := range c.waits {
					m := &Message{Queue: "q", Space: "home", By: "home/agent/c", At: int64(i), Until: time.Now().Add(time.Hour).UnixNano(), Topic: topic, Payload: fmt.Append(nil, "w", i)}
					if _, err := table.Create(t.Context(), fmt.Sprint("w", i), m); err != nil {
						t.Fatal(err)
					}
				}
				for i := range int64(3) {
					dies(t, table, fmt.Sprint("a", i+1), "home/agent/a", "ta", i)
				}
				dies(t, table, "b1", "home/agent/b", "tb", 4)
				if c.call == nil {
					c.call = operator("home")
				}
				if c.p.Queue == "" {
					c.p.Queue = "q/dead"
				}
				r, err := k.Retry(t.Context(), c.call, c.p)
				if r != c.want || protocol.CodeOf(err) != c.code {
					t.Errorf("%+v, %v; not %+v, %q", r, err, c.want, c.code)
				}
				if back, left := waiting(table, "q"), waiting(table, "q/dead"); back != c.back || left != c.left {
					t.Errorf("%q are in the queue and %q dead, not %q and %q", back, left, c.back, c.left)
				}
			})
		})
	}
}

// revived is a table that another bridge works on, too: it puts a dead letter back right
// before that is read here.
type revived struct {
	*recordstest.Memory[Message]
	read string // the key, "" for none
}

func (r *revived) Get(key string) (*Message, uint64, bool) {
	if key == r.read {
		r.read = ""
		r.revive(key)
	}
	return r.Memory.Get(key)
}

func (r *revived) revive(key string) {
	m, revision, _ := r.Memory.Get(key)
	back := *m
	back.Queue, back.Dead = "q", ""
	_, _ = r.Update(context.Background(), key, &back, revision)
}

// A dead letter that is put back stays, although dead letters are purged at the same moment,
// or there are too many of them.
func TestADeadLetterThatIsPutBackIsNotDeleted(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(k *Keeper, table *revived) error{
		"purge": func(k *Keeper, table *revived) error {
			table.read = "k1"
			_, err := k.Purge(t.Context(), operator("home"), PurgeParams{Chosen: Chosen{Queue: "q/dead"}})
			return err
		},
		"too many": func(k *Keeper, table *revived) error {
			table.Before(table.revive)
			k.makeRoom(t.Context(), k.queues["q/dead"], "home")
			return nil
		},
	} {
		table := &revived{Memory: recordstest.New[Message]()}
		for i := range int64(2) {
			dies(t, table.Memory, fmt.Sprint("k", i+1), "home/agent/a", "t", i)
		}
		k := Open(Options{
			Queues: settled(t, Queue{Name: "q", Topic: "#", DeadLetters: 1}), Table: table, Registerer: prometheus.NewRegistry(), Log: slog.New(slog.DiscardHandler),
		})
		if err := end(k, table); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got := waiting(table.Memory, "q"); got != "k1 " {
			t.Errorf("%s: %q are in the queue", name, got)
		}
	}
}

// A message that was published before a dead letter of its topic was put back, and is stored
// while that is, is the newer one.
func TestADeadLetterTakesNoPlaceOfANewerMessage(t *testing.T) {
	t.Parallel()
	bubble.Test(t, func(t *testing.T) {
		d, table := newDesk("nothing"), recordstest.New[Message]()
		k := open(t, d, table, Queue{Name: "q", Topic: "#", LastValue: true, DeadLetters: 8})
		dies(t, table, "old", "home/agent/a", "t", time.Now().Add(-time.Hour).UnixNano())
		now := time.Now()
		newer := &Message{Queue: "q", Space: "home", By: "home/agent/a", At: now.UnixNano() - 1, Until: now.Add(time.Hour).UnixNano(), Topic: "t", Payload: []byte("new")}
		table.Before(func(string) {
			if _, err := table.CreateOnce(t.Context(), "new", newer); err != nil {
				t.Error(err)
			}
		})
		if _, err := k.Retry(t.Context(), operator("home"), RetryParams{Chosen: Chosen{Queue: "q/dead"}}); err != nil {
			t.Error(err)
		}
		workers := "$queue/q"
		d.filter.Store(&workers)
		l := d.next()
		if string(l.Payload) != "new" {
			t.Fatalf("%q is given out", l.Payload)
		}
		l.done(broker.Accepted)
		if l = d.next(); l.Topic != "" || table.Len() != 0 {
			t.Errorf("%q is given out, too; %d records are left", l.Payload, table.Len())
		}
	})
}

// Two who put the same dead letter back at the same moment leave no room taken.
func TestADeadLetterThatIsPutBackTwiceTakesItsRoomOnce(t *testing.T) {
	t.Parallel()
	table := recordstest.New[Message]()
	dies(t, table, "k1", "home/agent/a", "t", 1)
	k := Open(Options{
		Queues: settled(t, Queue{Name: "q", Topic: "#", DeadLetters: 1}), Table: table, Registerer: prometheus.NewRegistry(), Log: slog.New(slog.DiscardHandler),
	})
	again := RetryParams{Chosen: Chosen{Queue: "q/dead"}}
	table.Before(func(string) {
		if r, err := k.Retry(t.Context(), operator("home"), again); err != nil || r.Retried != 1 {
			t.Errorf("%+v, %v", r, err)
		}
	})
	if r, err := k.Retry(t.Context(), operator("home"), again); err != nil || r.Retried != 0 {
		t.Errorf("%+v, %v", r, err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if l := k.lines[lineKey{"q", "home"}]; l.all != l.in {
		t.Errorf("%+v is counted, and %+v is there", l.all, l.in)
	}
}

// A store that takes no writes is told.
func TestDeadLettersStayIfTheStoreIsAway(t *testing.T) {
	t.Parallel()
	bubble.Test(t, func(t *testing.T) {
		table := recordstest.New[Message]()
		k := open(t, newDesk("nothing"), table, Queue{Name: "q", Topic: "#", DeadLetters: 8})
		dies(t, table, "k", "home/agent/a", "t", 1)
		away := errors.New("away")
		table.Break(away)
		if _, err := k.Retry(t.Context(), operator("home"), RetryParams{Chosen: Chosen{Queue: "q/dead"}}); !errors.Is(err, away) {
			t.Errorf("the answer is %v", err)
		}
		k.mu.Lock()
		defer k.mu.Unlock()
		if l := k.lines[lineKey{"q/dead", "home"}]; l.in.messages != 1 || len(k.lines) != 1 {
			t.Errorf("the lines are %v", k.lines)
		}
	})
}

// Figures tell how full a queue is, for how long messages wait, and who works for it.
func TestFiguresOfAQueue(t *testing.T) {
	t.Parallel()
	bubble.Test(t, func(t *testing.T) {
		d, table := newDesk("$queue/q"), recordstest.New[Message]()
		k := open(t, d, table, Queue{Name: "q", Topic: "#", Messages: 4})
		const want = `# HELP aibridge_queue_filled_ratio Part of its room that a queue has used up, in the space where that is most, from 0 to 1.
# TYPE aibridge_queue_filled_ratio gauge
aibridge_queue_filled_ratio{queue="q"} %v
# HELP aibridge_queue_oldest_seconds Age of the message of a queue that has waited longest for a worker, of all spaces; 0 if none waits.
# TYPE aibridge_queue_oldest_seconds gauge
aibridge_queue_oldest_seconds{queue="q"} %v
# HELP aibridge_queue_workers Clients connected to this bridge that work for a queue, of all spaces that have messages in it.
# TYPE aibridge_queue_workers gauge
aibridge_queue_workers{queue="q"} %v
`
		shows := func(filled, oldest, workers float64) {
			t.Helper()
			if err := testutil.CollectAndCompare(figures{k}, strings.NewReader(fmt.Sprintf(want, filled, oldest, workers)), "aibridge_queue_filled_ratio", "aibridge_queue_oldest_seconds", "aibridge_queue_workers"); err != nil {
				t.Error(err)
			}
		}
		shows(0, 0, 0)
		put(t, table, "1", time.Hour)
		first := d.next()
		nobody := "nothing"
		d.filter.Store(&nobody)
		shows(0.25, 0, 1) // a worker has it
		put(t, table, "2", time.Hour)
		time.Sleep(10 * time.Second)
		put(t, table, "3", time.Hour)
		shows(0.75, 10, 1)
		first.done(broker.Abandoned)
		synctest.Wait()
		shows(0.75, 10, 1)
	})
}
