package broker_test

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/eclipse/paho.golang/paho"

	"github.com/aibridge/aibridge/broker"
	"github.com/aibridge/aibridge/protocol"
)

// TestHandlersAreToldWhenTheyHaveSeenAll puts off every answer until then.
func TestHandlersAreToldWhenTheyHaveSeenAll(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var waiting []string
	n := newHandlingNode(t, func(b *broker.Broker) {
		b.Handle("ask", func(p *broker.Publication) {
			mu.Lock()
			defer mu.Unlock()
			waiting = append(waiting, string(p.Payload))
		})
		b.AfterHandlers(func() {
			mu.Lock()
			answers := waiting
			waiting = nil
			mu.Unlock()
			for _, a := range answers {
				if _, err := b.Publish(protocol.Everybody(protocol.DefaultSpace), protocol.Message{Topic: "answer", Payload: []byte(a), QoS: 1}); err != nil {
					t.Error(err)
				}
			}
		})
	})
	c := n.connect("caller", as("ann"))
	c.subscribe("answer", 1)
	for i := range 50 {
		c.publish(&paho.Publish{Topic: "ask", QoS: 1, Payload: fmt.Append(nil, i)})
	}
	for i := range 50 {
		if got := string(c.receive().Payload); got != fmt.Sprint(i) {
			t.Fatalf("answer %d is %s", i, got)
		}
	}
}

// TestWhatIsPublishedDoesNotLeaveBeforeTheHook counts what is taken and, in the
// hook, what of it is on record: a client that has the answer to the nth
// question knows that n are.
func TestWhatIsPublishedDoesNotLeaveBeforeTheHook(t *testing.T) {
	t.Parallel()
	for name, readers := range map[string]int{"shared readers": 1, "a goroutine for each connection": -1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var taken, recorded atomic.Int64
			n := newHandlingNode(t, func(b *broker.Broker) {
				b.Handle("ask", func(p *broker.Publication) {
					taken.Add(1)
					if _, err := b.Publish(protocol.Everybody(protocol.DefaultSpace), protocol.Message{Topic: "answer", Payload: p.Payload, QoS: 1}); err != nil {
						t.Error(err)
					}
				})
				b.BeforeWrite(func() { recorded.Store(taken.Load()) })
			}, func(o *broker.Options) { o.Readers = readers })
			c := n.connect("caller", as("ann"))
			c.subscribe("answer", 1)
			for i := range 50 {
				c.publish(&paho.Publish{Topic: "ask", QoS: 1, Payload: fmt.Append(nil, i)})
				if got := string(c.receive().Payload); got != fmt.Sprint(i) {
					t.Fatalf("answer %d is %s", i, got)
				}
				if got := recorded.Load(); got < int64(i+1) {
					t.Fatalf("%d answers are here, %d are on record", i+1, got)
				}
			}
		})
	}
}

// TestAReaderInATurnWritesWhatOthersHaveForItsClients has one of two readers stay in a
// turn meanwhile.
func TestAReaderInATurnWritesWhatOthersHaveForItsClients(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("connections share no readers here")
	}
	inTurn, goOn := make(chan struct{}), make(chan struct{})
	var writes atomic.Int64
	n := newHandlingNode(t, func(b *broker.Broker) {
		b.Handle("stay", func(*broker.Publication) {
			close(inTurn)
			<-goOn
		})
		b.BeforeWrite(func() { writes.Add(1) })
	}, func(o *broker.Options) { o.Readers = 2 })
	silent := func(c *paho.Connect) { c.KeepAlive = 0 } // no answers to pings are written
	busy := n.connect("busy", as("ann"), silent)
	busy.subscribe("news", 1)
	idle := n.connect("idle", as("ann"), silent) // of the other reader
	stayed := make(chan struct{})
	go func() {
		defer close(stayed)
		busy.publish(&paho.Publish{Topic: "stay", QoS: 1})
	}()
	<-inTurn
	before := writes.Load()
	for i := range 3 {
		idle.publish(&paho.Publish{Topic: "news", QoS: 1, Payload: fmt.Append(nil, i)})
	}
	if n := writes.Load() - before; n != 3 {
		t.Errorf("%d writes acknowledge 3 messages", n)
	}
	close(goOn)
	for i := range 3 {
		if got := string(busy.receive().Payload); got != fmt.Sprint(i) {
			t.Fatalf("message %d is %s", i, got)
		}
	}
	<-stayed
}

// TestATakenPublicationIsItsHandlersOwn has a handler take what comes, and settle
// it later: nobody else hears it, nothing of it is retained, and the
// acknowledgement says what the handler says, in the order of the client.
func TestATakenPublicationIsItsHandlersOwn(t *testing.T) {
	t.Parallel()
	settling := make(chan func(broker.Verdict), 2)
	n := newHandlingNode(t, func(b *broker.Broker) {
		b.Handle("report", func(p *broker.Publication) {
			settle := p.Take()
			if p.QoS == 0 {
				settle(broker.Verdict{})
				return
			}
			settling <- settle
		})
	}, func(o *broker.Options) { o.Journal = new(broker.MemoryJournal) })
	listener := n.connect("listener", as("ann"))
	listener.subscribe("#", 1)
	c := n.connect("device", as("ann"))
	for qos := range byte(3) {
		for _, verdict := range []byte{0, 0x99} {
			done := make(chan byte, 1)
			go func() {
				ack, _ := c.Publish(t.Context(), &paho.Publish{Topic: "report", QoS: qos, Retain: true, Payload: []byte("secret")})
				if ack == nil {
					ack = &paho.PublishResponse{ReasonCode: 0xFF}
				}
				done <- ack.ReasonCode
			}()
			if qos > 0 {
				settle := <-settling
				select {
				case reason := <-done:
					t.Fatalf("QoS %d is acknowledged with 0x%02X before it is settled", qos, reason)
				default:
				}
				settle(broker.Verdict{Reason: verdict})
			}
			if reason := <-done; qos > 0 && reason != verdict {
				t.Errorf("QoS %d is acknowledged with 0x%02X, want 0x%02X", qos, reason, verdict)
			}
		}
	}
	c.publish(&paho.Publish{Topic: "last", QoS: 1, Payload: []byte("last")})
	if got := string(listener.receive().Payload); got != "last" {
		t.Errorf("others hear %q", got)
	}
	late := n.connect("late", as("ann"))
	late.subscribe("report", 1)
	c.publish(&paho.Publish{Topic: "other", QoS: 1, Payload: []byte("x")})
	if got := string(listener.receive().Payload); got != "x" {
		t.Errorf("heard %q", got)
	}
	for topic := range n.Retained("#") {
		t.Errorf("%s is retained", topic)
	}
}
