package queue

import (
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/aibridge/aibridge/broker"
	"github.com/aibridge/aibridge/internal/records/recordstest"
	"github.com/aibridge/aibridge/protocol"
)

// settled are settings with their defaults.
func settled(t *testing.T, queues ...Queue) []Queue {
	t.Helper()
	CheckQueues(queues, t.Errorf)
	return queues
}

func publisher(id string, space protocol.SpaceID) *broker.Client {
	return broker.NewClient(id, &protocol.Principal{Kind: protocol.KindAgent, ID: id, Space: space, Roles: []string{protocol.RoleEndAgent}})
}

// A full queue of one publisher has room for another one, and of another space.
func TestPublishersHaveShares(t *testing.T) {
	t.Parallel()
	table := recordstest.New[Message]()
	k := Open(Options{
		Queues: settled(t, Queue{Name: "q", Topic: "q/#", Messages: 16}, Queue{Name: "v", Topic: "v/#", Messages: 8, Share: 50, Bytes: 1000, LastValue: true}),
		Table:  table, Registerer: prometheus.NewRegistry(), Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	// publish stores a message that is admitted, and returns the refusal of others.
	publish := func(c *broker.Client, name string, payload int) string {
		t.Helper()
		i := &broker.Inspection{Client: c, Topic: name, Payload: make([]byte, payload)}
		queue, _, _ := strings.Cut(name, "/")
		q := k.queues[queue]
		if v := k.admit(q, i); !v.Allowed() {
			if v.Reason != quotaExceeded {
				t.Errorf("%s was refused with %#x", name, v.Reason)
			}
			return v.Text
		}
		m := messageOf(q, &broker.Publication{Client: c, Message: protocol.Message{Topic: name, Payload: i.Payload}}, time.Now())
		key := fmt.Sprint(table.Writes())
		end, open := k.begin(key, m)
		if !open {
			t.Fatal("the keeper is closed")
		}
		k.store(key, m, end, func(v broker.Verdict) {
			if !v.Allowed() {
				t.Errorf("%s is not stored: %+v", name, v)
			}
		})
		return ""
	}
	fill := func(c *broker.Client, queue string, most int) (n int, refusal string) {
		for ; n < most && refusal == ""; n++ {
			refusal = publish(c, fmt.Sprintf("%s/%s/%d", queue, c.ID, n), 1)
		}
		if refusal != "" {
			n--
		}
		return n, refusal
	}
	const share, full = "the share of a publisher of the queue %s is used up", "the queue %s is full"
	for _, c := range []struct {
		client  *broker.Client
		queue   string
		n       int
		refusal string
	}{
		{publisher("a", "red"), "q", 4, share},
		{publisher("b", "red"), "q", 4, share},
		{publisher("c", "red"), "q", 4, share},
		{publisher("d", "red"), "q", 4, full},
		{publisher("e", "red"), "q", 0, full},
		{publisher("a", "blue"), "q", 4, share},
		{publisher("a", "red"), "v", 4, share},
		{publisher("b", "red"), "v", 4, full},
	} {
		n, refusal := fill(c.client, c.queue, 20)
		if want := fmt.Sprintf(c.refusal, c.queue); n != c.n || refusal != want {
			t.Errorf("%s/%s could publish %d to %s, not %d: %q", c.client.Principal().Home(), c.client.ID, n, c.queue, c.n, refusal)
		}
	}
	a, b := publisher("a", "red"), publisher("b", "red")
	if refusal := publish(a, "v/a/0", 2); refusal != "" {
		t.Errorf("a newer value was refused: %s", refusal)
	}
	if refusal := publish(a, "v/b/0", 1); refusal != fmt.Sprintf(share, "v") {
		t.Errorf("the value of somebody else does not count: %q", refusal)
	}
	if refusal := publish(b, "v/b/0", 2000); refusal != fmt.Sprintf(full, "v") {
		t.Errorf("a newer value may be of any size: %q", refusal)
	}
	if got := testutil.ToFloat64(k.refused.WithLabelValues("q", "principal")); got != 4 {
		t.Errorf("%v refusals for shares are counted", got)
	}
	for key := range table.All() {
		if err := table.Delete(t.Context(), key, 0); err != nil {
			t.Error(err)
		}
	}
	if len(k.lines) != 0 || k.room.Lacks(partyOf("a", "red"), mostAllMessages/4, mostAllBytes/4) != "" {
		t.Errorf("room is left taken: %v", k.lines)
	}
}

// A publisher that is told that its message is stored may send the next one at once: it
// takes its room once, not also that of a message that is being stored.
func TestAStoredMessageTakesItsRoomOnce(t *testing.T) {
	t.Parallel()
	k := Open(Options{
		Queues: settled(t, Queue{Name: "q", Topic: "q", Messages: 2, Share: 100}),
		Table:  recordstest.New[Message](), Registerer: prometheus.NewRegistry(), Log: slog.New(slog.DiscardHandler),
	})
	q, a := k.queues["q"], publisher("a", "red")
	m := messageOf(q, &broker.Publication{Client: a, Message: protocol.Message{Topic: "q"}}, time.Now())
	end, _ := k.begin("1", m)
	k.store("1", m, end, func(v broker.Verdict) {
		if !v.Allowed() {
			t.Errorf("it is not stored: %+v", v)
		}
		if v := k.admit(q, &broker.Inspection{Client: a, Topic: "q"}); !v.Allowed() {
			t.Errorf("the next one is refused: %s", v.Text)
		}
	})
}
