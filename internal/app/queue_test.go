package app_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eclipse/paho.golang/packets"
	"github.com/eclipse/paho.golang/paho"

	"github.com/aibridge/aibridge/doors/mqtt/queue"
	"github.com/aibridge/aibridge/internal/app"
	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/internal/eventually"
)

func queues(c *app.Config) {
	c.Queues = []queue.Queue{{Name: "jobs", Topic: "jobs/#"}, {Name: "small", Topic: "small/+", Messages: 2}, {Name: "shared", Topic: "shared/+", Messages: 8}, {Name: "values", Topic: "values/+", LastValue: true}}
}

// A labourer acknowledges by itself.
type labourer struct {
	*paho.Client
	conn net.Conn
	got  chan *paho.Publish
}

// labour connects a worker that acknowledges nothing, and has it subscribe.
func labour(t *testing.T, n *bridgetest.Node, id, filter string) *labourer {
	t.Helper()
	conn, err := net.Dial("tcp", n.MQTT)
	if err != nil {
		t.Fatal(err)
	}
	w := &labourer{conn: conn, got: make(chan *paho.Publish, 64)}
	w.Client = paho.NewClient(paho.ClientConfig{
		Conn: packets.NewThreadSafeConn(conn), EnableManualAcknowledgment: true, PacketTimeout: bridgetest.Patience,
		OnPublishReceived: []func(paho.PublishReceived) (bool, error){func(p paho.PublishReceived) (bool, error) {
			w.got <- p.Packet
			return true, nil
		}},
	})
	ctx, cancel := context.WithTimeout(context.Background(), bridgetest.Patience)
	defer cancel()
	if _, err := w.Connect(ctx, &paho.Connect{ClientID: id, CleanStart: true}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if _, err := w.Subscribe(ctx, &paho.Subscribe{Subscriptions: []paho.SubscribeOptions{{Topic: filter, QoS: 1}}}); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *labourer) next(t *testing.T) *paho.Publish {
	t.Helper()
	select {
	case p := <-w.got:
		return p
	case <-time.After(bridgetest.Patience):
		t.Fatal("no message comes")
		return nil
	}
}

// takes acknowledges the next message and returns its payload.
func (w *labourer) takes(t *testing.T) string {
	t.Helper()
	p := w.next(t)
	if err := w.Ack(p); err != nil {
		t.Fatal(err)
	}
	return string(p.Payload)
}

// left waits until so many messages of a queue are left.
func left(t *testing.T, n *bridgetest.Node, name string, messages int) {
	t.Helper()
	want := fmt.Sprintf("aibridge_queue_messages{queue=%q} %d\n", name, messages)
	eventually.Holds(t, want, func() bool {
		response, err := bridgetest.HTTPClient(t).Get(n.HTTPURL("/metrics"))
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Contains(string(body), want)
	})
}

// answerTo publishes a message, and returns the reason code of the answer.
func answerTo(t *testing.T, c *bridgetest.Raw, p *paho.Publish) byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), bridgetest.Patience)
	defer cancel()
	answer, err := c.Publish(ctx, p)
	if answer == nil {
		t.Fatal(err)
	}
	return answer.ReasonCode
}

func TestMessagesWaitForWorkers(t *testing.T) {
	t.Parallel()
	n := bridgetest.Start(t, queues)
	speaker, listener := n.Connect(t, "speaker"), n.Connect(t, "listener")
	listener.Listen(t, "jobs/#")
	for i := range 5 {
		speaker.Send(t, fmt.Sprint("jobs/", i), fmt.Sprint(i))
		isTold(t, listener, fmt.Sprint("jobs/", i), fmt.Sprint(i)) // others hear it as ever
	}
	n.Restart(t)
	a := labour(t, n, "a", "$queue/jobs")
	for i := range 2 {
		if got := a.takes(t); got != fmt.Sprint(i) {
			t.Errorf("got %s, not %d", got, i)
		}
	}
	for range 3 {
		a.next(t) // and dies with them
	}
	left(t, n, "jobs", 3)
	_ = a.conn.Close()
	b := labour(t, n, "b", "$queue/jobs/jobs/#")
	for i := 2; i < 5; i++ {
		p := b.next(t)
		if string(p.Payload) != fmt.Sprint(i) || p.Topic != fmt.Sprint("jobs/", i) || p.Duplicate() {
			t.Errorf("got %+v, not %d", p, i)
		}
		_ = b.Ack(p)
	}
	left(t, n, "jobs", 0)
}

