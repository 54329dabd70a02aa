package queue

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/aibridge/aibridge/broker"
	"github.com/aibridge/aibridge/broker/packet"
	"github.com/aibridge/aibridge/internal/bubble"
	"github.com/aibridge/aibridge/internal/records/recordstest"
	"github.com/aibridge/aibridge/protocol"
)

// A desk is the only worker, for one filter.
type desk struct {
	filter atomic.Pointer[string]
	loans  chan loan
}

func newDesk(filter string) *desk {
	d := &desk{loans: make(chan loan, 1)}
	d.filter.Store(&filter)
	return d
}

type loan struct {
	protocol.Message
	done func(broker.Return)
}

func (*desk) Handle(string, func(*broker.Publication))   {}
func (*desk) Subscribers(protocol.SpaceID, []string) int { return 1 }
func (*desk) Inspect(string, broker.Inspector)           {}

func (d *desk) Borrowers(_ protocol.SpaceID, filters []string, _ int) int {
	if !slices.Contains(filters, *d.filter.Load()) || len(d.loans) > 0 {
		return 0
	}
	return packet.MaxRemaining
}

func (d *desk) Lend(_ protocol.SpaceID, filters []string, _ int, m protocol.Message, done func(broker.Return)) bool {
	if d.Borrowers("", filters, 0) == 0 {
		return false
	}
	d.loans <- loan{m, done}
	return true
}

// next is what the worker is given within a minute, "" for nothing.
func (d *desk) next() loan {
	select {
	case l := <-d.loans:
		return l
	case <-time.After(time.Minute):
		return loan{}
	}
}

// properties are the user properties of a loan.
func (l loan) properties() string {
	var b strings.Builder
	for _, u := range l.UserProperties {
		fmt.Fprintf(&b, "%s=%s ", u.Key, u.Value)
	}
	return b.String()
}

// open runs a keeper whose worker is the desk until the end of the test.
func open(t *testing.T, d *desk, table *recordstest.Memory[Message], queues ...Queue) *Keeper {
	k := Open(Options{
		Queues: settled(t, queues...), Table: table, Registerer: prometheus.NewRegistry(), Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	k.Attend(d)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = k.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done; k.working.Wait() })
	return k
}

func put(t *testing.T, table *recordstest.Memory[Message], key string, life time.Duration) {
	t.Helper()
	now := time.Now()
	m := &Message{
		Queue: "q", Space: "home", At: now.UnixNano(), Until: now.Add(time.Hour).UnixNano(), Expires: now.Add(life).UnixNano(), Topic: key,
		User: []protocol.UserProperty{{Key: reasonProperty, Value: "said"}, {Key: "k", Value: "v"}},
	}
	if _, err := table.Create(t.Context(), key, m); err != nil {
		t.Fatal(err)
	}
}

// A message that no worker acknowledges is given to others, and is a dead letter then.
func TestAMessageThatNobodyTakesIsADeadLetter(t *testing.T) {
	t.Parallel()
	bubble.Test(t, func(t *testing.T) {
		d, table := newDesk("$queue/q"), recordstest.New[Message]()
		k := open(t, d, table, Queue{Name: "q", Topic: "#", Deliveries: 3, DeadLetters: 4})
		put(t, table, "1", 30*time.Minute)
		for i, became := range []broker.Return{broker.Abandoned, broker.Rejected, broker.Abandoned} {
			l := d.next()
			want := "k=v "
			if i > 0 {
				want += fmt.Sprintf("x-delivery-count=%d ", i)
			}
			if l.Topic != "1" || l.properties() != want {
				t.Fatalf("delivery %d is %q with %q, not %q", i, l.Topic, l.properties(), want)
			}
			before := time.Now()
			l.done(became)
			if synctest.Wait(); became == broker.Rejected && len(d.loans) > 0 && time.Since(before) < breath {
				t.Error("a message that was rejected is given out at once")
			}
		}
		if l := d.next(); l.Topic != "" {
			t.Errorf("it is given out once more: %v", l)
		}
		graves := "$queue/q/dead"
		d.filter.Store(&graves)
		time.Sleep(2 * time.Hour) // its Message Expiry counts no more
		l := d.next()
		if want := "k=v x-delivery-count=3 x-first-death-queue=q x-first-death-reason=delivery_limit "; l.Topic != "1" || l.properties() != want || l.Expiry != 0 {
			t.Fatalf("the dead letter is %+v", l.Message)
		}
		l.done(broker.Abandoned)
		d.next().done(broker.Accepted)
		synctest.Wait()
		if table.Len() != 0 || testutil.ToFloat64(k.died.WithLabelValues("q", undeliverable)) != 1 {
			t.Errorf("%d are left", table.Len())
		}
	})
}

// A worker that the bridge sends away has had no delivery that counts.
func TestTheEndOfABridgeIsNoDelivery(t *testing.T) {
	t.Parallel()
	bubble.Test(t, func(t *testing.T) {
		d, table := newDesk("$queue/q"), recordstest.New[Message]()
		k := open(t, d, table, Queue{Name: "q", Topic: "#", Deliveries: 1})
		put(t, table, "1", time.Hour)
		l := d.next()
		_ = k.Rest(t.Context())
		l.done(broker.Abandoned)
		l = d.next()
		if l.Topic != "1" {
			t.Fatal("it is gone")
		}
		l.done(broker.Rejected)
		time.Sleep(time.Minute)
		synctest.Wait()
		if table.Len() != 0 || testutil.ToFloat64(k.died.WithLabelValues("q", undeliverable)) != 1 {
			t.Errorf("%d are left", table.Len())
		}
	})
}

// Messages that expire are dead letters, of which the newest are kept, and some of each
// publisher; where none are kept, they are dropped.
func TestExpiredMessagesAreDeadLetters(t *testing.T) {
	t.Parallel()
	for _, kept := range []int{0, 8} {
		t.Run(fmt.Sprint(kept), func(t *testing.T) {
			t.Parallel()
			bubble.Test(t, func(t *testing.T) {
				d, table := newDesk("nothing"), recordstest.New[Message]()
				k := open(t, d, table, Queue{Name: "q", Topic: "#", DeadLetters: kept})
				for i := range 12 {
					put(t, table, fmt.Sprintf("%02d", i), time.Second)
					if i == 3 {
						m, revision, _ := table.Get("03")
						own := *m
						own.By = "home/agent/other"
						if _, err := table.Update(t.Context(), "03", &own, revision); err != nil {
							t.Error(err)
						}
					}
					time.Sleep(2 * interval * sweep)
				}
				synctest.Wait()
				var left []string
				for key, m := range table.All() {
					if m.Dead != expired || m.Queue != "q/dead" {
						t.Errorf("%+v is no dead letter", m)
					}
					left = append(left, key)
				}
				slices.Sort(left)
				want := "03 05 06 07 08 09 10 11"
				if kept == 0 {
					want = ""
				}
				if got := strings.Join(left, " "); got != want {
					t.Errorf("%s are left, not %s", got, want)
				}
				if died := testutil.ToFloat64(k.died.WithLabelValues("q", expired)); died != 12 {
					t.Errorf("%v died", died)
				}
				time.Sleep(200 * time.Hour)
				synctest.Wait()
				k.mu.Lock()
				defer k.mu.Unlock()
				if table.Len() != 0 || len(k.lines) != 0 {
					t.Errorf("%d are left at last", table.Len())
				}
			})
		})
	}
}
