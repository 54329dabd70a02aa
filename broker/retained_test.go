package broker_test

import (
	"iter"
	"slices"
	"testing"
	"time"

	"github.com/eclipse/paho.golang/paho"

	"github.com/aibridge/aibridge/broker"
	"github.com/aibridge/aibridge/protocol"
)

func TestRetainedTopicsAreListed(t *testing.T) {
	n := newNode(t)
	for _, m := range []protocol.Message{
		{Topic: "a/1", Payload: []byte("x"), Retain: true},
		{Topic: "a/2", Payload: []byte("x"), Retain: true, Expiry: time.Hour},
		{Topic: "a/3", Payload: []byte("x")},
		{Topic: "a/4", Payload: []byte("x"), Retain: true},
		{Topic: "a/4", Retain: true},
		{Topic: "b/1", Payload: []byte("x"), Retain: true},
	} {
		if _, err := n.Publish(protocol.Everybody(protocol.DefaultSpace), m); err != nil {
			t.Fatal(err)
		}
	}
	for filter, want := range map[string][]string{
		"a/+": {"a/1", "a/2"}, "#": {"a/1", "a/2", "b/1"}, "b/1": {"b/1"}, "c/#": nil,
	} {
		if got := slices.Sorted(topics(n.Retained(filter))); !slices.Equal(got, want) {
			t.Errorf("%s covers %q, want %q", filter, got, want)
		}
	}
}

func topics(retained iter.Seq2[string, protocol.SpaceID]) iter.Seq[string] {
	return func(yield func(string) bool) {
		for topic := range retained {
			if !yield(topic) {
				return
			}
		}
	}
}

// TestASubscriberDuringAPublicationGetsWhatItRetains: the SUBSCRIBE is answered when the
// receivers of the message are looked up, and it is not retained yet.
func TestASubscriberDuringAPublicationGetsWhatItRetains(t *testing.T) {
	t.Parallel()
	for name, payload := range map[string]string{"kept": "on", "removed": ""} {
		for _, qos := range []byte{0, 1} {
			t.Run(name+" with QoS "+string('0'+qos), func(t *testing.T) {
				t.Parallel()
				lookedUp, subscribed := make(chan struct{}), make(chan struct{})
				n := newHandlingNode(t, func(b *broker.Broker) {
					b.Handle("lamp/state", func(*broker.Publication) {
						close(lookedUp)
						<-subscribed
					})
				}, func(o *broker.Options) { o.Readers = -1 })
				publisher, subscriber := n.connect("publisher"), n.connect("subscriber")
				published := make(chan struct{})
				go func() {
					defer close(published)
					publisher.publish(&paho.Publish{Topic: "lamp/state", QoS: qos, Retain: true, Payload: []byte(payload)})
				}()
				<-lookedUp
				subscriber.subscribe("lamp/+", qos)
				close(subscribed)
				<-published
				if got := string(subscriber.receive().Payload); got != payload {
					t.Errorf("the subscriber got %q, want %q", got, payload)
				}
			})
		}
	}
}