func TestAQueueHasBoundsAndRules(t *testing.T) {
	t.Parallel()
	n := bridgetest.Start(t, queues)
	speaker := n.Connect(t, "speaker")
	for i, want := range []byte{0, 0, 0x97} {
		if reason := answerTo(t, speaker, &paho.Publish{Topic: "small/x", QoS: 1, Payload: []byte{byte(i)}}); reason != want {
			t.Errorf("message %d was answered by %#x", i, reason)
		}
	}
	for i, want := range []byte{0, 0, 0x97} { // a quarter of it
		if reason := answerTo(t, speaker, &paho.Publish{Topic: "shared/x", QoS: 1, Payload: []byte{byte(i)}}); reason != want {
			t.Errorf("message %d of one publisher was answered by %#x", i, reason)
		}
	}
	if reason := answerTo(t, speaker, &paho.Publish{Topic: "$queue/small", QoS: 1}); reason != 0x90 {
		t.Errorf("a message to the name of the queue was answered by %#x", reason)
	}
	ctx, cancel := context.WithTimeout(context.Background(), bridgetest.Patience)
	defer cancel()
	for filter, want := range map[string]byte{"$queue/none": 0x8F, "$queue/#": 0x8F, "$queue/small/other": 0x8F, "$queue/small/small/+": 1} {
		answer, _ := speaker.Subscribe(ctx, &paho.Subscribe{Subscriptions: []paho.SubscribeOptions{{Topic: filter, QoS: 1}}})
		if answer.Reasons[0] != want {
			t.Errorf("%s was answered by %#x", filter, answer.Reasons[0])
		}
	}
}

func TestTheNewestOfEachTopicWaits(t *testing.T) {
	t.Parallel()
	n := bridgetest.Start(t, queues)
	speaker := n.Connect(t, "speaker")
	for _, text := range []string{"a1", "b1", "a2", "a3", "b2"} {
		speaker.Send(t, "values/"+text[:1], text)
	}
	w := labour(t, n, "w", "$queue/values")
	got := []string{w.takes(t), w.takes(t)}
	if !slices.Equal(got, []string{"a3", "b2"}) {
		t.Errorf("got %v", got)
	}
	left(t, n, "values", 0)
	speaker.Send(t, "values/a", "a4")
	held := w.next(t)
	speaker.Send(t, "values/a", "a5") // while the worker has the one before
	if got := w.takes(t); got != "a5" {
		t.Errorf("got %s, not a5", got)
	}
	_ = w.Ack(held)
	left(t, n, "values", 0)
}

func TestWorkersOfAllBridgesShareAQueue(t *testing.T) {
	t.Parallel()
	url := startNATS(t)
	var n [3]*bridgetest.Node
	for i, id := range []string{"a", "b", "c"} {
		n[i] = bridgetest.Start(t, beside(t, url, id, n[0]), queues)
	}
	speaker := n[0].Connect(t, "speaker")
	for i := range 10 {
		speaker.Send(t, "jobs/x", fmt.Sprint(i))
	}
	dying := labour(t, n[1], "dying", "$queue/jobs")
	for range 10 {
		dying.next(t)
	}
	n[1].Stop(t) // with what its worker has
	workers := []*labourer{labour(t, n[0], "one", "$queue/jobs"), labour(t, n[2], "two", "$queue/jobs")}
	for i := 10; i < 30; i++ {
		speaker.Send(t, "jobs/x", fmt.Sprint(i))
	}
	seen := make(map[string]bool)
	eventually.Holds(t, "all are taken", func() bool {
		for _, w := range workers {
			select {
			case p := <-w.got:
				if seen[string(p.Payload)] {
					t.Errorf("%s came twice", p.Payload)
				}
				seen[string(p.Payload)] = true
				_ = w.Ack(p)
			default:
			}
		}
		return len(seen) == 30
	})
	left(t, n[0], "jobs", 0)
}
