package queue

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/aibridge/aibridge/broker"
	"github.com/aibridge/aibridge/broker/packet"
	"github.com/aibridge/aibridge/internal/records/recordstest"
	"github.com/aibridge/aibridge/protocol"
)

// A bench has one worker, which takes packets up to a size, and everything at once.
type bench struct {
	largest atomic.Int64
	took    chan string
}

func (*bench) Handle(string, func(*broker.Publication))   {}
func (*bench) Subscribers(protocol.SpaceID, []string) int { return 1 }
func (*bench) Inspect(string, broker.Inspector)           {}

func (b *bench) Borrowers(protocol.SpaceID, []string, int) int { return int(b.largest.Load()) }

func (b *bench) Lend(_ protocol.SpaceID, _ []string, _ int, m protocol.Message, done func(broker.Return)) bool {
	p := packet.Publish{Topic: []byte(m.Topic), Payload: m.Payload, QoS: 1, PacketID: 1}
	for _, u := range m.UserProperties {
		p.Properties.AddUser([]byte(u.Key), []byte(u.Value))
	}
	p.Properties.AddSubscriptionID(packet.MaxRemaining)
	if n := len(p.Append(nil, packet.V5)); n > int(b.largest.Load()) {
		return false
	}
	b.took <- m.Topic
	done(broker.Accepted)
	return true
}

// A message that is too large for every worker that is there waits for another one, and
// holds up none behind it.
func TestALargeMessageHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	for _, self := range []string{"", "a/1"} {
		table, worker := recordstest.New[Message](), &bench{took: make(chan string, 8)}
		worker.largest.Store(100)
		k := Open(Options{
			Queues: settled(t, Queue{Name: "q", Topic: "#"}), Table: table, Self: self,
			Gone:       func(context.Context, string) bool { return false },
			Registerer: prometheus.NewRegistry(), Log: slog.New(slog.DiscardHandler),
		})
		k.Attend(worker)
		for i, size := range []int{150, 90, 10} { // topic and properties besides
			m := &Message{Queue: "q", Space: "home", At: int64(i + 1), Until: 1 << 62, Topic: fmt.Sprint(i), Payload: []byte(strings.Repeat("x", size))}
			if i == 1 {
				m.User = []protocol.UserProperty{{Key: "k", Value: "v"}}
			}
			if _, err := table.Create(t.Context(), fmt.Sprint(i), m); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- k.Run(ctx) }()
		if got := <-worker.took; got != "2" {
			t.Errorf("the worker took %s", got)
		}
		for i, largest := range []int64{120, 1000} {
			worker.largest.Store(largest)
			k.alert() // such a worker has come
			if got, want := <-worker.took, fmt.Sprint(1-i); got != want {
				t.Errorf("the worker that takes %d bytes took %s, not %s", largest, got, want)
			}
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if err := k.Close(t.Context()); err != nil {
			t.Error(err)
		}
		writes := 3 * 2 // made, and deleted
		if self != "" {
			writes += 3 // and held
		}
		if got := table.Writes(); got != writes || table.Len() != 0 {
			t.Errorf("%d writes, not %d; %d are left", got, writes, table.Len())
		}
	}
}
