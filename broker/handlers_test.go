package broker_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/eclipse/paho.golang/paho"

	"github.com/aibridge/aibridge/broker"
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
				if _, err := b.Publish(broker.Message{Topic: "answer", Payload: []byte(a), QoS: 1}); err != nil {
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
